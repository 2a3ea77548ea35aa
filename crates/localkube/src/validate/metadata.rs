//! Names, labels and annotations: the same for every kind.

use serde_json::Value;

use super::names;
use crate::fault::{At, Faults};
use crate::kind::Kind;

/// How much all annotations of an object may be together.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// Finalizers that need no domain.
const FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// How the objects of a kind may be called. Namespaces, Services and the pods of
/// StatefulSets become a part of a DNS name.
pub(crate) fn name_rule(kind: &Kind) -> fn(&str) -> Vec<String> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::label,
        _ => names::subdomain,
    }
}

/// The name of a new object, or the prefix from which it was made.
pub(crate) fn name(kind: &Kind, object: &Value, faults: &mut Faults) {
    let (object, rule) = (At::root(object), name_rule(kind));
    let meta = object.get("metadata");
    let (name, prefix) = (meta.get("name"), meta.get("generateName"));
    if !prefix.is_empty() {
        // A dash at its end is followed by more.
        let whole = match prefix.text().strip_suffix('-') {
            Some(rest) => format!("{rest}a"),
            None => prefix.text().to_owned(),
        };
        for what in rule(&whole) {
            faults.invalid(&prefix, &what);
        }
    }
    if name.is_empty() {
        return faults.required_so(&name, "name or generateName is required");
    }
    for what in rule(name.text()) {
        faults.invalid(&name, &what);
    }
}

/// Everything in metadata that its writer chooses, but for the name.
pub(crate) fn rest(object: &Value, faults: &mut Faults) {
    let object = At::root(object);
    let meta = object.get("metadata");
    labels(&meta.get("labels"), faults);
    annotations(&meta.get("annotations"), faults);
    owners(&meta.get("ownerReferences"), faults);
    let finalizers = meta.get("finalizers");
    for finalizer in finalizers.items() {
        for what in names::qualified(finalizer.text()) {
            faults.invalid_value(&finalizers.path, finalizer.value, &what);
        }
    }
}

/// New objects of the core have finalizers that say whose they are.
pub(crate) fn finalizers(object: &Value, faults: &mut Faults) {
    let object = At::root(object);
    let meta = object.get("metadata");
    for finalizer in meta.get("finalizers").items() {
        let name = finalizer.text();
        if !name.contains('/') && !FINALIZERS.contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.invalid(&finalizer, why);
        }
    }
}

/// Labels, or the labels that something selects.
pub(crate) fn labels(labels: &At<'_, '_>, faults: &mut Faults) {
    for (key, value) in labels.entries() {
        for what in names::qualified(key) {
            faults.invalid_value(&labels.path, &key.into(), &what);
        }
        for what in names::label_value(value.text()) {
            faults.invalid_value(&labels.path, value.value, &what);
        }
    }
}

fn annotations(annotations: &At<'_, '_>, faults: &mut Faults) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        for what in names::qualified(&key.to_lowercase()) {
            faults.invalid_value(&annotations.path, &key.into(), &what);
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_ANNOTATIONS {
        faults.too_long(annotations.path, MAX_ANNOTATIONS);
    }
}

fn owners(owners: &At<'_, '_>, faults: &mut Faults) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            let field = owner.get(field);
            if field.is_empty() {
                faults.required_so(&field, "must not be empty");
            }
        }
        let called = format!("{}/{}", owner.get("kind").text(), owner.get("name").text());
        if (owner.get("apiVersion").text(), owner.get("kind").text()) == ("v1", "Event") {
            faults.invalid(&owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if !owner.get("controller").is_true() {
            continue;
        }
        if let Some(first) = &controller {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references \
                 for {first} and {called}"
            );
            faults.invalid(owners, &why);
        }
        controller.get_or_insert(called);
    }
}
