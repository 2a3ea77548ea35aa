//! What Paddle learns of its job: variables in the pod and the lists in the
//! ConfigMap. Two generations of Paddle read two sets of names; both are here.

use std::collections::BTreeMap;

use api::{PaddleJob, Role};
use serde_json::{Value, json};

use super::mode::{Intranet, replicas};
use super::{elastic, heter};
use crate::names;

/// The first of the ports of a pod: Paddle's own default range begins here.
pub const BASE_PORT: u16 = 36000;
/// How many ports from the first one on belong to a pod.
pub const PORTS: u16 = 20;
/// Where gloo's rendezvous listens, counted from the first port: it hangs when
/// it shares a port with the parameter server.
const GLOO_PORT_OFFSET: u16 = 18;

/// The variable by which a container requires its key of the ConfigMap.
pub const KEY_VARIABLE: &str = "PADDLE_OPERATOR_KEY";
/// The ConfigMap key that holds the first port.
pub const PORT_KEY: &str = "PADDLE_PORT";
/// The ConfigMap key with the endpoints of the parameter servers.
pub const SERVERS_KEY: &str = "PADDLE_PSERVERS_IP_PORT_LIST";
/// The ConfigMap key with the endpoints of the workers on other hardware.
pub const HETERS_KEY: &str = "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST";
/// The ConfigMap key with the endpoints of the workers.
pub const TRAINERS_KEY: &str = "PADDLE_TRAINER_ENDPOINTS";

/// What the role is called in TRAINING_ROLE.
const fn training_role(role: Role) -> &'static str {
    match role {
        Role::Ps => "PSERVER",
        Role::Worker => "TRAINER",
        Role::Heter => "HETER_TRAINER",
    }
}

/// What tells the job from others of its name, in ids and keys.
pub fn short_uid(job: &PaddleJob) -> &str {
    names::short_uid(job.metadata.uid.as_deref().unwrap_or_default())
}

/// An id that begins with a part of fixed length: etcd keys of one job are
/// deleted by prefix, so no id may be a prefix of another.
pub fn job_id(job: &PaddleJob) -> String {
    let meta = &job.metadata;
    format!(
        "{}-{}-{}",
        short_uid(job),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// How peers address a pod in Service mode. The name has a dot because the
/// launcher of Paddle ignores a POD_IP without one.
pub fn service_host(job: &PaddleJob, role: Role, rank: i32) -> String {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    format!(
        "{}.{}",
        names::pod(name, role, rank),
        job.metadata.namespace.as_deref().unwrap_or_default()
    )
}

/// How a pod knows its own address, or the name that stands for it.
pub fn pod_ip(job: &PaddleJob, role: Role, rank: i32) -> Value {
    match Intranet::of(&job.spec) {
        Intranet::Service => json!({"name": "POD_IP", "value": service_host(job, role, rank)}),
        Intranet::PodIp | Intranet::Host => {
            json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        }
    }
}

/// The variables of one pod, in order: `$(POD_IP)` sees only what precedes it.
pub fn variables(job: &PaddleJob, role: Role, rank: i32, port: u16) -> Vec<Value> {
    let mut variables = vec![
        pod_ip(job, role, rank),
        json!({"name": "PADDLE_TRAINER_ID", "value": rank.to_string()}),
        json!({"name": "TRAINING_ROLE", "value": training_role(role)}),
        json!({"name": "PADDLE_TRAINING_ROLE", "value": training_role(role)}),
        // The port is written out: $(…) does not see what envFrom brings.
        json!({"name": "PADDLE_CURRENT_ENDPOINT", "value": format!("$(POD_IP):{port}")}),
        json!({"name": "PADDLE_JOB_ID", "value": job_id(job)}),
    ];
    // Elastic workers agree on their ranks; one that insists on its own ends all of them
    // when another is missing. And a server looks for the worker of its number: one beyond
    // the last worker would end.
    let workers = replicas(&job.spec, Role::Worker);
    let has_no_worker = role == Role::Ps && (1..=rank).contains(&workers);
    if elastic::is_elastic(&job.spec) || has_no_worker {
        variables.retain(|variable| variable["name"] != "PADDLE_TRAINER_ID");
    }
    variables.extend(heter::variables(job, role));
    variables
}

/// The lists that all pods share. `host` gives the address of a pod.
pub fn lists(
    job: &PaddleJob,
    port: u16,
    host: impl Fn(Role, i32) -> String,
) -> BTreeMap<String, String> {
    let spec = &job.spec;
    let hosts = |role: Role| -> Vec<String> {
        (0..replicas(spec, role))
            .map(|rank| host(role, rank))
            .collect()
    };
    let endpoints = |hosts: &[String]| -> String {
        hosts
            .iter()
            .map(|host| format!("{host}:{port}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let mut data = BTreeMap::from([
        ("TRAINER_PORTS_NUM".to_owned(), PORTS.to_string()),
        (PORT_KEY.to_owned(), port.to_string()),
    ]);
    let servers = hosts(Role::Ps);
    if !servers.is_empty() {
        data.insert(SERVERS_KEY.to_owned(), endpoints(&servers));
    }
    let workers = hosts(Role::Worker);
    if !workers.is_empty() {
        data.insert(TRAINERS_KEY.to_owned(), endpoints(&workers));
        data.insert("PADDLE_TRAINERS".to_owned(), workers.join(","));
        data.insert("PADDLE_TRAINERS_NUM".to_owned(), workers.len().to_string());
    }
    let heters = hosts(Role::Heter);
    if !heters.is_empty() {
        heter::lists(job, endpoints(&heters), &mut data);
    }
    // Where there are heter trainers, Paddle's own launcher leaves it out too: they take part
    // in every barrier of the workers, and gloo has no place for them.
    let unset = if heter::is_heter(spec) { 0 } else { 1 };
    if let (gloo @ 1.., Some(first)) = (spec.with_gloo.unwrap_or(unset), servers.first()) {
        data.insert("PADDLE_WITH_GLOO".to_owned(), gloo.to_string());
        data.insert("PADDLE_GLOO_RENDEZVOUS".to_owned(), "3".to_owned());
        let endpoint = format!("{first}:{}", port.saturating_add(GLOO_PORT_OFFSET));
        data.insert("PADDLE_GLOO_HTTP_ENDPOINT".to_owned(), endpoint);
    }
    data
}

/// Whether a key of the lists is about gloo.
pub fn is_gloo(key: &str) -> bool {
    key.contains("GLOO")
}

/// The host of the pod with `rank` in a list of endpoints that was written before.
pub fn listed_host(data: &BTreeMap<String, String>, role: Role, rank: i32) -> Option<String> {
    let host = listed_hosts(data, role)?.nth(usize::try_from(rank).ok()?)?;
    host.map(str::to_owned)
}

/// The hosts of a role, by rank, in a list that was written before.
pub fn listed_hosts(
    data: &BTreeMap<String, String>,
    role: Role,
) -> Option<impl Iterator<Item = Option<&str>>> {
    let endpoints = data.get(list_of(role))?.split(',');
    Some(endpoints.map(|endpoint| Some(endpoint.rsplit_once(':')?.0)))
}

/// How many pods of a role the lists have that were written before.
pub fn listed_size(data: &BTreeMap<String, String>, role: Role) -> Option<i32> {
    let endpoints = data.get(list_of(role));
    i32::try_from(endpoints.map_or(0, |list| list.split(',').count())).ok()
}

/// The key of the list of endpoints of a role.
const fn list_of(role: Role) -> &'static str {
    match role {
        Role::Ps => SERVERS_KEY,
        Role::Worker => TRAINERS_KEY,
        Role::Heter => HETERS_KEY,
    }
}
