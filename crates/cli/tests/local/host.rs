//! Jobs on the network of the machine (`intranet: Host`).

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use api::{PaddleJob, labels};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::Local;
use crate::training::{self, Jobs, example, learnt, short};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job whose workers say where they are and listen on their port until one came to see.
fn job(name: &str, workers: usize) -> Value {
    let program = "
        import os, socket
        get = os.environ.get
        print('net', os.readlink('/proc/self/ns/net'))
        for name in ['POD_IP', 'PADDLE_PORT', 'PADDLE_TRAINER_ENDPOINTS', 'PADDLE_CURRENT_ENDPOINT']:
            print(name, get(name))
        server = socket.create_server((get('POD_IP'), int(get('PADDLE_PORT'))))
        server.accept()
    ";
    let program: Vec<&str> = program
        .lines()
        .map(|line| line.get(8..).unwrap_or(""))
        .collect();
    let container = json!({
        "name": "paddle", "image": "any", "command": ["python3", "-uc", program.join("\n")],
    });
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": {
            "intranet": "Host",
            "cleanPodPolicy": "Never",
            "worker": {"replicas": workers, "template": {"spec": {"containers": [container]}}},
        },
    })
}

fn port(job: &PaddleJob) -> u16 {
    job.annotations()[labels::HOST_PORT].parse().unwrap()
}

/// What a worker said after a word.
fn said<'l>(log: &'l str, word: &str) -> &'l str {
    let mut lines = log.lines().filter_map(|line| line.strip_prefix(word));
    lines
        .next()
        .unwrap_or_else(|| panic!("no {word} in {log}"))
        .trim()
}

impl Jobs {
    /// The addresses of the first worker and of its node, once it runs.
    async fn addresses(&self, job: &str) -> (String, String) {
        self.phase(job, "Running").await;
        let pod = self.pods.0.get(&format!("{job}-worker-0")).await.unwrap();
        let status = pod.status.unwrap();
        (status.pod_ip.unwrap(), status.host_ip.unwrap())
    }

    /// The condition Scheduled, once it says this.
    async fn waits(&self, job: &str, why: &str) {
        let begin = Instant::now();
        loop {
            let status = self.jobs.get(job).await.unwrap().status.unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let scheduled = conditions.find(|c| c.type_ == "Scheduled");
            if scheduled.is_some_and(|c| c.reason == "Unschedulable" && c.message.contains(why)) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{status:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Comes to see who listens at an address of the machine.
async fn visit(address: SocketAddr) {
    let begin = Instant::now();
    while let Err(error) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
        assert!(begin.elapsed() < PATIENCE, "{address}: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_job_has_ports_of_the_machine_to_itself() {
    let local = Local::start(&["--nodes", "2"]);
    let jobs = Jobs::of(&local).await;
    for name in ["one", "two"] {
        jobs.create(job(name, 1)).await;
    }
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let mut ports = Vec::new();
    for name in ["one", "two"] {
        let (address, node) = jobs.addresses(name).await;
        assert_eq!(address, node, "as Kubernetes has it");
        let port = port(&jobs.jobs.get(name).await.unwrap());
        visit(format!("{address}:{port}").parse().unwrap()).await;
        jobs.phase(name, "Completed").await;
        let log = jobs.log(&format!("{name}-worker-0")).await;
        assert_eq!(said(&log, "net"), own.to_str().unwrap());
        assert_eq!(said(&log, "POD_IP"), address);
        assert_eq!(said(&log, "PADDLE_PORT"), port.to_string());
        for list in ["PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT"] {
            assert_eq!(said(&log, list), format!("{address}:{port}"));
        }
        ports.push(port);
    }
    ports.sort_unstable();
    assert_eq!(ports, [35_000, 35_020]);
}

/// Its nodes are names for one machine, which has every port once.
#[tokio::test]
async fn a_second_worker_has_no_place_and_says_why() {
    let local = Local::start(&["--nodes", "2"]);
    let jobs = Jobs::of(&local).await;
    jobs.create(job("pair", 2)).await;
    jobs.waits(
        "pair",
        "2 node(s) didn't have free ports for the requested pod ports",
    )
    .await;
    // Other jobs have other ports.
    jobs.create(job("single", 1)).await;
    let (address, _) = jobs.addresses("single").await;
    let port = port(&jobs.jobs.get("single").await.unwrap());
    visit(format!("{address}:{port}").parse().unwrap()).await;
    jobs.phase("single", "Completed").await;
}

/// An ordinary user's machine is a namespace: its network is for pods alone.
#[tokio::test]
async fn for_an_ordinary_user_the_network_is_that_of_the_pods() {
    let local = Local::start_as(Some(65534), &[]);
    let jobs = Jobs::of(&local).await;
    jobs.create(job("one", 1)).await;
    let (address, node) = jobs.addresses("one").await;
    assert_eq!(address, node);
    let port = port(&jobs.jobs.get("one").await.unwrap());
    let visit = format!(
        "until python3 -c 'import socket; socket.create_connection((\"{address}\", {port}))' \
         2>/dev/null; do sleep 0.1; done; echo came"
    );
    assert_eq!(jobs.pods.say("visitor", &visit).await, "came\n");
    jobs.phase("one", "Completed").await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(
        said(&jobs.log("one-worker-0").await, "net"),
        own.to_str().unwrap()
    );
    let told = std::fs::read_to_string(local.log()).unwrap();
    assert!(
        told.contains("for an ordinary user, pods reach only each other"),
        "{told}"
    );
}

#[tokio::test]
async fn real_paddle_trains_on_the_network_of_the_machine() {
    let local = training::start();
    let jobs = Jobs::of(&local).await;
    let mut job = short(example("resnet.yaml", "host", "Host"));
    job["spec"]["worker"]["replicas"] = json!(1);
    jobs.create(job).await;
    jobs.phase("host", "Completed").await;
    learnt(&jobs.log("host-worker-0").await);
}
