//! What Paddle is told, for both generations of it: the variables of a pod and
//! the lists in the ConfigMap.

use std::collections::BTreeMap;

use api::Role;
use serde_json::{Value, json};

use crate::support::*;

const KEY_VARIABLE: &str = "PADDLE_OPERATOR_KEY";

/// The data of the ConfigMap of a job all of whose pods have addresses.
fn published(job: Job) -> BTreeMap<String, String> {
    let job = job.recorded();
    let plan = job.plan(&seen(&job, Pod::addressed));
    plan.config_map.unwrap()
}

fn gloo(job: Job, value: Option<i32>) -> Job {
    job.spec(|spec| spec.with_gloo = value)
}

/// The lists of a job, as (key, value), without those that every job has.
fn want(lists: &[(&str, &str)], gloo: &[(&str, &str)]) -> BTreeMap<String, String> {
    let common = [
        ("TRAINER_PORTS_NUM", "20"),
        ("PADDLE_PORT", "36000"),
        (FIRST_KEY, "1"),
    ];
    map(&[&common, lists, gloo].concat())
}

const PS_POD_IP: [(&str, &str); 4] = [
    (
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "10.0.1.1:36000,10.0.1.2:36000",
    ),
    ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:36000,10.0.2.2:36000"),
    ("PADDLE_TRAINERS", "10.0.2.1,10.0.2.2"),
    ("PADDLE_TRAINERS_NUM", "2"),
];
const PS_SERVICE: [(&str, &str); 4] = [
    (
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "a-ps-0.default:36000,a-ps-1.default:36000",
    ),
    (
        "PADDLE_TRAINER_ENDPOINTS",
        "a-worker-0.default:36000,a-worker-1.default:36000",
    ),
    ("PADDLE_TRAINERS", "a-worker-0.default,a-worker-1.default"),
    ("PADDLE_TRAINERS_NUM", "2"),
];
const COLLECTIVE_POD_IP: [(&str, &str); 3] = [
    ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:36000,10.0.2.2:36000"),
    ("PADDLE_TRAINERS", "10.0.2.1,10.0.2.2"),
    ("PADDLE_TRAINERS_NUM", "2"),
];
const COLLECTIVE_SERVICE: [(&str, &str); 3] = [
    (
        "PADDLE_TRAINER_ENDPOINTS",
        "a-worker-0.default:36000,a-worker-1.default:36000",
    ),
    ("PADDLE_TRAINERS", "a-worker-0.default,a-worker-1.default"),
    ("PADDLE_TRAINERS_NUM", "2"),
];
const SINGLE_POD_IP: [(&str, &str); 3] = [
    ("PADDLE_TRAINER_ENDPOINTS", "10.0.2.1:36000"),
    ("PADDLE_TRAINERS", "10.0.2.1"),
    ("PADDLE_TRAINERS_NUM", "1"),
];
const SINGLE_SERVICE: [(&str, &str); 3] = [
    ("PADDLE_TRAINER_ENDPOINTS", "a-worker-0.default:36000"),
    ("PADDLE_TRAINERS", "a-worker-0.default"),
    ("PADDLE_TRAINERS_NUM", "1"),
];

#[test]
fn lists_of_every_mode_and_intranet() {
    let ps = || job("a").ps(2).workers(2);
    // Gloo's port differs from the server's own: the same one hangs.
    let gloo_at = |level, endpoint| {
        vec![
            ("PADDLE_WITH_GLOO", level),
            ("PADDLE_GLOO_RENDEZVOUS", "3"),
            ("PADDLE_GLOO_HTTP_ENDPOINT", endpoint),
        ]
    };
    let (ip, name) = ("10.0.1.1:36018", "a-ps-0.default:36018");
    for (level, want_gloo) in [
        (None, Some("1")),
        (Some(0), None),
        (Some(1), Some("1")),
        (Some(2), Some("2")),
    ] {
        let by_ip = want_gloo.map_or_else(Vec::new, |level| gloo_at(level, ip));
        let by_name = want_gloo.map_or_else(Vec::new, |level| gloo_at(level, name));
        let cases = [
            ("PS PodIP", ps(), &PS_POD_IP[..], &by_ip),
            ("PS Service", ps().service(), &PS_SERVICE[..], &by_name),
            // Gloo needs a parameter server to meet at.
            (
                "Collective PodIP",
                job("a").workers(2),
                &COLLECTIVE_POD_IP[..],
                &vec![],
            ),
            (
                "Collective Service",
                job("a").workers(2).service(),
                &COLLECTIVE_SERVICE[..],
                &vec![],
            ),
            (
                "Single PodIP",
                job("a").workers(1),
                &SINGLE_POD_IP[..],
                &vec![],
            ),
            (
                "Single Service",
                job("a").workers(1).service(),
                &SINGLE_SERVICE[..],
                &vec![],
            ),
        ];
        for (case, job, lists, gloo_keys) in cases {
            assert_eq!(
                published(gloo(job, level)),
                want(lists, gloo_keys),
                "{case}, withGloo {level:?}"
            );
        }
    }
}

#[test]
fn parameter_servers_alone_are_a_job() {
    let data = published(job("a").ps(1));
    let want_gloo = [
        ("PADDLE_WITH_GLOO", "1"),
        ("PADDLE_GLOO_RENDEZVOUS", "3"),
        ("PADDLE_GLOO_HTTP_ENDPOINT", "10.0.1.1:36018"),
    ];
    assert_eq!(
        data,
        want(
            &[("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.1.1:36000")],
            &want_gloo
        )
    );
}

/// The environment of the paddle container of a new pod.
fn env(job: &Job, pod: &str) -> Vec<Value> {
    let plan = job.plan(&nothing());
    let containers = plan.pod(pod)["spec"]["containers"].as_array().unwrap();
    let paddle = containers.iter().find(|c| c["name"] == "paddle").unwrap();
    paddle["env"].as_array().unwrap().clone()
}

fn value(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn pod_ip() -> Value {
    json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
}

fn key(key: &str) -> Value {
    json!({"name": KEY_VARIABLE, "valueFrom": {"configMapKeyRef": {"name": "a", "key": key}}})
}

#[test]
fn variables_of_every_role_and_intranet() {
    let ps = job("a").ps(2).workers(2);
    let named = ps.clone().service();
    let cases = [
        (&ps, "a-ps-1", pod_ip(), "1", "PSERVER"),
        (&ps, "a-worker-0", pod_ip(), "0", "TRAINER"),
        (
            &named,
            "a-ps-1",
            value("POD_IP", "a-ps-1.default"),
            "1",
            "PSERVER",
        ),
        (
            &named,
            "a-worker-0",
            value("POD_IP", "a-worker-0.default"),
            "0",
            "TRAINER",
        ),
    ];
    for (job, pod, want_ip, want_rank, want_role) in cases {
        let want = vec![
            want_ip,
            value("PADDLE_TRAINER_ID", want_rank),
            value("TRAINING_ROLE", want_role),
            value("PADDLE_TRAINING_ROLE", want_role),
            // A literal port: $(…) does not see what envFrom brings.
            value("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):36000"),
            value("PADDLE_JOB_ID", "0a1b2c3d-default-a"),
            key(FIRST_KEY),
        ];
        assert_eq!(env(job, pod), want, "{pod}");
    }
}

/// Paddle looks up the endpoint of the worker with this number, in a server too.
#[test]
fn a_server_beyond_the_last_worker_has_no_trainer_id() {
    let has_id = |job: &Job, pod: &str| {
        let variables = env(job, pod);
        variables
            .iter()
            .any(|variable| variable["name"] == "PADDLE_TRAINER_ID")
    };
    let few = job("a").ps(2).workers(1);
    assert!(has_id(&few, "a-ps-0") && has_id(&few, "a-worker-0"));
    assert!(!has_id(&few, "a-ps-1"));
    assert!(
        has_id(&job("a").ps(2), "a-ps-1"),
        "there is no list of workers"
    );
}

#[test]
fn the_config_map_comes_as_environment_after_the_users_own() {
    let template = json!({"spec": {"containers": [{
        "name": "paddle",
        "envFrom": [{"secretRef": {"name": "keys"}}],
    }]}});
    let plan = job("a").role(Role::Worker, 1, template).plan(&nothing());
    let pod = plan.pod("a-worker-0");
    let want = json!([{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "a"}}]);
    assert_eq!(pod["spec"]["containers"][0]["envFrom"], want);
}

#[test]
fn variables_that_the_user_set_are_left_alone() {
    let mine = json!([
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "PADDLE_JOB_ID", "value": "mine"},
        {"name": "PADDLE_PORT", "value": "7000"},
        {"name": "GLOG_v", "value": "3"},
    ]);
    let template = json!({"spec": {"containers": [{"name": "paddle", "env": mine}]}});
    let found = env(&job("a").role(Role::Worker, 1, template), "a-worker-0");
    let mut want = mine.as_array().unwrap().clone();
    want.extend([
        value("PADDLE_TRAINER_ID", "0"),
        value("TRAINING_ROLE", "TRAINER"),
        value("PADDLE_TRAINING_ROLE", "TRAINER"),
        value("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):36000"),
        key(FIRST_KEY),
    ]);
    assert_eq!(found, want);
}

#[test]
fn the_container_called_paddle_is_told_or_else_the_first() {
    let told = |containers: Value| -> Vec<String> {
        let template = json!({"spec": {"containers": containers}});
        let plan = job("a").role(Role::Worker, 1, template).plan(&nothing());
        let containers = plan.pod("a-worker-0")["spec"]["containers"].clone();
        containers
            .as_array()
            .unwrap()
            .iter()
            .filter(|container| container.get("env").is_some())
            .map(|container| container["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        told(json!([{"name": "proxy"}, {"name": "paddle"}])),
        ["paddle"]
    );
    assert_eq!(told(json!([{"name": "main"}, {"name": "proxy"}])), ["main"]);
}

/// Each start of an elastic launcher deletes the keys that begin with its id.
#[test]
fn no_job_id_is_the_beginning_of_another() {
    let id = |uid: &str, name: &str| -> String {
        let job = job(name)
            .workers(1)
            .edit(|job| job.metadata.uid = Some(uid.to_owned()));
        let pod = format!("{name}-worker-0");
        let env = env(&job, &pod);
        let variable = env.iter().find(|v| v["name"] == "PADDLE_JOB_ID").unwrap();
        variable["value"].as_str().unwrap().to_owned()
    };
    let short = id("0a1b2c3d-1111-2222-3333-444455556666", "a");
    let long = id("1a1b2c3d-1111-2222-3333-444455556666", "a0");
    assert_eq!(short, "0a1b2c3d-default-a");
    assert_eq!(long, "1a1b2c3d-default-a0");
    assert!(!long.starts_with(&short));
}

/// A pod of a new job, attempt or size, or one that replaces another, requires
/// a key that no earlier ConfigMap has had.
#[test]
fn every_birth_has_a_key_of_its_own() {
    let required = |job: &Job, seen: &plan::paddlejob::Seen, pod: &str| -> String {
        let plan = job.plan(seen);
        let pod = plan.pod(pod);
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let key = env.iter().find(|v| v["name"] == KEY_VARIABLE).unwrap();
        let key = key["valueFrom"]["configMapKeyRef"]["key"].as_str().unwrap();
        let told = &pod["metadata"]["annotations"]["batch.paddlepaddle.org/key"];
        assert_eq!(told, key);
        key.to_owned()
    };
    let new = job("a").ps(1).workers(2);
    assert_eq!(required(&new, &nothing(), "a-worker-1"), FIRST_KEY);
    let again = new.clone().recorded().attempt(3).status(|status| {
        for role in Role::ALL {
            if let Some(role) = status.role_mut(role) {
                role.refs.clear();
            }
        }
    });
    assert_eq!(
        required(&again, &nothing(), "a-worker-1"),
        "PADDLE_OPERATOR_0a1b2c3d_3_1"
    );
    let another = new
        .clone()
        .edit(|job| job.metadata.uid = Some("ffff0000-1".to_owned()));
    assert_eq!(
        required(&another, &nothing(), "a-worker-1"),
        "PADDLE_OPERATOR_ffff0000_0_1"
    );
    let running = new.running();
    let seen_all = seen(&running, Pod::ready);
    let grown = running.clone().scaled(Role::Worker, 3);
    assert_eq!(
        required(&grown, &seen_all, "a-worker-2"),
        "PADDLE_OPERATOR_0a1b2c3d_0_2"
    );
    let lost = seen_all.without("worker-1");
    assert_eq!(
        required(&running, &lost, "a-worker-1"),
        "PADDLE_OPERATOR_0a1b2c3d_0_1_uid-of-a"
    );
}
