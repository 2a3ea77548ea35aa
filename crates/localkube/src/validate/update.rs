//! What of an object stays as it was made.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::MAX_ID;
use super::storage::source_of;
use crate::fault::{At, Faults};

const POD: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const STATEFUL_SET: &str = "updates to statefulset spec for fields other than 'replicas', \
     'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
     'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const CLAIM: &str = "spec is immutable after creation except resources.requests and \
     volumeAttributesClassName for bound claims";
const IMMUTABLE: &str = "field is immutable";

pub(super) fn check(kind: (&str, &str), new: &At<'_, '_>, old: &At<'_, '_>, faults: &mut Faults) {
    let (spec, before) = (new.get("spec"), old.get("spec"));
    match kind {
        ("", "Pod") => pod(&spec, &before, faults),
        ("apps", "StatefulSet") => stateful_set(&spec, &before, faults),
        ("", "PersistentVolumeClaim") => claim(&spec, old, faults),
        ("", "PersistentVolume") => {
            if source_of(spec.value) != source_of(before.value) {
                let why = "spec.persistentvolumesource is immutable after creation";
                faults.forbidden("spec.persistentvolumesource", why);
            }
            let mode = spec.get("volumeMode");
            if mode.value != before.get("volumeMode").value {
                let mode = new.get("volumeMode");
                let now = spec.get("volumeMode");
                faults.invalid_value(&mode.path, now.value, IMMUTABLE);
            }
        }
        ("", "Service") => {
            let address = spec.get("clusterIP");
            let was = before.get("clusterIP");
            // Who has one keeps it.
            if !was.is_empty() && address.value != was.value && is_inside(&spec, &before) {
                let first = spec.get("clusterIPs");
                let first = At {
                    value: address.value,
                    path: crate::fault::Path::Index(&first.path, 0),
                };
                faults.invalid(&first, "may not change once set");
            }
        }
        ("", "ConfigMap" | "Secret") => {
            let fields = ["data", "binaryData"];
            if old.get("immutable").is_true() {
                let why = "field is immutable when `immutable` is set";
                if !new.get("immutable").is_true() {
                    faults.forbidden("immutable", why);
                }
                for field in fields {
                    if new.get(field).value != old.get(field).value {
                        faults.forbidden(field, why);
                    }
                }
            }
            same("type", new, old, faults);
        }
        ("storage.k8s.io", "StorageClass") => {
            for field in [
                "parameters",
                "provisioner",
                "reclaimPolicy",
                "volumeBindingMode",
            ] {
                same(field, new, old, faults);
            }
        }
        _ => {}
    }
}

/// Whether a Service has an address in the cluster, and had one before.
fn is_inside(spec: &At<'_, '_>, before: &At<'_, '_>) -> bool {
    [spec, before]
        .iter()
        .all(|spec| spec.get("type").text() != "ExternalName")
}

fn same(field: &str, new: &At<'_, '_>, old: &At<'_, '_>, faults: &mut Faults) {
    let (now, before) = (new.get(field), old.get(field));
    if now.value != before.value {
        faults.invalid(&now, IMMUTABLE);
    }
}

fn pod(spec: &At<'_, '_>, before: &At<'_, '_>, faults: &mut Faults) {
    if spec.value == before.value {
        return;
    }
    for list in ["containers", "initContainers"] {
        let (now, was) = (spec.get(list), before.get(list));
        if now.items().count() != was.items().count() {
            faults.forbidden(now.path, "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(
        &spec.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds").number(),
        faults,
    );
    let (tolerations, were) = (spec.get("tolerations"), before.get("tolerations"));
    let kept: BTreeSet<String> = tolerations
        .items()
        .map(|toleration| without_seconds(toleration.value))
        .collect();
    let mut were = were.items();
    if !were.all(|old| kept.contains(&without_seconds(old.value))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden(tolerations.path, why);
        return;
    }
    if fixed(spec.value, spec.value) != fixed(before.value, spec.value) {
        faults.forbidden(spec.path, POD);
    }
}

/// A deadline may be set, and come nearer.
fn deadline(now: &At<'_, '_>, before: Option<i64>, faults: &mut Faults) {
    match (now.number(), before) {
        (Some(number), _) if !(0..=MAX_ID).contains(&number) => faults.between(now, 0, MAX_ID),
        (Some(number), Some(before)) if number > before => {
            faults.invalid(now, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            faults.invalid(now, why);
        }
        _ => {}
    }
}

fn without_seconds(toleration: &Value) -> String {
    let mut toleration = toleration.clone();
    if let Some(toleration) = toleration.as_object_mut() {
        toleration.remove("tolerationSeconds");
    }
    toleration.to_string()
}

/// What of a pod's spec is fixed: what may change is taken from `new`.
fn fixed(spec: &Value, new: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let images = new.get(list).and_then(Value::as_array);
        let images = images.into_iter().flatten().map(|one| one.get("image"));
        let own = spec.get_mut(list).and_then(Value::as_array_mut);
        for (one, image) in own.into_iter().flatten().zip(images) {
            put(one, "image", image);
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put(&mut spec, field, new.get(field));
    }
    let is_negative = |grace: &Value| grace.as_i64().is_some_and(|grace| grace < 0);
    if spec
        .get("terminationGracePeriodSeconds")
        .is_some_and(is_negative)
    {
        let grace = new.get("terminationGracePeriodSeconds");
        put(&mut spec, "terminationGracePeriodSeconds", grace);
    }
    spec
}

fn put(object: &mut Value, field: &str, value: Option<&Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

fn stateful_set(spec: &At<'_, '_>, before: &At<'_, '_>, faults: &mut Faults) {
    for field in ["serviceName", "selector", "podManagementPolicy"] {
        same(field, spec, before, faults);
    }
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "serviceName",
        "selector",
        "podManagementPolicy",
    ];
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        free.iter().for_each(|field| put(&mut spec, field, None));
        spec
    };
    if fixed(spec.value) != fixed(before.value) {
        faults.forbidden(spec.path, STATEFUL_SET);
    }
}

/// A claim can be given its volume, and once it has it grow.
fn claim(spec: &At<'_, '_>, old: &At<'_, '_>, faults: &mut Faults) {
    let before = old.get("spec");
    let is_bound = old.get("status").get("phase").text() == "Bound";
    let is_given = before.get("volumeName").is_empty();
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if is_given {
            put(&mut spec, "volumeName", None);
        }
        if is_bound && let Some(resources) = spec.get_mut("resources") {
            put(resources, "requests", None);
        }
        spec
    };
    if fixed(spec.value) != fixed(before.value) {
        faults.forbidden(spec.path, CLAIM);
    }
}
