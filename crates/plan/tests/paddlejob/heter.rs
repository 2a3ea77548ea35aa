//! Heterogeneous training: the names that Paddle reads, and when it is over.

use api::{Phase, Role};
use serde_json::{Value, json};

use crate::support::*;

fn heter() -> Job {
    job("a").ps(1).workers(2).role(Role::Heter, 1, template())
}

/// The variables of a pod that are about stages.
fn stages(job: &Job, pod: &str) -> Vec<Value> {
    let plan = job.plan(&nothing());
    let env = plan.pod(pod)["spec"]["containers"][0]["env"].clone();
    let about = |variable: &&Value| {
        let name = variable["name"].as_str().unwrap();
        name.contains("HETER") || name.contains("STAGE")
    };
    env.as_array()
        .unwrap()
        .iter()
        .filter(about)
        .cloned()
        .collect()
}

fn listed(name: &str, key: &str) -> Value {
    json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "a", "key": key}}})
}

#[test]
fn every_role_learns_its_stage_and_its_neighbours() {
    assert_eq!(
        stages(&heter(), "a-worker-1"),
        [
            json!({"name": "STAGE_ID", "value": "1"}),
            json!({"name": "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST", "value": ""}),
            listed(
                "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST",
                "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"
            ),
            json!({"name": "HETER_DEVICE_TYPE", "value": "cpu"}),
        ]
    );
    assert_eq!(
        stages(&heter(), "a-heter-0"),
        [
            json!({"name": "STAGE_ID", "value": "2"}),
            listed(
                "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST",
                "PADDLE_TRAINER_ENDPOINTS"
            ),
            json!({"name": "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST", "value": ""}),
            json!({"name": "HETER_DEVICE_TYPE", "value": "cpu"}),
        ]
    );
    assert!(stages(&heter(), "a-ps-0").is_empty());
    let plan = heter().plan(&nothing());
    let env = plan.pod("a-heter-0")["spec"]["containers"][0]["env"].clone();
    let role = json!({"name": "TRAINING_ROLE", "value": "HETER_TRAINER"});
    assert!(env.as_array().unwrap().contains(&role));
}

#[test]
fn the_device_is_what_the_template_asks_for() {
    for (resource, device) in [
        ("nvidia.com/gpu", "gpu"),
        ("baidu.com/xpu", "xpu"),
        ("cpu", "cpu"),
    ] {
        let template = json!({"spec": {"containers": [{
            "name": "paddle",
            "image": "p",
            "resources": {"limits": {resource: 1}},
        }]}});
        let job = heter().role(Role::Heter, 1, template);
        let want = json!({"name": "HETER_DEVICE_TYPE", "value": device});
        assert!(stages(&job, "a-heter-0").contains(&want), "{resource}");
    }
}

#[test]
fn lists_have_all_stages() {
    let job = heter().recorded();
    let data = job.plan(&seen(&job, Pod::addressed)).config_map.unwrap();
    for (key, want) in [
        ("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", "10.0.3.1:36000"),
        ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:36000,10.0.2.2:36000"),
        ("PADDLE_TRAINERS_NUM", "2"),
        ("STAGE_NUM", "2"),
        ("PADDLE_STAGE_TRAINERS_NUM", "[2, 1]"),
    ] {
        assert_eq!(data.get(key).map(String::as_str), Some(want), "{key}");
    }
}

/// Its rendezvous has no place for heter trainers, and these end at the first barrier.
#[test]
fn gloo_is_there_only_when_it_is_asked_for() {
    for (asked, want) in [(None, None), (Some(0), None), (Some(1), Some("1"))] {
        let job = heter().spec(|spec| spec.with_gloo = asked).recorded();
        let data = job.plan(&seen(&job, Pod::addressed)).config_map.unwrap();
        let gloo = data.get("PADDLE_WITH_GLOO").map(String::as_str);
        assert_eq!(gloo, want, "{asked:?}");
    }
}

/// PS, then heter trainers, then workers.
#[test]
fn workers_wait_for_heter_trainers_too() {
    let plan = heter().plan(&nothing());
    let waits = |pod: &str| plan.pod(pod)["spec"]["initContainers"][0]["args"].clone();
    assert_eq!(
        waits("a-worker-0"),
        json!(["wait", "--servers", "--heters"])
    );
    assert_eq!(waits("a-heter-0"), json!(["wait", "--servers"]));
}

/// Heter trainers never end by themselves, as servers don't.
#[test]
fn the_job_is_complete_when_its_workers_are() {
    let job = heter().running();
    let mut done = seen(&job, Pod::ready);
    for worker in ["worker-0", "worker-1"] {
        assert_eq!(job.plan(&done).phase(), Phase::Running);
        done = done.pod(worker, Pod::succeeded);
    }
    let plan = job.plan(&done);
    assert_eq!(plan.phase(), Phase::Completed);
    assert_eq!(plan.status.heter.unwrap().succeeded, 1);
    let ended = job.ended(Phase::Completed, now());
    let gone = ended.plan(&done).deleted().join(" ");
    assert!(
        gone.contains("a-heter-0") && gone.contains("a-ps-0"),
        "{gone}"
    );
}

/// They hold the addresses of all workers.
#[test]
fn a_worker_that_is_gone_starts_the_job_again() {
    let job = heter().running();
    let plan = job.plan(&seen(&job, Pod::ready).without("worker-1"));
    assert_eq!(plan.status.attempt, Some(1));
}

#[test]
fn heter_trainers_alone_are_no_job() {
    for (job, missing) in [
        (job("a").workers(1).role(Role::Heter, 1, template()), "ps"),
        (job("a").ps(1).role(Role::Heter, 1, template()), "worker"),
    ] {
        assert_eq!(
            job.plan(&nothing()).condition("Scheduled"),
            format!(
                "False InvalidSpec: spec.heter is set, and spec.{missing} is not; heter trainers need parameter servers and workers beside them"
            )
        );
    }
}
