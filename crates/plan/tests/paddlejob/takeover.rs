//! Jobs that a Go operator left behind go on.

use api::{PaddleJob, Phase, Role};
use plan::paddlejob::Plan;
use serde_json::json;

use crate::support::*;

/// A job as the Go operator 0.3.5 left it: no attempt, no replicas, refs with
/// more fields, a finalizer.
fn left_behind(ps: i32, workers: i32) -> Job {
    let reference = |role: Role, rank: i32| {
        let name = plan::names::pod("a", role, rank);
        json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": "default",
            "name": name, "uid": uid(&name), "resourceVersion": "17",
        })
    };
    let role = |role: Role, count: i32| {
        let refs: Vec<_> = (0..count).map(|rank| reference(role, rank)).collect();
        json!({"running": count, "refs": refs})
    };
    let spec = |count: i32| json!({"replicas": count, "template": template()});
    let mut object = json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {
            "name": "a", "namespace": "default", "uid": UID,
            "generation": 1, "resourceVersion": "20",
        },
        "spec": {"intranet": "PodIP", "worker": spec(workers)},
        "status": {
            "phase": "Running", "mode": "PS", "elastic": "NONE",
            "startTime": "2027-01-15T07:00:00Z",
            "worker": role(Role::Worker, workers),
        },
    });
    if ps > 0 {
        object["spec"]["ps"] = spec(ps);
        object["status"]["ps"] = role(Role::Ps, ps);
    }
    let job: PaddleJob = serde_json::from_value(object).unwrap();
    Job(job)
}

/// What it wrote for two workers and a server, with a port drawn by lot.
fn go_map() -> std::collections::BTreeMap<String, String> {
    map(&[
        ("TRAINER_PORTS_NUM", "20"),
        ("PADDLE_PORT", "41234"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.1.1:41234"),
        ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:41234,10.0.2.2:41234"),
        ("PADDLE_TRAINERS", "10.0.2.1,10.0.2.2"),
        ("PADDLE_TRAINERS_NUM", "2"),
    ])
}

fn legacy(p: Pod) -> Pod {
    p.ready().legacy()
}

#[test]
fn a_running_job_is_left_alone() {
    let job = left_behind(1, 2);
    let plan = job.plan(&seen(&job, legacy).config_map(go_map()));
    assert!(plan.is_idle(), "{plan:#?}");
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(plan.status.attempt, Some(0));
    assert_eq!(plan.status.worker.as_ref().unwrap().replicas, 2);
    assert_eq!(plan.status.worker.unwrap().running, 2);
}

/// The ConfigMap is left alone also while the pods are not ready: containers
/// that are started again would meet other ports than their peers.
#[test]
fn its_config_map_is_not_touched() {
    let job = left_behind(1, 2);
    let starting = seen(&job, |p| p.addressed().legacy()).config_map(go_map());
    assert_eq!(job.plan(&starting).config_map, None);
    // Without a ConfigMap its pods wait for ours.
    let waiting = seen(&job, |p| p.addressed().legacy());
    let data = job.plan(&waiting).config_map.unwrap();
    assert_eq!(data["PADDLE_PORT"], "36000");
}

#[test]
fn a_replaced_worker_listens_where_its_peers_do() {
    let job = left_behind(1, 2);
    let gone = seen(&job, legacy).without("worker-1").config_map(go_map());
    let plan = job.plan(&gone);
    assert_eq!(plan.created(), ["a-worker-1"]);
    let env = &plan.pod("a-worker-1")["spec"]["containers"][0]["env"];
    let endpoint = env.as_array().unwrap().iter();
    let mut endpoint = endpoint.filter(|v| v["name"] == "PADDLE_CURRENT_ENDPOINT");
    assert_eq!(endpoint.next().unwrap()["value"], "$(POD_IP):41234");
    // When it has an address and is on record, the lists follow, with that port.
    let key = "PADDLE_OPERATOR_0a1b2c3d_0_1_uid-of-a";
    let reborn = |p: Pod| p.edit(|p| (p.attempt, p.key) = (Some(0), Some(key.to_owned())));
    let seen = seen(&job, legacy)
        .pod("worker-1", |p| reborn(p).addressed())
        .config_map(go_map());
    let data = job.plan(&seen).config_map.unwrap();
    assert_eq!(data["PADDLE_PORT"], "41234");
    assert_eq!(
        data["PADDLE_TRAINER_ENDPOINTS"],
        "10.0.2.1:41234,10.0.2.2:41234"
    );
    assert!(data.contains_key(key));
}

/// It took an unset withGloo for 0: the lists of its jobs get no gloo later,
/// and keep what they have.
#[test]
fn its_gloo_stays_as_it_is() {
    let job = left_behind(1, 2);
    let key = "PADDLE_OPERATOR_0a1b2c3d_0_1_uid-of-a";
    let reborn = |p: Pod| p.edit(|p| (p.attempt, p.key) = (Some(0), Some(key.to_owned())));
    let gloo = |with: &[(&str, &str)]| {
        let mut written = go_map();
        written.extend(map(with));
        let seen = seen(&job, legacy)
            .pod("worker-1", |p| reborn(p).addressed())
            .config_map(written);
        let data = job.plan(&seen).config_map.unwrap();
        data.keys().filter(|key| key.contains("GLOO")).count()
    };
    assert_eq!(gloo(&[]), 0);
    let with = [
        ("PADDLE_WITH_GLOO", "1"),
        ("PADDLE_GLOO_RENDEZVOUS", "3"),
        ("PADDLE_GLOO_HTTP_ENDPOINT", "10.0.1.1:41252"),
    ];
    assert_eq!(gloo(&with), 3);
}

#[test]
fn a_lost_worker_of_a_collective_job_starts_it_again_on_our_port() {
    let job = left_behind(0, 2);
    let gone = seen(&job, legacy).without("worker-1").config_map(go_map());
    let plan = job.plan(&gone);
    assert_eq!(plan.phase(), Phase::Restarting);
    let again = job.status(|status| *status = plan.status);
    let plan = again.plan(&gone);
    assert_eq!(plan.deleted(), ["a-worker-0"]);
    let born: Plan = again.plan(&nothing().config_map(go_map()));
    let env = &born.pod("a-worker-0")["spec"]["containers"][0]["env"];
    let mut env = env.as_array().unwrap().iter();
    let endpoint = env
        .find(|v| v["name"] == "PADDLE_CURRENT_ENDPOINT")
        .unwrap();
    assert_eq!(endpoint["value"], "$(POD_IP):36000");
}

#[test]
fn it_ends_as_any_other() {
    let job = left_behind(1, 2);
    let done = seen(&job, legacy)
        .pod("worker-0", Pod::succeeded)
        .pod("worker-1", Pod::succeeded);
    assert_eq!(job.plan(&done).phase(), Phase::Completed);
    let failed = seen(&job, legacy).pod("worker-0", |p| p.failed(1));
    assert_eq!(job.plan(&failed).phase(), Phase::Failed);
}

/// It wrote phases that only it knew, and an empty one.
#[test]
fn phases_that_only_it_knew_are_no_obstacle() {
    for phase in ["", "Aborted", "Succeed", "Completing"] {
        let job = left_behind(1, 2).edit(|job| {
            let mut object = serde_json::to_value(&*job).unwrap();
            object["status"]["phase"] = phase.into();
            *job = serde_json::from_value(object).unwrap();
        });
        let plan = job.plan(&seen(&job, legacy).config_map(go_map()));
        assert_eq!(plan.phase(), Phase::Running, "{phase:?}");
    }
}

/// The status of a job that had no pods yet has no roles.
#[test]
fn a_job_that_it_had_not_begun_is_begun() {
    let job = left_behind(1, 2).edit(|job| {
        let status = job.status.as_mut().unwrap();
        status.phase = Some(Phase::Pending);
        (status.ps, status.worker) = (None, None);
    });
    let plan = job.plan(&nothing());
    assert_eq!(plan.pods_created.len(), 3);
}
