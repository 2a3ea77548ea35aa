//! What a kubelet and a container runtime do for pods.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::{Api, DeleteParams, LogParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Local, container, phase_of, script};

fn of<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn ends_are_told() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let (phase, log) = pods.run(script("bad", "echo last words; exit 3")).await;
    assert_eq!((phase.as_str(), log.as_str()), ("Failed", "last words\n"));
    let pod = pods.0.get("bad").await.unwrap();
    let end = container(&pod).state.clone().unwrap().terminated.unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));

    let mut missing = script("missing", "");
    missing["spec"]["containers"][0]["command"] = json!(["/no/such/program"]);
    pods.create(missing).await;
    let pod = pods.phase("missing", "Failed").await;
    let end = container(&pod).state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (end.exit_code, end.reason.as_deref()),
        (128, Some("StartError"))
    );
    assert!(end.message.unwrap().contains("/no/such/program"));

    let mut words = script("words", "echo why >/dev/termination-log; kill -9 $$");
    words["spec"]["containers"][0]["command"] = json!([
        "sh",
        "-c",
        "sh -c 'echo why >/dev/termination-log; kill -9 $$'; exit 137"
    ]);
    pods.create(words).await;
    let pod = pods.phase("words", "Failed").await;
    let end = container(&pod).state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (end.exit_code, end.message.as_deref()),
        (137, Some("why\n"))
    );
}

#[tokio::test]
async fn an_unknown_image_says_how_it_can_be_known() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script("unknown", "");
    pod["spec"]["containers"][0]["command"] = json!([]);
    pods.create(pod).await;
    let waits = |pod: &Pod| {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_ref());
        let waiting = statuses.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("ErrImagePull"))
    };
    let pod = pods.until("unknown", "without its image", waits).await;
    let state = container(&pod).state.clone().unwrap().waiting.unwrap();
    assert!(state.message.unwrap().contains("images.yaml"));
}

#[tokio::test]
async fn init_containers_come_first_and_one_after_the_other() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script("ordered", "cat /shared/steps");
    let step = |name: &str| {
        json!({
            "name": name, "image": "any",
            "command": ["sh", "-c", format!("echo {name} >> /shared/steps")],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        })
    };
    pod["spec"]["initContainers"] = json!([step("one"), step("two")]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared"}]);
    pod["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    let (phase, log) = pods.run(pod).await;
    assert_eq!((phase.as_str(), log.as_str()), ("Succeeded", "one\ntwo\n"));

    let mut pod = script("stopped", "echo never");
    pod["spec"]["initContainers"] =
        json!([{"name": "fails", "image": "any", "command": ["sh", "-c", "exit 1"]}]);
    pods.create(pod).await;
    let pod = pods.phase("stopped", "Failed").await;
    assert_eq!(container(&pod).container_id, None, "it was never started");
}

#[tokio::test]
async fn containers_are_started_again_as_the_policy_says() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script(
        "again",
        "echo try >> /shared/tries; [ $(wc -l < /shared/tries) -ge 2 ]",
    );
    pod["spec"]["restartPolicy"] = json!("OnFailure");
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared"}]);
    pod["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    pods.create(pod).await;
    let pod = pods.phase("again", "Succeeded").await;
    assert_eq!(container(&pod).restart_count, 1);

    let mut pod = script("loops", "echo once more; exit 1");
    pod["spec"]["restartPolicy"] = json!("Always");
    pods.create(pod).await;
    let rests = |pod: &Pod| {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_ref());
        let waiting = statuses.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    let pod = pods.until("loops", "resting", rests).await;
    assert_eq!(phase_of(&pod), "Running");
    let last = container(&pod)
        .last_state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(last.exit_code, 1);
    let before = LogParams {
        previous: true,
        ..LogParams::default()
    };
    assert_eq!(pods.0.logs("loops", &before).await.unwrap(), "once more\n");
}

#[tokio::test]
async fn variables_come_from_everywhere() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let client = local.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = of(json!({"metadata": {"name": "map"}, "data": {"A": "from map", "file": "text"}}));
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let secret = of(json!({"metadata": {"name": "secret"}, "stringData": {"key": "word"}}));
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let mut pod = script(
        "env",
        "exec 2>&1; echo \"$A|$B|$C|$NAME|$IP|$CORES|$1\"; cat /map/file /secret/deep/key; touch /map/x",
    );
    pod["spec"]["containers"][0]["args"] = json!(["", "$(B)-$(UNKNOWN)-$$(B)"]);
    pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "map"}}]);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1500m"}});
    pod["spec"]["containers"][0]["env"] = json!([
        {"name": "B", "value": "b"},
        {"name": "C", "value": "$(B)$(A)"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]);
    pod["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": "map"}},
        {"name": "secret", "secret": {"secretName": "secret",
            "items": [{"key": "key", "path": "deep/key"}]}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "map", "mountPath": "/map"}, {"name": "secret", "mountPath": "/secret"},
    ]);
    pods.create(pod).await;
    // It waits for what is missing, says so, and goes on.
    let waits = |pod: &Pod| {
        let status = pod.status.as_ref().unwrap();
        format!("{:?}", status.container_statuses).contains("configmap \\\"map\\\" not found")
    };
    pods.until("env", "waiting for its map", waits).await;
    maps.create(&PostParams::default(), &map).await.unwrap();
    let pod = pods.phase("env", "Failed").await;
    let address = pod.status.unwrap().pod_ip.unwrap();
    let want = format!(
        "from map|b|bfrom map|env|{address}|2|b-$(UNKNOWN)-$(B)\ntextwordtouch: cannot touch \
         '/map/x': Read-only file system\n"
    );
    assert_eq!(pods.log("env").await, want);
}

#[tokio::test]
async fn deletion_gives_time_and_then_takes_it() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done";
    pods.create(script("polite", polite)).await;
    pods.phase("polite", "Running").await;
    let follow = pods.follow("polite");
    let delete = async {
        while !pods.log("polite").await.contains("up") {}
        pods.delete("polite").await;
    };
    let (said, ()) = tokio::join!(follow, delete);
    assert_eq!(said, "up\nbye\n");

    pods.create(script(
        "stubborn",
        "trap '' TERM; while :; do sleep 1; done",
    ))
    .await;
    pods.phase("stubborn", "Running").await;
    let soon = DeleteParams::default().grace_period(1);
    pods.0.delete("stubborn", &soon).await.unwrap();
    while pods.0.get_opt("stubborn").await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_a_pod() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script("late", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    pod["spec"]["activeDeadlineSeconds"] = json!(1);
    pods.create(pod).await;
    let pod = pods.phase("late", "Failed").await;
    assert_eq!(
        pod.status.unwrap().reason.as_deref(),
        Some("DeadlineExceeded")
    );
}

#[tokio::test]
async fn probes_decide_what_is_ready_and_alive() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script("probed", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    pod["spec"]["restartPolicy"] = json!("Always");
    let probe = |file: &str| {
        json!({
            "exec": {"command": ["test", "-e", file]}, "periodSeconds": 1, "timeoutSeconds": 60,
        })
    };
    pod["spec"]["containers"][0]["readinessProbe"] = probe("/ready");
    let mut alive = probe("/etc/hosts-gone");
    alive["exec"]["command"] = json!(["test", "!", "-e", "/dead"]);
    alive["failureThreshold"] = json!(1);
    pod["spec"]["containers"][0]["livenessProbe"] = alive;
    pods.create(pod).await;
    let pod = pods.phase("probed", "Running").await;
    assert!(!container(&pod).ready);
    pods.exec("probed", &["touch", "/ready"]).await;
    pods.until("probed", "ready", |pod| container(pod).ready)
        .await;
    pods.exec("probed", &["touch", "/dead"]).await;
    pods.until("probed", "started again", |pod| {
        container(pod).restart_count == 1
    })
    .await;
}

#[tokio::test]
async fn commands_run_in_containers() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script("host", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "a"}]);
    pods.create(pod).await;
    pods.phase("host", "Running").await;
    let (said, well) = pods
        .exec("host", &["sh", "-c", "echo $A; hostname; id -u"])
        .await;
    assert_eq!((said.as_str(), well), ("a\nhost\n0\n", true));
    let (_, well) = pods.exec("host", &["false"]).await;
    assert!(!well);
}

#[tokio::test]
async fn pods_find_each_other_by_the_names_of_services() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let services: Api<Service> = Api::default_namespaced(local.client().await);
    let service = of(json!({
        "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "server"}, "ports": [{"port": 80}]},
    }));
    services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    pods.create(script(
        "server",
        "trap 'exit 0' TERM; while :; do sleep 0.1; done",
    ))
    .await;
    let pod = pods.phase("server", "Running").await;
    let address = pod.status.unwrap().pod_ip.unwrap();
    let client =
        "until getent hosts web.default; do sleep 0.1; done; getent hosts web | cut -d' ' -f1";
    let said = pods.say("client", client).await;
    assert!(said.ends_with(&format!("{address}\n")), "{said}");
}

#[tokio::test]
async fn users_and_rights_are_as_the_pod_says() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    let mut pod = script(
        "user",
        "id -u; id -g; id -G; grep CapEff /proc/self/status; touch /x",
    );
    pod["spec"]["securityContext"] =
        json!({"runAsUser": 1234, "runAsGroup": 99, "supplementalGroups": [7]});
    let (_, log) = pods.run(pod).await;
    let want =
        "1234\n99\n99 7\nCapEff:\t0000000000000000\ntouch: cannot touch '/x': Permission denied\n";
    assert_eq!(log, want);

    let mut pod = script(
        "none",
        "grep -E 'CapBnd|NoNewPrivs' /proc/self/status; touch /x",
    );
    pod["spec"]["containers"][0]["securityContext"] = json!({
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
    });
    let (_, log) = pods.run(pod).await;
    let want = "CapBnd:\t0000000000000400\nNoNewPrivs:\t1\ntouch: cannot touch '/x': Read-only file system\n";
    assert_eq!(log, want);

    let mut pod = script("root", "true");
    pod["spec"]["securityContext"] = json!({"runAsNonRoot": true});
    pods.create(pod).await;
    let refused = |pod: &Pod| format!("{:?}", pod.status).contains("runAsNonRoot");
    pods.until("root", "refused", refused).await;
}

#[tokio::test]
async fn a_change_of_a_pod_is_seen_where_it_can_be() {
    let local = Local::start(&[]);
    let pods = local.pods().await;
    pods.create(script(
        "labelled",
        "trap 'exit 0' TERM; while :; do sleep 0.1; done",
    ))
    .await;
    pods.phase("labelled", "Running").await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods.0
        .patch("labelled", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let pod = pods.until("labelled", "labelled", |pod| {
        pod.metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key("a"))
    });
    assert_eq!(container(&pod.await).restart_count, 0);
}
