//! The columns of the built-in kinds, as the real API server has them.

use serde_json::{Value, json};

use super::age;
use super::{pod, storage};
use crate::kind::Kind;
use crate::object::meta;
use crate::path::{at, text};

/// How a kind is printed.
pub(super) struct Printed {
    /// Titles, and 1 for those that only a wide table has.
    pub(super) columns: &'static [(&'static str, i64)],
    /// The cells of an object.
    pub(super) cells: fn(&Value) -> Vec<Value>,
}

/// How a kind is printed, unless it says so itself.
pub(super) fn find(kind: &Kind) -> Option<Printed> {
    let (columns, cells): (&[_], fn(&Value) -> Vec<Value>) =
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Pod") => (&PODS, pods),
            ("", "Service") => (&SERVICES, services),
            ("", "Node") => (&NODES, nodes),
            ("", "Namespace") => (&[("Name", 0), ("Status", 0), ("Age", 0)], |object| {
                vec![
                    name(object),
                    json!(text(object, "status.phase")),
                    since(object),
                ]
            }),
            ("", "ConfigMap") => (&[("Name", 0), ("Data", 0), ("Age", 0)], |object| {
                let size = size(object, "data") + size(object, "binaryData");
                vec![name(object), json!(size), since(object)]
            }),
            ("", "Secret") => (
                &[("Name", 0), ("Type", 0), ("Data", 0), ("Age", 0)],
                |object| {
                    let (type_, size) = (text(object, "type"), size(object, "data"));
                    vec![name(object), json!(type_), json!(size), since(object)]
                },
            ),
            ("" | "events.k8s.io", "Event") => (&EVENTS, events),
            ("apps", "StatefulSet") => (&STATEFUL_SETS, stateful_sets),
            ("", "PersistentVolume") => (&storage::VOLUMES, storage::volumes),
            ("", "PersistentVolumeClaim") => (&storage::CLAIMS, storage::claims),
            ("", "ServiceAccount") => (&[("Name", 0), ("Age", 0)], |object| {
                vec![name(object), since(object)]
            }),
            ("coordination.k8s.io", "Lease") => {
                (&[("Name", 0), ("Holder", 0), ("Age", 0)], |object| {
                    let holder = text(object, "spec.holderIdentity");
                    vec![name(object), json!(holder), since(object)]
                })
            }
            ("storage.k8s.io", "CSIDriver") => (&storage::DRIVERS, storage::drivers),
            ("storage.k8s.io", "StorageClass") => (&storage::CLASSES, storage::classes),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => (&DEFINITIONS, definitions),
            _ => return None,
        };
    Some(Printed { columns, cells })
}

pub(super) fn name(object: &Value) -> Value {
    meta(object, "name").into()
}

pub(super) fn since(object: &Value) -> Value {
    age(meta(object, "creationTimestamp")).into()
}

fn size(object: &Value, field: &str) -> usize {
    let map = object.get(field).and_then(Value::as_object);
    map.map_or(0, serde_json::Map::len)
}

pub(super) fn list<'v>(object: &'v Value, path: &str) -> &'v [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn or<'t>(text: &'t str, nothing: &'t str) -> &'t str {
    if text.is_empty() { nothing } else { text }
}

pub(super) fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

const PODS: [(&str, i64); 9] = [
    ("Name", 0),
    ("Ready", 0),
    ("Status", 0),
    ("Restarts", 0),
    ("Age", 0),
    ("IP", 1),
    ("Node", 1),
    ("Nominated Node", 1),
    ("Readiness Gates", 1),
];

fn pods(object: &Value) -> Vec<Value> {
    let seen = pod::seen(object);
    let ip = text(object, "status.podIP");
    let first = text(object, "status.podIPs[0].ip");
    vec![
        name(object),
        json!(seen.ready()),
        json!(seen.status),
        json!(seen.restarts()),
        since(object),
        json!(or(or(first, ip), "<none>")),
        json!(or(text(object, "spec.nodeName"), "<none>")),
        json!(or(text(object, "status.nominatedNodeName"), "<none>")),
        json!(pod::gates(object)),
    ]
}

const SERVICES: [(&str, i64); 7] = [
    ("Name", 0),
    ("Type", 0),
    ("Cluster-IP", 0),
    ("External-IP", 0),
    ("Port(s)", 0),
    ("Age", 0),
    ("Selector", 1),
];

fn services(object: &Value) -> Vec<Value> {
    let type_ = text(object, "spec.type");
    let balanced = list(object, "status.loadBalancer.ingress").iter();
    let balanced = balanced.map(|one| or(text(one, "ip"), text(one, "hostname")).to_owned());
    let own = list(object, "spec.externalIPs").iter();
    let own = own.map(|ip| ip.as_str().unwrap_or_default().to_owned());
    let outside = match type_ {
        "ExternalName" => text(object, "spec.externalName").to_owned(),
        "LoadBalancer" => or(&joined(balanced.chain(own)), "<pending>").to_owned(),
        _ => or(&joined(own), "<none>").to_owned(),
    };
    let ports = list(object, "spec.ports").iter().map(|port| {
        let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
        let (inside, node) = (number("port"), number("nodePort"));
        let protocol = text(port, "protocol");
        match node {
            0 => format!("{inside}/{protocol}"),
            node => format!("{inside}:{node}/{protocol}"),
        }
    });
    let selector = at(object, "spec.selector").and_then(Value::as_object);
    let selector = selector.into_iter().flatten();
    let selector = selector.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
    vec![
        name(object),
        json!(type_),
        json!(or(text(object, "spec.clusterIP"), "<none>")),
        json!(outside),
        json!(or(&joined(ports), "<none>")),
        since(object),
        json!(or(&joined(selector), "<none>")),
    ]
}

const NODES: [(&str, i64); 10] = [
    ("Name", 0),
    ("Status", 0),
    ("Roles", 0),
    ("Age", 0),
    ("Version", 0),
    ("Internal-IP", 1),
    ("External-IP", 1),
    ("OS-Image", 1),
    ("Kernel-Version", 1),
    ("Container-Runtime", 1),
];

fn nodes(object: &Value) -> Vec<Value> {
    let mut conditions = list(object, "status.conditions").iter();
    let ready = conditions.find(|one| text(one, "type") == "Ready");
    let mut status = match ready.map(|one| text(one, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if at(object, "spec.unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = at(object, "metadata.labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(key, value)| {
        let role = key
            .strip_prefix("node-role.kubernetes.io/")
            .filter(|role| !role.is_empty());
        let named = (key == "kubernetes.io/role").then(|| value.as_str().unwrap_or_default());
        role.or(named).map(str::to_owned)
    });
    let address = |type_: &str| {
        let mut addresses = list(object, "status.addresses").iter();
        let found = addresses.find(|one| text(one, "type") == type_);
        found
            .map_or("<none>", |one| text(one, "address"))
            .to_owned()
    };
    let info = |field: &str| {
        or(
            text(object, &format!("status.nodeInfo.{field}")),
            "<unknown>",
        )
    };
    let kernel = match text(object, "status.nodeInfo.architecture") {
        "" => info("kernelVersion").to_owned(),
        machine => format!("{} ({machine})", info("kernelVersion")),
    };
    vec![
        name(object),
        json!(status),
        json!(or(&joined(roles), "<none>")),
        since(object),
        json!(text(object, "status.nodeInfo.kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

const EVENTS: [(&str, i64); 10] = [
    ("Last Seen", 0),
    ("Type", 0),
    ("Reason", 0),
    ("Object", 0),
    ("Subobject", 1),
    ("Source", 1),
    ("Message", 0),
    ("First Seen", 1),
    ("Count", 1),
    ("Name", 1),
];

fn events(object: &Value) -> Vec<Value> {
    // In the form of the core, whichever was asked for.
    let event = match object.get("regarding") {
        Some(_) => &crate::events::to_core(object),
        None => object,
    };
    let first = or(text(event, "firstTimestamp"), text(event, "eventTime"));
    let last = or(text(event, "lastTimestamp"), first);
    let last = or(text(event, "series.lastObservedTime"), last);
    let count = |path: &str| {
        at(event, path)
            .and_then(Value::as_i64)
            .filter(|count| *count > 0)
    };
    let kind = text(event, "involvedObject.kind").to_lowercase();
    let about = match text(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(
        text(event, "source.component"),
        text(event, "reportingComponent"),
    );
    let host = or(text(event, "source.host"), text(event, "reportingInstance"));
    let source = match host {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        json!(age(last)),
        json!(text(event, "type")),
        json!(text(event, "reason")),
        json!(about),
        json!(text(event, "involvedObject.fieldPath")),
        json!(source),
        json!(text(event, "message").trim()),
        json!(age(first)),
        json!(count("series.count").or(count("count")).unwrap_or(1)),
        name(event),
    ]
}

const STATEFUL_SETS: [(&str, i64); 5] = [
    ("Name", 0),
    ("Ready", 0),
    ("Age", 0),
    ("Containers", 1),
    ("Images", 1),
];

fn stateful_sets(object: &Value) -> Vec<Value> {
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let (ready, all) = (number("status.readyReplicas"), number("spec.replicas"));
    let containers = list(object, "spec.template.spec.containers");
    let each = |field: &str| joined(containers.iter().map(|one| text(one, field).to_owned()));
    vec![
        name(object),
        json!(format!("{ready}/{all}")),
        since(object),
        json!(each("name")),
        json!(each("image")),
    ]
}

const DEFINITIONS: [(&str, i64); 8] = [
    ("Name", 0),
    ("Scope", 0),
    ("Versions", 0),
    ("Created At", 0),
    ("Group", 1),
    ("Kind", 1),
    ("ShortNames", 1),
    ("Established", 1),
];

fn definitions(object: &Value) -> Vec<Value> {
    let versions = list(object, "spec.versions").iter();
    let versions = joined(versions.map(|version| {
        let is_kept = version.get("storage") == Some(&Value::Bool(true));
        let mark = if is_kept { "(storage)" } else { "" };
        format!("{}{mark}", text(version, "name"))
    }));
    let short = list(object, "spec.names.shortNames").iter();
    let short = joined(short.map(|name| name.as_str().unwrap_or_default().to_owned()));
    let mut conditions = list(object, "status.conditions").iter();
    let is_established =
        conditions.any(|one| text(one, "type") == "Established" && text(one, "status") == "True");
    vec![
        name(object),
        json!(text(object, "spec.scope")),
        json!(versions),
        json!(meta(object, "creationTimestamp")),
        json!(text(object, "spec.group")),
        json!(text(object, "spec.names.kind")),
        json!(short),
        json!(is_established),
    ]
}
