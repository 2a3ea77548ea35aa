//! Restarts and deaths of the main process.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::support::{Local, Pods, container, script, signal};

const COUNTS: &str = "trap 'exit 0' TERM; i=0; while [ ! -e /go/on ]; do i=$((i+1)); echo $i; sleep 0.05; done; echo end; exit 5";

/// A pod that counts until it is let go.
fn counting(local: &Local, name: &str) -> Value {
    let go = local.dir.parent().unwrap().join("go");
    fs::create_dir_all(&go).unwrap();
    let mut pod = script(name, COUNTS);
    pod["spec"]["volumes"] = json!([{"name": "go", "hostPath": {"path": go}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "go", "mountPath": "/go"}]);
    pod
}

fn let_go(local: &Local) {
    fs::write(local.dir.parent().unwrap().join("go/on"), "").unwrap();
}

async fn counted(pods: &Pods, name: &str) -> usize {
    pods.log(name).await.lines().count()
}

#[tokio::test]
async fn pods_outlive_the_main_process() {
    for user in [None, Some(65534)] {
        let mut local = Local::start_as(user, &[]);
        let pods = local.pods().await;
        pods.create(counting(&local, "counter")).await;
        let before = pods.phase("counter", "Running").await;
        while counted(&pods, "counter").await < 5 {}
        local.kill();
        let log = local.pod_folder().join("containers/main/0/log");
        let lines = || fs::read_to_string(&log).unwrap().lines().count();
        let at_death = lines();
        while lines() < at_death + 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        local.run();
        let pods = local.pods().await;
        assert!(counted(&pods, "counter").await > at_death, "at once");
        let after = pods.phase("counter", "Running").await;
        assert_eq!(after.metadata.uid, before.metadata.uid);
        let_go(&local);
        let pod = pods.phase("counter", "Failed").await;
        assert_eq!(container(&pod).restart_count, 0);
        let end = container(&pod).state.clone().unwrap().terminated.unwrap();
        assert_eq!(end.exit_code, 5);
        let log = pods.log("counter").await;
        let counts = log
            .lines()
            .take_while(|line| *line != "end")
            .map(|line| line.parse().unwrap());
        let counts: Vec<usize> = counts.collect();
        assert!(
            counts.iter().copied().eq(1..=counts.len()),
            "it counts on without a gap"
        );
    }
}

#[tokio::test]
async fn an_end_that_nobody_saw_is_reported() {
    let mut local = Local::start(&[]);
    let pods = local.pods().await;
    pods.create(counting(&local, "counter")).await;
    pods.phase("counter", "Running").await;
    local.kill();
    let_go(&local);
    let folder = local.pod_folder();
    while !folder.join("containers/main/0/exit.json").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    local.run();
    let pod = local.pods().await.phase("counter", "Failed").await;
    let end = container(&pod).state.clone().unwrap().terminated.unwrap();
    assert_eq!(end.exit_code, 5);
}

#[tokio::test]
async fn a_pod_deleted_meanwhile_is_ended() {
    let mut local = Local::start(&[]);
    let pods = local.pods().await;
    pods.create(counting(&local, "counter")).await;
    pods.phase("counter", "Running").await;
    local.kill();
    // Whoever takes the state away has not ended the pods.
    fs::remove_file(local.dir.join("state.redb")).unwrap();
    local.run();
    while fs::read_dir(local.dir.join("pods")).unwrap().count() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives() {
    let mut local = Local::start(&[]);
    for round in 0..5 {
        let maps: Api<ConfigMap> = Api::default_namespaced(local.client().await);
        let map = |n: usize| -> ConfigMap {
            let name = format!("map-{round}-{n}");
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
        };
        for n in 0..10 {
            maps.create(&PostParams::default(), &map(n)).await.unwrap();
        }
        local.kill();
        local.run();
        let maps: Api<ConfigMap> = Api::default_namespaced(local.client().await);
        let found = maps.list(&Default::default()).await.unwrap();
        assert_eq!(found.items.len(), 10 * (round + 1));
    }
}

#[tokio::test]
async fn the_end_is_a_shutdown_of_the_node() {
    let mut local = Local::start(&[]);
    let pods = local.pods().await;
    pods.create(counting(&local, "counter")).await;
    pods.phase("counter", "Running").await;
    local.stop();
    assert_eq!(local.leftovers(), Vec::<String>::new());
    local.run();
    let pod: Pod = local.pods().await.phase("counter", "Failed").await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("Terminated"));
}

#[tokio::test]
async fn a_directory_is_used_by_one() {
    let local = Local::start(&[]);
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_paddle-operator"))
        .args(["local", "--dir"])
        .arg(&local.dir)
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("KUBECONFIG="), "{said}");
}

/// What is written down of the only pod.
fn record(local: &Local, file: &str) -> Value {
    let record = fs::read(local.pod_folder().join(file)).unwrap();
    serde_json::from_slice(&record).unwrap()
}

fn pid(process: &Value) -> u32 {
    process["pid"].as_u64().unwrap().try_into().unwrap()
}

#[tokio::test]
async fn a_container_whose_shim_is_killed_ends_too() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    pods.create(counting(&local, "counter")).await;
    pods.phase("counter", "Running").await;
    let started = record(&local, "containers/main/0/started.json");
    let [shim, first] = ["shim", "first"].map(|name| pid(&started[name]));
    signal(shim, "KILL");
    let pod = pods.phase("counter", "Failed").await;
    let end = container(&pod).state.clone().unwrap().terminated.unwrap();
    assert_eq!(end.reason.as_deref(), Some("ContainerStatusUnknown"));
    while fs::exists(format!("/proc/{first}")).unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        !pods.follow("counter").await.is_empty(),
        "its log has an end"
    );
}

#[tokio::test]
async fn a_pod_whose_sandbox_is_killed_starts_anew() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = counting(&local, "counter");
    pod["spec"]["restartPolicy"] = json!("Always");
    pods.create(pod).await;
    pods.phase("counter", "Running").await;
    signal(pid(&record(&local, "sandbox-process.json")), "KILL");
    pods.until("counter", "started again", |pod| {
        container(pod).restart_count == 1
    })
    .await;
}
