//! What the API server refuses in objects: of every kind what is in metadata,
//! and of the built-in kinds what users and controllers get wrong.

use serde_json::Value;

use crate::fault::{At, Fault, Faults};
use crate::kind::Kind;
use crate::object::Part;

mod container;
mod definition;
mod event;
mod metadata;
mod names;
mod plain;
mod pod;
mod scheduling;
mod service;
mod storage;
mod update;
mod volume;
mod workload;

/// What is wrong with a new object of any kind, as far as its metadata go.
pub(crate) fn new_metadata(kind: &Kind, object: &Value) -> Vec<Fault> {
    let mut faults = Faults::default();
    metadata::name(kind, object, &mut faults);
    metadata::rest(object, &mut faults);
    if kind.group.is_empty() {
        metadata::finalizers(object, &mut faults);
    }
    faults.0
}

/// What is wrong with the metadata of an object that is written anew.
pub(crate) fn metadata(object: &Value, old: &Value) -> Vec<Fault> {
    let mut faults = Faults::default();
    if object.get("metadata") != old.get("metadata") {
        metadata::rest(object, &mut faults);
    }
    faults.0
}

/// What is wrong with an object of a built-in kind, and with how it was changed.
/// What did not change is not looked at again.
pub(crate) fn built_in(kind: &Kind, object: &Value, old: Option<&Value>, part: Part) -> Vec<Fault> {
    let mut faults = Faults::default();
    let at = At::root(object);
    let changed = |field: &str| old.is_none_or(|old| old.get(field) != object.get(field));
    let name = (kind.group.as_str(), kind.kind.as_str());
    if part == Part::Status {
        if name == ("apps", "StatefulSet") {
            workload::status(&at.get("status"), &mut faults);
        }
        if name == ("", "Node") {
            plain::node_status(&at.get("status"), &mut faults);
        }
        return faults.0;
    }
    match name {
        ("", "ConfigMap") => plain::config_map(&at, &mut faults),
        ("", "Secret") => plain::secret(&at, &mut faults),
        ("" | "events.k8s.io", "Event") if old.is_none() => {
            event::check(&at, !name.0.is_empty(), &mut faults);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::check(&at, &mut faults),
        ("storage.k8s.io", "StorageClass") => storage::class(&at, &mut faults),
        _ if !changed("spec") => {}
        ("", "Pod") => pod::spec(&at.get("spec"), &[], &mut faults),
        ("", "Service") => service::spec(&at.get("spec"), &mut faults),
        ("", "Node") => plain::node(&at, &mut faults),
        ("", "PersistentVolume") => storage::volume(&at.get("spec"), &mut faults),
        ("", "PersistentVolumeClaim") => storage::claim(&at.get("spec"), &mut faults),
        ("apps", "StatefulSet") => workload::stateful_set(&at.get("spec"), &mut faults),
        ("coordination.k8s.io", "Lease") => plain::lease(&at.get("spec"), &mut faults),
        _ => {}
    }
    if let Some(old) = old {
        update::check(name, &at, &At::root(old), &mut faults);
    }
    faults.0
}
