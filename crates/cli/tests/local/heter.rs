//! Heterogeneous jobs: what the real Paddle understands of its variables.
//!
//! Its own passes for such jobs are broken in Paddle 3.0.0, so that no program trains with
//! them; its role maker, which reads the variables, is not.

use serde_json::{Value, json};

use crate::training::{self, Jobs};

/// Says what the role maker understood. Servers and heter trainers listen, as the real ones
/// do, and never end by themselves.
const PROGRAM: &str = r#"
import json, os, socket, time
import paddle
from paddle.distributed import fleet
paddle.enable_static()
fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
role = fleet.fleet._role_maker
said = {
    "id": role._role_id(),
    "workers": role._worker_num(),
    "servers": role._get_pserver_endpoints(),
    "heters": role._get_heter_worker_endpoints(),
}
if not role._is_server():
    said["stage"] = [role._get_stage_id(), role._get_num_stage(), role._get_stage_trainers()]
    said["before"], said["behind"] = role._get_previous_trainers(), role._get_next_trainers()
    # As fleet.init_worker() does.
    fleet.util.barrier()
if role._is_heter_worker():
    said["device"] = role._heter_device_type()
print("SAID", json.dumps(said))
if not role._is_worker():
    server = socket.create_server((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
    time.sleep(1e9)
"#;

fn heter() -> Value {
    let role = json!({"replicas": 1, "template": {"spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "paddle",
            "image": "paddlepaddle/paddle:3.0.0",
            "command": ["python", "-c", PROGRAM],
            "env": [{"name": "FLAGS_enable_pir_api", "value": "0"}],
        }],
    }}});
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "heter"},
        // Logs are read when all is over.
        "spec": {"cleanPodPolicy": "Never", "ps": role, "worker": role, "heter": role},
    })
}

#[tokio::test]
async fn the_real_role_maker_knows_stages_and_neighbours() {
    let local = training::start();
    let jobs = Jobs::of(&local).await;
    jobs.create(heter()).await;
    jobs.phase("heter", "Completed").await;
    let mut endpoints = Vec::new();
    for role in ["ps", "worker", "heter"] {
        let pod = jobs.pods.0.get(&format!("heter-{role}-0")).await.unwrap();
        endpoints.push(format!("{}:36000", pod.status.unwrap().pod_ip.unwrap()));
    }
    let [ps, worker, heter] = &endpoints[..] else {
        panic!("{endpoints:?}");
    };
    let all = json!({"id": 0, "workers": 1, "servers": [ps], "heters": [heter]});
    let of = |own: Value| {
        let mut said = all.as_object().unwrap().clone();
        said.extend(own.as_object().unwrap().clone());
        Value::Object(said)
    };
    for (role, want) in [
        ("ps", of(json!({}))),
        (
            "worker",
            of(json!({"stage": [1, 2, [1, 1]], "before": [], "behind": [heter]})),
        ),
        (
            "heter",
            of(json!({
                // After those of the workers.
                "id": 1,
                "stage": [2, 2, [1, 1]], "before": [worker], "behind": [], "device": "cpu",
            })),
        ),
    ] {
        let log = jobs.log(&format!("heter-{role}-0")).await;
        let mut said = log.lines().filter_map(|line| line.strip_prefix("SAID "));
        let said = said.next().unwrap_or_else(|| panic!("{role}: {log}"));
        let said: Value = serde_json::from_str(said).unwrap();
        assert_eq!(said, want, "{role}: {log}");
    }
    // Only the worker ended by itself.
    for role in ["ps", "heter"] {
        let stopped = jobs.pods.phase(&format!("heter-{role}-0"), "Failed").await;
        let reason = stopped.status.unwrap().reason;
        assert_eq!(reason.as_deref(), Some("DeadlineExceeded"), "{role}");
    }
}
