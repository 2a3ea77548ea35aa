//! Volumes and claims in tables.

use serde_json::{Value, json};

use super::built_in::{joined, list, name, or, since};
use crate::object::meta;
use crate::path::{at, text};

fn modes(modes: &[Value]) -> String {
    joined(modes.iter().map(|mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            _ => "",
        }
        .to_owned()
    }))
}

fn phase(object: &Value) -> &str {
    match meta(object, "deletionTimestamp") {
        "" => text(object, "status.phase"),
        _ => "Terminating",
    }
}

pub(super) const VOLUMES: [(&str, i64); 11] = [
    ("Name", 0),
    ("Capacity", 0),
    ("Access Modes", 0),
    ("Reclaim Policy", 0),
    ("Status", 0),
    ("Claim", 0),
    ("StorageClass", 0),
    ("VolumeAttributesClass", 0),
    ("Reason", 0),
    ("Age", 0),
    ("VolumeMode", 1),
];

pub(super) fn volumes(object: &Value) -> Vec<Value> {
    let claim = match text(object, "spec.claimRef.name") {
        "" => String::new(),
        name => format!("{}/{name}", text(object, "spec.claimRef.namespace")),
    };
    vec![
        name(object),
        json!(or(text(object, "spec.capacity.storage"), "0")),
        json!(modes(list(object, "spec.accessModes"))),
        json!(text(object, "spec.persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(text(object, "spec.storageClassName")),
        json!(or(
            text(object, "spec.volumeAttributesClassName"),
            "<unset>"
        )),
        json!(text(object, "status.reason")),
        since(object),
        json!(or(text(object, "spec.volumeMode"), "<unset>")),
    ]
}

pub(super) const CLAIMS: [(&str, i64); 9] = [
    ("Name", 0),
    ("Status", 0),
    ("Volume", 0),
    ("Capacity", 0),
    ("Access Modes", 0),
    ("StorageClass", 0),
    ("VolumeAttributesClass", 0),
    ("Age", 0),
    ("VolumeMode", 1),
];

pub(super) fn claims(object: &Value) -> Vec<Value> {
    let volume = text(object, "spec.volumeName");
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (
            or(text(object, "status.capacity.storage"), "0"),
            modes(list(object, "status.accessModes")),
        ),
    };
    vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(text(object, "spec.storageClassName")),
        json!(or(
            text(object, "spec.volumeAttributesClassName"),
            "<unset>"
        )),
        since(object),
        json!(or(text(object, "spec.volumeMode"), "<unset>")),
    ]
}

pub(super) const CLASSES: [(&str, i64); 6] = [
    ("Name", 0),
    ("Provisioner", 0),
    ("ReclaimPolicy", 0),
    ("VolumeBindingMode", 0),
    ("AllowVolumeExpansion", 0),
    ("Age", 0),
];

pub(super) fn classes(object: &Value) -> Vec<Value> {
    let annotations = at(object, "metadata.annotations");
    let is_default = annotations
        .and_then(|all| all.get("storageclass.kubernetes.io/is-default-class"))
        .is_some_and(|is_default| is_default == "true");
    let mark = if is_default { " (default)" } else { "" };
    let grows = object.get("allowVolumeExpansion") == Some(&Value::Bool(true));
    vec![
        json!(format!("{}{mark}", meta(object, "name"))),
        json!(text(object, "provisioner")),
        json!(text(object, "reclaimPolicy")),
        json!(text(object, "volumeBindingMode")),
        json!(grows),
        since(object),
    ]
}

pub(super) const DRIVERS: [(&str, i64); 8] = [
    ("Name", 0),
    ("AttachRequired", 0),
    ("PodInfoOnMount", 0),
    ("StorageCapacity", 0),
    ("TokenRequests", 0),
    ("RequiresRepublish", 0),
    ("Modes", 0),
    ("Age", 0),
];

pub(super) fn drivers(object: &Value) -> Vec<Value> {
    let is = |field: &str| {
        let value = at(object, &format!("spec.{field}"));
        json!(value == Some(&Value::Bool(true)))
    };
    let words = |field: &str, key: &str| {
        let words = list(object, field).iter();
        let words = words.map(|word| word.get(key).unwrap_or(word));
        joined(words.map(|word| word.as_str().unwrap_or_default().to_owned()))
    };
    vec![
        name(object),
        is("attachRequired"),
        is("podInfoOnMount"),
        is("storageCapacity"),
        json!(or(&words("spec.tokenRequests", "audience"), "<unset>")),
        is("requiresRepublish"),
        json!(or(&words("spec.volumeLifecycleModes", ""), "<none>")),
        since(object),
    ]
}
