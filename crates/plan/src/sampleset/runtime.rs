//! The runtime servers of a set: one pod per partition, never two on a node.

use api::{SampleSet, labels};
use serde_json::{Map, Value, json};

use super::Settings;
use super::volume::cache_dirs;
use crate::operation::paths::lies_below;
use crate::{fingerprint, names};

/// The port of the runtime servers.
pub const PORT: u16 = 7716;

/// Where the servers find the data, their own state, and their key: where nobody has caches
/// or sources, which are mounted at the paths that they have on the node.
const DATA: &str = "/paddle-runtime/data";
const STATE: &str = "/paddle-runtime/state";
const KEYS: &str = "/paddle-runtime/keys";

/// The labels of a child: `kubectl get all -l batch.paddlepaddle.org/sampleset=…`.
pub(super) fn common_labels(set: &str) -> Map<String, Value> {
    let name = names::label_value(set);
    Map::from_iter([
        (labels::SET_NAME.to_owned(), name.clone().into()),
        (labels::APP_NAME.to_owned(), "sampleset".into()),
        (labels::APP_INSTANCE.to_owned(), name.into()),
        (labels::APP_MANAGED_BY.to_owned(), labels::OPERATOR.into()),
    ])
}

/// The owner reference by which a child goes with its set.
pub(super) fn owner(set: &SampleSet) -> Value {
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleSet",
        "name": set.metadata.name,
        "uid": set.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The labels by which the pods are selected.
fn selector(set: &str) -> Value {
    json!({labels::SET_NAME: names::label_value(set), labels::APP_COMPONENT: "runtime"})
}

fn metadata(set: &SampleSet, name: String) -> Value {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    json!({
        "name": name,
        "namespace": set.metadata.namespace,
        "labels": common_labels(set_name),
        "ownerReferences": [owner(set)],
    })
}

/// The Service that gives the servers names.
pub fn service(set: &SampleSet) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(set, names::runtime_service(name)),
        "spec": {
            "clusterIP": "None",
            "ports": [{"name": "runtime", "port": PORT, "protocol": "TCP", "targetPort": PORT}],
            "publishNotReadyAddresses": true,
            "selector": selector(name),
        },
    });
    stamped(service)
}

/// The StatefulSet of the servers. `volume_paths` and `source_path` are folders
/// of the machine that the volume is on and that the source is.
pub fn stateful_set(
    set: &SampleSet,
    settings: &Settings,
    volume_paths: &[String],
    source_path: Option<&str>,
    replicas: i32,
) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut labels = common_labels(name);
    labels.insert(labels::APP_COMPONENT.to_owned(), "runtime".into());
    let mut metadata = metadata(set, names::runtime(name));
    let local = volume_paths.iter().map(String::as_str).chain(source_path);
    if let Some(metadata) = metadata.as_object_mut() {
        let paths = volume_paths.join(":");
        metadata.insert("annotations".into(), json!({labels::LOCAL_PATHS: paths}));
    }
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(name)},
            "serviceName": names::runtime_service(name),
            "template": {
                "metadata": {"labels": labels},
                "spec": pod(set, settings, &outermost(local), source_path),
            },
        },
    });
    let mut object = stamped(object);
    // Not part of the fingerprint: it is compared by itself.
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".into(), replicas.into());
    }
    object
}

/// What is merged into a StatefulSet that differs: the same, and nothing of an
/// affinity that the spec no longer asks for.
pub(super) fn stateful_set_patch(mut wanted: Value) -> Value {
    let affinity = wanted.pointer_mut("/spec/template/spec/affinity/nodeAffinity");
    if let Some(affinity) = affinity.and_then(Value::as_object_mut) {
        affinity
            .entry("requiredDuringSchedulingIgnoredDuringExecution")
            .or_insert(Value::Null);
    }
    wanted
}

/// Writes down what the object was made of.
fn stamped(mut object: Value) -> Value {
    let stamp = fingerprint::of(&object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(labels::APPLIED.to_owned(), stamp.into());
        }
    }
    object
}

/// The fingerprint that [`stamped`] wrote.
pub(super) fn stamp(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(labels::APPLIED)?.as_str()
}

/// Folders without those that lie in another one of them.
fn outermost<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut paths: Vec<&str> = paths.collect();
    paths.sort_unstable();
    let mut outer: Vec<&str> = Vec::new();
    for path in paths {
        if !outer.iter().any(|other| lies_below(path, other)) {
            outer.push(path);
        }
    }
    outer
}

fn pod(set: &SampleSet, settings: &Settings, local: &[&str], source: Option<&str>) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut args = vec![
        "runtime".to_owned(),
        format!("--data-dir={DATA}"),
        format!("--state-dir={STATE}"),
    ];
    let dirs = cache_dirs(set);
    args.extend(dirs.iter().map(|dir| format!("--cache-dir={dir}")));
    args.extend([
        format!("--tls-certificate={KEYS}/tls.crt"),
        format!("--tls-key={KEYS}/tls.key"),
        format!("--token-file={KEYS}/token"),
    ]);
    let mut volumes = vec![
        json!({"name": "data", "persistentVolumeClaim": {"claimName": names::claim(name)}}),
        json!({"name": "state", "emptyDir": {}}),
        json!({"name": "tmp", "emptyDir": {}}),
        json!({"name": "keys", "secret": {"secretName": names::server_secret(name), "defaultMode": 0o400}}),
    ];
    let mut mounts = vec![
        json!({"name": "data", "mountPath": DATA, "mountPropagation": "HostToContainer"}),
        json!({"name": "state", "mountPath": STATE}),
        json!({"name": "tmp", "mountPath": "/tmp"}),
        json!({"name": "keys", "mountPath": KEYS, "readOnly": true}),
    ];
    // The space of caches is measured, and nothing more: the mount fills and empties them.
    let caches = dirs.iter().map(String::as_str);
    let caches = caches.filter(|dir| !local.contains(dir));
    let caches = caches.map(|path| (path, true));
    let local = local.iter().map(|path| (*path, false));
    for (at, (path, read_only)) in caches.chain(local).enumerate() {
        let volume = format!("host-{at}");
        // A source that is made here would be an empty one: it is waited for.
        let type_ = match source == Some(path) {
            true => "Directory",
            false => "DirectoryOrCreate",
        };
        volumes.push(json!({"name": volume, "hostPath": {"path": path, "type": type_}}));
        mounts.push(json!({"name": volume, "mountPath": path, "readOnly": read_only}));
    }
    let resources = set
        .spec
        .runtime
        .as_ref()
        .and_then(|runtime| runtime.resources.as_ref());
    json!({
        "affinity": affinity(set),
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "runtime",
            "image": settings.runtime_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/paddle-operator"],
            "args": args,
            "env": [{"name": "HOME", "value": STATE}],
            "ports": [{"name": "runtime", "containerPort": PORT, "protocol": "TCP"}],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
            "resources": resources.map_or_else(|| json!({}), |resources| json!(resources)),
            // `rmr` needs uid 0 and none of its powers.
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
                "runAsUser": 0,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        }],
        "enableServiceLinks": false,
        "tolerations": set.spec.tolerations.as_deref().unwrap_or_default(),
        "volumes": volumes,
    })
}

/// Never two on a node, and rather where partitions were before.
fn affinity(set: &SampleSet) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let mut nodes = set.spec.node_affinity.clone().unwrap_or_default();
    let preferred = nodes
        .preferred_during_scheduling_ignored_during_execution
        .take()
        .unwrap_or_default();
    let mut preferred: Vec<Value> = preferred.iter().map(|term| json!(term)).collect();
    preferred.push(json!({
        "weight": 100,
        "preference": {"matchExpressions": [
            {"key": names::node_label(namespace, name), "operator": "Exists"},
        ]},
    }));
    let mut nodes = json!(nodes);
    if let Some(nodes) = nodes.as_object_mut() {
        nodes.insert(
            "preferredDuringSchedulingIgnoredDuringExecution".into(),
            preferred.into(),
        );
    }
    json!({
        "nodeAffinity": nodes,
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": selector(name)},
            "topologyKey": "kubernetes.io/hostname",
        }]},
    })
}
