//! Volumes of the cluster, and claims to them.

use serde_json::Value;

use super::pod::named;
use super::{names, scheduling, volume};
use crate::fault::{At, Faults};
use crate::quantity::Quantity;

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
/// What in a volume's spec is not its source.
pub(super) const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn modes(modes: &At<'_, '_>, faults: &mut Faults) {
    for mode in modes.items() {
        let mode = At {
            path: modes.path,
            ..mode
        };
        faults.one_of(&mode, &MODES);
    }
}

/// An amount of storage that is more than nothing.
fn positive(amount: &At<'_, '_>, faults: &mut Faults) {
    if Quantity::read(amount.value).is_some_and(|amount| amount.nano() <= 0) {
        faults.invalid(amount, "must be greater than zero");
    }
}

pub(super) fn claim(spec: &At<'_, '_>, faults: &mut Faults) {
    let access = spec.get("accessModes");
    if access.is_empty() {
        faults.required_so(&access, "at least 1 access mode is required");
    }
    modes(&access, faults);
    scheduling::label_selector(&spec.get("selector"), faults);
    let resources = spec.get("resources");
    let asked = At {
        value: resources.get("requests").get("storage").value,
        path: crate::fault::Path::Key(&resources.path, "storage"),
    };
    match asked.is_set() {
        true => positive(&asked, faults),
        false => faults.required(&asked),
    }
    named(&spec.get("storageClassName"), names::subdomain, faults);
    faults.one_of(&spec.get("volumeMode"), &["Block", "Filesystem"]);
}

pub(super) fn volume(spec: &At<'_, '_>, faults: &mut Faults) {
    let (access, capacity) = (spec.get("accessModes"), spec.get("capacity"));
    if access.is_empty() {
        faults.required(&access);
    }
    modes(&access, faults);
    if capacity.is_empty() {
        faults.required(&capacity);
    }
    let amounts: Vec<_> = capacity.entries().collect();
    if !matches!(amounts.as_slice(), [("storage", _)]) {
        faults.unsupported(&capacity, &["storage"]);
    }
    for (_, amount) in amounts.iter().filter(|(what, _)| *what == "storage") {
        positive(amount, faults);
    }
    let policies = ["Delete", "Recycle", "Retain"];
    faults.one_of(&spec.get("persistentVolumeReclaimPolicy"), &policies);
    let affinity = spec.get("nodeAffinity");
    if affinity.is_set() {
        match affinity.get("required").is_set() {
            true => scheduling::node_selector(&affinity.get("required"), faults),
            false => faults.required_so(
                &affinity.get("required"),
                "must specify required node constraints",
            ),
        }
    }
    source(spec, faults);
    named(&spec.get("storageClassName"), names::subdomain, faults);
    faults.one_of(&spec.get("volumeMode"), &["Block", "Filesystem"]);
}

fn source(spec: &At<'_, '_>, faults: &mut Faults) {
    let fields = spec.value.as_object().into_iter().flatten();
    let mut sources: Vec<&str> = fields
        .filter(|(name, value)| !NOT_SOURCES.contains(&name.as_str()) && !value.is_null())
        .map(|(name, _)| name.as_str())
        .collect();
    // CSI is looked at last.
    sources.sort_by_key(|name| *name == "csi");
    if sources.is_empty() {
        faults.required_so(spec, "must specify a volume type");
    }
    for (index, name) in sources.into_iter().enumerate() {
        let source = spec.get(name);
        if index > 0 {
            faults.forbidden(source.path, "may not specify more than 1 volume type");
            continue;
        }
        match name {
            "hostPath" => volume::host_path(&source, faults),
            "csi" => csi(&source, faults),
            _ => {}
        }
    }
}

fn csi(source: &At<'_, '_>, faults: &mut Faults) {
    let (driver, handle) = (source.get("driver"), source.get("volumeHandle"));
    match driver.is_empty() {
        true => faults.required(&driver),
        false => named(
            &driver,
            |name| names::subdomain(&name.to_lowercase()),
            faults,
        ),
    }
    if handle.is_empty() {
        faults.required(&handle);
    }
    for secret in ["nodePublishSecretRef", "nodeStageSecretRef"] {
        let secret = source.get(secret);
        if !secret.is_set() {
            continue;
        }
        for field in ["name", "namespace"] {
            if secret.get(field).is_empty() {
                faults.required(&secret.get(field));
            }
        }
    }
}

pub(super) fn class(class: &At<'_, '_>, faults: &mut Faults) {
    faults.one_of(&class.get("reclaimPolicy"), &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    faults.one_of(&class.get("volumeBindingMode"), &modes);
    let provisioner = class.get("provisioner");
    match provisioner.is_empty() {
        true => faults.required(&provisioner),
        false => named(
            &provisioner,
            |name| names::qualified(&name.to_lowercase()),
            faults,
        ),
    }
}

/// The source of a volume, apart from the rest.
pub(super) fn source_of(spec: &Value) -> Vec<(&String, &Value)> {
    let fields = spec.as_object().into_iter().flatten();
    let sources = fields.filter(|(name, _)| !NOT_SOURCES.contains(&name.as_str()));
    sources.collect()
}
