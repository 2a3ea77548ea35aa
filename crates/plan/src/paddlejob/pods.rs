//! From the template of a role to a pod. The template is kept whole: what the
//! user wrote stays, and only what Paddle needs to know is added.

use api::{PaddleJob, Role, labels};
use serde_json::{Map, Value, json};

use super::environment::{self, KEY_VARIABLE};
use super::mode::{Intranet, Mode, replicas};
use super::rendezvous;
use super::{Settings, data, elastic, gang, heter};
use crate::names;

/// Where the container is that trains: the one called `paddle`, or else the first.
pub fn paddle_container<'a>(mut names: impl Iterator<Item = Option<&'a str>>) -> usize {
    names.position(|name| name == Some("paddle")).unwrap_or(0)
}

/// The init container that waits for peers.
pub const WAIT_CONTAINER: &str = "coord-paddle";

/// What a new pod is made for.
#[derive(Clone, Debug)]
pub struct Birth<'a> {
    /// Its role.
    pub role: Role,
    /// Its index within the role.
    pub rank: i32,
    /// The attempt.
    pub attempt: i32,
    /// The ConfigMap key that its paddle container requires.
    pub key: &'a str,
    /// The first of its ports.
    pub port: u16,
    /// Volcano schedules it, together with the others.
    pub is_gang: bool,
    /// The partitions of the data that the job trains on.
    pub partitions: i32,
}

/// The pod, ready to be created.
pub fn build(job: &PaddleJob, birth: &Birth<'_>, settings: &Settings) -> Value {
    let template = job
        .spec
        .role(birth.role)
        .and_then(|role| role.template.as_ref());
    let mut template = match template.map(api::PodTemplate::to_json) {
        Some(Value::Object(template)) => template,
        _ => Map::new(),
    };
    let name = names::pod(
        job.metadata.name.as_deref().unwrap_or_default(),
        birth.role,
        birth.rank,
    );
    let metadata = metadata(job, birth, &name, take(&mut template, "metadata"));
    let spec = complete_spec(job, birth, &name, take(&mut template, "spec"), settings);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A label in the template that the operator sets itself, if there is one.
pub fn reserved_labels(template: &Value) -> Option<&str> {
    let set = template.pointer("/metadata/labels")?.as_object()?;
    set.keys().map(String::as_str).find(|key| {
        [
            labels::RES_NAME,
            labels::RES_TYPE,
            labels::JOB_NAME,
            labels::ROLE,
            labels::RANK,
        ]
        .contains(key)
    })
}

/// The labels of a child: `kubectl get pods -l batch.paddlepaddle.org/job-name=…`.
pub fn common_labels(job: &str) -> Map<String, Value> {
    Map::from_iter([
        (labels::JOB_NAME.to_owned(), job.into()),
        (labels::APP_NAME.to_owned(), "paddlejob".into()),
        (labels::APP_INSTANCE.to_owned(), job.into()),
        (labels::APP_MANAGED_BY.to_owned(), labels::OPERATOR.into()),
    ])
}

/// The owner reference by which a child goes with its job.
pub fn owner(job: &PaddleJob) -> Value {
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn metadata(
    job: &PaddleJob,
    birth: &Birth<'_>,
    name: &str,
    mut metadata: Map<String, Value>,
) -> Map<String, Value> {
    // The rest of the template's metadata can't be the pod's: every rank has a
    // name of its own, and the API server refuses a uid or a version.
    metadata.retain(|key, _| ["annotations", "finalizers", "labels"].contains(&key.as_str()));
    metadata.insert("name".into(), name.into());
    metadata.insert("namespace".into(), json!(job.metadata.namespace));
    metadata.insert("ownerReferences".into(), json!([owner(job)]));
    let role = birth.role.as_str();
    let job_name = job.metadata.name.as_deref().unwrap_or_default();
    let mut set = take(&mut metadata, "labels");
    // Recommended labels are the user's to choose; nothing here relies on them.
    for (key, value) in common_labels(job_name) {
        set.entry(key).or_insert(value);
    }
    set.entry(labels::APP_COMPONENT)
        .or_insert_with(|| role.into());
    set.insert(labels::JOB_NAME.into(), job_name.into());
    set.insert(labels::RES_NAME.into(), name.into());
    set.insert(labels::RES_TYPE.into(), role.into());
    set.insert(labels::ROLE.into(), role.into());
    set.insert(labels::RANK.into(), birth.rank.to_string().into());
    metadata.insert("labels".into(), set.into());
    let mut set = take(&mut metadata, "annotations");
    set.insert(labels::RESOURCE.into(), role.into());
    set.insert(labels::ATTEMPT.into(), birth.attempt.to_string().into());
    set.insert(labels::KEY.into(), birth.key.into());
    set.remove(labels::WOKEN);
    if let Some(range) = elastic::range(&job.spec) {
        set.insert(labels::ELASTIC_RANGE.into(), range.to_string().into());
    }
    if birth.is_gang {
        set.extend(gang::annotations(job, birth.role));
    }
    metadata.insert("annotations".into(), set.into());
    metadata
}

fn complete_spec(
    job: &PaddleJob,
    birth: &Birth<'_>,
    name: &str,
    mut spec: Map<String, Value>,
    settings: &Settings,
) -> Map<String, Value> {
    let intranet = Intranet::of(&job.spec);
    if names::is_dns_label(name) {
        // As the Go operator: programs print the host name to say who they are.
        spec.entry("hostname").or_insert_with(|| name.into());
        spec.entry("subdomain").or_insert_with(|| name.into());
    }
    if elastic::is_elastic(&job.spec) {
        // A worker that comes back takes part again, whatever ended it.
        spec.insert("restartPolicy".into(), "OnFailure".into());
    } else {
        let is_named = birth.role == Role::Worker && intranet == Intranet::Service;
        let restart = if is_named { "OnFailure" } else { "Never" };
        spec.entry("restartPolicy")
            .or_insert_with(|| restart.into());
    }
    if intranet == Intranet::Host {
        spec.insert("hostNetwork".into(), true.into());
        // Names of Services resolve for pods on the network of their node only so.
        spec.entry("dnsPolicy")
            .or_insert_with(|| "ClusterFirstWithHostNet".into());
    }
    if birth.is_gang {
        spec.insert("schedulerName".into(), gang::SCHEDULER.into());
    }
    let mut resources = None;
    if let Some(container) = paddle(&mut spec) {
        train(job, birth, container, settings);
        resources = container.get("resources").cloned();
    }
    if birth.role == Role::Worker {
        data::mount(job, birth, &mut spec);
    }
    if let Some(wait) = wait_container(job, birth, settings, resources.as_ref()) {
        push(&mut spec, "initContainers", wait);
    }
    spec
}

pub(super) fn paddle(spec: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let containers = spec.get_mut("containers")?.as_array_mut()?;
    let names = containers.iter().map(|container| container.get("name"));
    let at = paddle_container(names.map(|name| name?.as_str()));
    containers.get_mut(at)?.as_object_mut()
}

fn train(
    job: &PaddleJob,
    birth: &Birth<'_>,
    container: &mut Map<String, Value>,
    settings: &Settings,
) {
    let config_map = job.metadata.name.as_deref().unwrap_or_default();
    let variables = environment::variables(job, birth.role, birth.rank, birth.port);
    add_variables(container, variables);
    if elastic::is_elastic(&job.spec) {
        add_variables(container, elastic::variables(job, birth.port, settings));
    } else {
        // Last, so that no variable of the user's can switch it off.
        push(
            container,
            "env",
            required_key(config_map, KEY_VARIABLE, birth.key),
        );
        push(
            container,
            "envFrom",
            json!({"configMapRef": {"name": config_map}}),
        );
    }
    // The status can then quote a container's last words without reading logs.
    container
        .entry("terminationMessagePolicy")
        .or_insert_with(|| "FallbackToLogsOnError".into());
    let port = match Intranet::of(&job.spec) {
        Intranet::PodIp => None,
        Intranet::Service => Some(json!({"containerPort": birth.port})),
        // Two pods that would clash never share a node then.
        Intranet::Host => Some(json!({"containerPort": birth.port, "hostPort": birth.port})),
    };
    if let Some(port) = port {
        let declared = container
            .get("ports")
            .and_then(Value::as_array)
            .is_some_and(|ports| {
                ports
                    .iter()
                    .any(|p| p.get("containerPort") == Some(&birth.port.into()))
            });
        if !declared {
            push(container, "ports", port);
        }
    }
}

/// Adds variables after the user's own; one that the user set is left alone.
fn add_variables(container: &mut Map<String, Value>, added: Vec<Value>) {
    for variable in added {
        let env = container.get("env").and_then(Value::as_array);
        if !env.is_some_and(|env| {
            env.iter()
                .any(|set| set.get("name") == variable.get("name"))
        }) {
            push(container, "env", variable);
        }
    }
}

/// A variable that keeps its container from starting until the key is there.
fn required_key(config_map: &str, variable: &str, key: &str) -> Value {
    json!({"name": variable, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}})
}

/// So many pods have their names in DNS soon after their addresses are known, before Python
/// has started: kube-controller-manager writes 30 objects at once and 20 a second then, and a
/// name takes two writes.
const NAMED_AT_ONCE: i32 = 16;

/// Whether the init container of all pods waits until names resolve. It takes a kubelet a
/// second to see that an init container has ended, so a small job without servers does without:
/// its lists wait for addresses instead, and a worker that finds no name in spite of that
/// is started again.
pub fn waits_for_names(job: &PaddleJob, settings: &Settings) -> bool {
    let spec = &job.spec;
    let is_restarted = || {
        let template = spec.role(Role::Worker).and_then(|r| r.template.as_ref());
        let template = template.map(api::PodTemplate::to_json);
        let own = template
            .as_ref()
            .and_then(|t| t.pointer("/spec/restartPolicy"));
        own.and_then(Value::as_str) != Some("Never")
    };
    let is_small = || replicas(spec, Role::Worker) <= NAMED_AT_ONCE;
    settings.init_image.is_some()
        && Intranet::of(spec) == Intranet::Service
        && (Mode::of(spec) == Mode::Ps || !is_small() || !is_restarted())
}

/// In Service mode pods wait until names resolve; in PS mode workers wait
/// until every parameter server accepts connections.
fn wait_container(
    job: &PaddleJob,
    birth: &Birth<'_>,
    settings: &Settings,
    resources: Option<&Value>,
) -> Option<Value> {
    let image = settings.init_image.as_deref()?;
    // It reads lists, and elastic workers have none.
    if elastic::is_elastic(&job.spec) {
        return None;
    }
    let names = waits_for_names(job, settings);
    let servers = waits_for_servers(job, birth.role);
    if !names && !servers {
        return None;
    }
    let config_map = job.metadata.name.as_deref().unwrap_or_default();
    let mut args = vec!["wait"];
    args.extend(names.then_some("--names"));
    args.extend(servers.then_some("--servers"));
    // A worker that sends to a heter trainer too early ends both.
    let heters = birth.role == Role::Worker && heter::is_heter(&job.spec);
    args.extend(heters.then_some("--heters"));
    // All that it reads beside the lists; every variable more is work for the API
    // server each time the pod changes.
    let mut env = vec![environment::pod_ip(job, birth.role, birth.rank)];
    if servers {
        let key = rendezvous::servers_key(job, birth.attempt);
        env.push(required_key(config_map, KEY_VARIABLE, &key));
    }
    Some(json!({
        "name": WAIT_CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/paddle-operator"],
        "args": args,
        "env": env,
        "envFrom": [{"configMapRef": {"name": config_map}}],
        "resources": wait_resources(resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }))
}

/// What the init container may take. A limit of CPU as small as its needs would throttle its
/// start for seconds, so it has that of the paddle container or none. They never run at once:
/// this costs the pod nothing, and one that is Guaranteed stays so.
fn wait_resources(paddle: Option<&Value>) -> Value {
    let cpu = |which: &str| paddle?.get(which)?.get("cpu").filter(|cpu| !cpu.is_null());
    match cpu("limits") {
        Some(limit) => json!({
            "requests": {"cpu": cpu("requests").unwrap_or(limit), "memory": "32Mi"},
            "limits": {"cpu": limit, "memory": "32Mi"},
        }),
        None => json!({
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "32Mi"},
        }),
    }
}

/// Whether pods of a role start only when every parameter server runs: workers
/// crash if the servers are not up.
pub fn waits_for_servers(job: &PaddleJob, role: Role) -> bool {
    Mode::of(&job.spec) == Mode::Ps && role != Role::Ps
}

/// Takes the object at `key` out of a map; anything else there counts as empty.
fn take(map: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match map.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

pub(super) fn push(map: &mut Map<String, Value>, key: &str, item: Value) {
    let list = map.entry(key).or_insert(Value::Null);
    match list {
        Value::Array(list) => list.push(item),
        Value::Null => *list = json!([item]),
        // Not a list: the API server tells the user, in the words he knows.
        _ => {}
    }
}
