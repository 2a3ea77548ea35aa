//! Kinds with little in them.

use serde_json::Value;

use super::{names, scheduling};
use crate::fault::{At, Faults, Path};
use crate::quantity::Quantity;

/// How much a ConfigMap or a Secret holds at most.
const MAX_DATA: usize = 1 << 20;

pub(super) fn config_map(map: &At<'_, '_>, faults: &mut Faults) {
    let (data, binary) = (map.get("data"), map.get("binaryData"));
    let mut size = 0;
    for (key, entry) in data.entries() {
        config_key(key, &entry, faults);
        if binary.value.get(key).is_some() {
            let why = "duplicate of key present in binaryData";
            faults.invalid_value(&entry.path, &key.into(), why);
        }
        size += entry.text().len();
    }
    for (key, entry) in binary.entries() {
        config_key(key, &entry, faults);
        size += entry.text().len() / 4 * 3;
    }
    if size > MAX_DATA {
        faults.too_long("[]", MAX_DATA);
    }
}

fn config_key(key: &str, entry: &At<'_, '_>, faults: &mut Faults) {
    for what in names::config_key(key) {
        faults.invalid_value(&entry.path, &key.into(), &what);
    }
}

pub(super) fn secret(secret: &At<'_, '_>, faults: &mut Faults) {
    let data = secret.get("data");
    let mut size = 0;
    for (key, entry) in data.entries() {
        config_key(key, &entry, faults);
        size += entry.text().len() / 4 * 3;
    }
    if size > MAX_DATA {
        faults.too_long(data.path, MAX_DATA);
    }
    let needed: &[&str] = match secret.get("type").text() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        _ => &[],
    };
    for key in needed {
        if data.value.get(key).is_none() {
            faults.required(&At {
                value: &Value::Null,
                path: Path::Key(&data.path, key),
            });
        }
    }
}

pub(super) fn node(node: &At<'_, '_>, faults: &mut Faults) {
    let meta = node.get("metadata");
    // The real one says metadata, wherever they are.
    let taints = At {
        value: node.get("spec").get("taints").value,
        ..meta.get("taints")
    };
    for taint in taints.items() {
        let key = taint.get("key");
        let text = Value::from(key.text());
        for what in names::qualified(key.text()) {
            faults.invalid_value(&key.path, &text, &what);
        }
        scheduling::effect(&taint.get("effect"), faults);
    }
    node_status(&node.get("status"), faults);
}

pub(super) fn node_status(status: &At<'_, '_>, faults: &mut Faults) {
    for amounts in ["capacity", "allocatable"] {
        let amounts = status.get(amounts);
        for (what, amount) in amounts.entries() {
            if Quantity::read(amount.value).is_some_and(Quantity::is_negative) {
                let amount = At {
                    path: Path::Field(&amounts.path, what),
                    ..amount
                };
                faults.invalid(&amount, "must be greater than or equal to 0");
            }
        }
    }
}

pub(super) fn lease(spec: &At<'_, '_>, faults: &mut Faults) {
    faults.at_least(&spec.get("leaseDurationSeconds"), 1);
    faults.at_least(&spec.get("leaseTransitions"), 0);
}
