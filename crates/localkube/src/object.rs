//! The life of an object: what its metadata says and who may change what. It is
//! the same for every kind.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::fault::{At, Fault, Faults};
use crate::kind::Kind;
use crate::path::text;
use crate::status::Status;
use crate::store::Change;

/// What only the API server writes into metadata.
const OWN: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
];

/// Namespaces that stay.
const PROTECTED: [&str; 2] = ["default", "kube-system"];

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Main,
    /// The status alone.
    Status,
    /// What holds a namespace that is being deleted.
    Finalizers,
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// In how many seconds, where that matters.
    pub grace: Option<i64>,
    /// Only if it has this uid.
    pub uid: Option<String>,
    /// Only if it has this version.
    pub version: Option<String>,
    /// A finalizer that says what becomes of those that it owns.
    pub finalizer: Option<String>,
}

/// A text in the metadata of an object; empty when it is not there.
pub fn meta<'v>(object: &'v Value, field: &str) -> &'v str {
    let found = object.get("metadata").and_then(|meta| meta.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// An object without its spec and status.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata"),
    })
}

pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    if !object.get("metadata").is_some_and(Value::is_object) {
        set(object, "metadata", Some(json!({})));
    }
    match object.get_mut("metadata") {
        Some(Value::Object(meta)) => meta,
        _ => unreachable!("it was just made"),
    }
}

fn finalizers(object: &Value) -> &[Value] {
    let found = object.pointer("/metadata/finalizers");
    found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Checks that a body is an object of this kind, for this place. An empty kind
/// and version are filled in, as a namespace is.
///
/// # Errors
/// 400 when it is something else.
pub fn checked(kind: &Kind, namespace: &str, mut body: Value) -> Result<Value, Status> {
    let object = body
        .as_object_mut()
        .ok_or_else(|| Status::bad_request("the body of the request is no object"))?;
    let (version, name) = (kind.api_version(), kind.kind.clone());
    for (field, wanted, what) in [
        ("apiVersion", version, "API version"),
        ("kind", name, "kind"),
    ] {
        match object.get(field).map(|found| found.as_str()) {
            None | Some(Some("")) => {
                object.insert(field.to_owned(), wanted.into());
            }
            Some(Some(found)) if found == wanted => {}
            Some(found) => {
                let found = found.unwrap_or_default();
                return Err(Status::bad_request(format!(
                    "the {what} in the data ({found}) does not match the expected {what} ({wanted})"
                )));
            }
        }
    }
    if object
        .get("metadata")
        .is_some_and(|meta| !meta.is_object() && !meta.is_null())
    {
        return Err(Status::bad_request("metadata is no object"));
    }
    let meta = meta_mut(&mut body);
    for field in ["labels", "annotations"] {
        let texts = meta.get(field).filter(|texts| !texts.is_null());
        let is_good = |texts: &Value| {
            texts
                .as_object()
                .is_some_and(|texts| texts.values().all(Value::is_string))
        };
        if texts.is_some_and(|texts| !is_good(texts)) {
            return Err(Status::bad_request(format!(
                "metadata.{field} must be texts by name; quote numbers and booleans"
            )));
        }
    }
    let found = meta
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !found.is_empty() && found != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if kind.is_namespaced {
        meta.insert("namespace".to_owned(), namespace.into());
    }
    Ok(body)
}

/// Empty lists and maps in metadata are as good as none.
fn tidy(object: &mut Value) {
    let meta = meta_mut(object);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = match meta.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if is_empty {
            meta.remove(field);
        }
    }
}

/// An object in a list whose items are all of one kind.
pub(crate) fn without_type(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
    let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
    Value::Object(fields.collect())
}

/// A new object. `suffix` completes a `generateName`.
///
/// # Errors
/// When it has a version already.
pub fn create(
    kind: &Kind,
    mut object: Value,
    uid: &str,
    suffix: &str,
    now: Timestamp,
) -> Result<Value, Status> {
    if !meta(&object, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::bad_request(message));
    }
    // Nodes say what they are when they come.
    if kind.has_status
        && kind.resource() != "nodes"
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
    if is_namespace(kind) {
        set_holders(&mut object, Some(json!(["kubernetes"])));
    }
    let prefix = meta(&object, "generateName").to_owned();
    let meta = meta_mut(&mut object);
    for field in OWN {
        meta.remove(field);
    }
    let name = match meta.get("name").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ if !prefix.is_empty() => format!("{prefix}{suffix}"),
        _ => String::new(),
    };
    meta.insert("name".to_owned(), name.into());
    meta.insert("uid".to_owned(), uid.into());
    meta.insert("creationTimestamp".to_owned(), seconds(now).into());
    if kind.has_generation {
        meta.insert("generation".to_owned(), 1.into());
    }
    tidy(&mut object);
    Ok(object)
}

/// The times in metadata have no fraction of a second.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What becomes of an object when somebody writes it anew.
///
/// # Errors
/// 409 when it is not the one that was meant, 422 when it can't be.
pub fn update(kind: &Kind, old: &Value, new: Value, part: Part) -> Result<Change, Status> {
    let name = meta(old, "name");
    is_meant(kind, old, meta(&new, "uid"), meta(&new, "resourceVersion"))?;
    let mut object = match part {
        Part::Status => {
            let mut object = old.clone();
            set(&mut object, "status", new.get("status").cloned());
            object
        }
        Part::Finalizers => {
            let mut object = old.clone();
            set_holders(&mut object, new.pointer("/spec/finalizers").cloned());
            object
        }
        Part::Main => {
            let mut object = new;
            if is_namespace(kind) {
                set_holders(&mut object, old.pointer("/spec/finalizers").cloned());
            }
            if kind.has_status {
                set(&mut object, "status", old.get("status").cloned());
            }
            let given = meta(&object, "name");
            if !given.is_empty() && given != name {
                return Err(Status::bad_request(format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )));
            }
            let meta = meta_mut(&mut object);
            for field in OWN
                .into_iter()
                .chain(["name", "generateName", "resourceVersion"])
            {
                let before = old.get("metadata").and_then(|meta| meta.get(field));
                match before {
                    Some(before) => meta.insert(field.to_owned(), before.clone()),
                    None => meta.remove(field),
                };
            }
            object
        }
    };
    tidy(&mut object);
    forbid_new_finalizers(kind, old, &object)?;
    if part == Part::Main && kind.has_generation && content(old) != content(&object) {
        count_generation(&mut object);
    }
    if object == *old {
        return Ok(Change::Keep);
    }
    Ok(settle(kind, object))
}

fn is_namespace(kind: &Kind) -> bool {
    kind.resource() == "namespaces"
}

/// Says who has to be done with a namespace before it goes.
fn set_holders(namespace: &mut Value, holders: Option<Value>) {
    let holders = holders.filter(Value::is_array).unwrap_or_else(|| json!([]));
    if !namespace.get("spec").is_some_and(Value::is_object) {
        set(namespace, "spec", Some(json!({})));
    }
    if let Some(spec) = namespace.get_mut("spec") {
        set(spec, "finalizers", Some(holders));
    }
}

fn is_meant(kind: &Kind, old: &Value, uid: &str, version: &str) -> Result<(), Status> {
    let (own, name) = (meta(old, "uid"), meta(old, "name"));
    if !uid.is_empty() && uid != own {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Status::conflict(kind, name, &why));
    }
    if !version.is_empty() && version != meta(old, "resourceVersion") {
        return Err(Status::modified(kind, name));
    }
    Ok(())
}

/// A patch does not make an object another one. As the real one, who takes a wrong version
/// for a conflict, and after it a wrong uid for a mistake.
pub(crate) fn is_same(kind: &Kind, old: &Value, new: &Value) -> Result<(), Status> {
    is_meant(kind, old, "", meta(new, "resourceVersion"))?;
    let uid = meta(new, "uid");
    if uid.is_empty() || uid == meta(old, "uid") {
        return Ok(());
    }
    let mut faults = Faults::default();
    let found = At::root(new);
    let metadata = found.get("metadata");
    faults.invalid(&metadata.get("uid"), "field is immutable");
    Err(Status::invalid(kind, meta(old, "name"), &faults.0))
}

fn forbid_new_finalizers(kind: &Kind, old: &Value, new: &Value) -> Result<(), Status> {
    let added: Vec<String> = finalizers(new)
        .iter()
        .filter(|finalizer| !finalizers(old).contains(finalizer))
        .map(Value::to_string)
        .collect();
    if added.is_empty() || meta(old, "deletionTimestamp").is_empty() {
        return Ok(());
    }
    let fault = Fault {
        field: "metadata.finalizers".to_owned(),
        reason: "FieldValueForbidden",
        message: format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new \
             finalizers []string{{{}}}",
            added.join(", ")
        ),
    };
    Err(Status::invalid(kind, meta(old, "name"), &[fault]))
}

fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => object.insert(field.to_owned(), value),
        None => object.remove(field),
    };
}

/// What a generation is counted for.
fn content(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["metadata", "status"].contains(&name.as_str()));
    fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn count_generation(object: &mut Value) {
    let meta = meta_mut(object);
    let generation = meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
    meta.insert("generation".to_owned(), (generation + 1).into());
}

/// An object that is being deleted goes when nothing holds it any more.
fn settle(kind: &Kind, object: Value) -> Change {
    let holders = object.pointer("/spec/finalizers").and_then(Value::as_array);
    let has_holders = holders.is_some_and(|holders| !holders.is_empty());
    let is_held = !finalizers(&object).is_empty() || (is_namespace(kind) && has_holders);
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds");
    let waits = grace.and_then(Value::as_i64).is_some_and(|grace| grace > 0);
    if meta(&object, "deletionTimestamp").is_empty() || is_held || waits {
        Change::Put(object)
    } else {
        Change::Delete(object)
    }
}

/// What becomes of an object that somebody deletes.
///
/// # Errors
/// 409 when it is not the one that was meant.
pub fn delete(
    kind: &Kind,
    old: &Value,
    deletion: &Deletion,
    now: Timestamp,
) -> Result<Change, Status> {
    let (uid, version) = (deletion.uid.as_deref(), deletion.version.as_deref());
    is_meant(
        kind,
        old,
        uid.unwrap_or_default(),
        version.unwrap_or_default(),
    )?;
    if is_namespace(kind) && PROTECTED.contains(&meta(old, "name")) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(kind, meta(old, "name"), why));
    }
    let grace = grace(kind, old, deletion.grace);
    let is_going = !meta(old, "deletionTimestamp").is_empty();
    let mut object = old.clone();
    let held = meta_mut(&mut object);
    let before = held
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    if !is_going && let Some(finalizer) = &deletion.finalizer {
        let finalizers = held.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut() {
            finalizers.push(finalizer.clone().into());
        }
    }
    // A deletion can be hastened by who says so, not put off.
    let is_hastened = deletion.grace.is_some() && before.is_some_and(|before| grace < before);
    if !is_going || is_hastened {
        let at = now
            .checked_add(SignedDuration::from_secs(grace))
            .unwrap_or(now);
        held.insert("deletionTimestamp".to_owned(), seconds(at).into());
        // Namespaces end in their own time.
        if !is_namespace(kind) {
            held.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
    }
    if !is_going && kind.has_generation {
        count_generation(&mut object);
    }
    if is_namespace(kind) {
        json_patch::merge(&mut object, &json!({"status": {"phase": "Terminating"}}));
    }
    Ok(match settle(kind, object) {
        // As it was: nobody shall think that it is still going.
        Change::Delete(_) if !is_going => Change::Delete(old.clone()),
        Change::Put(object) if object == *old => Change::Keep,
        change => change,
    })
}

/// Pods that have a node are given time to end; nothing else is.
fn grace(kind: &Kind, old: &Value, asked: Option<i64>) -> i64 {
    let has_ended = ["Succeeded", "Failed"].contains(&text(old, "status.phase"));
    if kind.kind != "Pod" || text(old, "spec.nodeName").is_empty() || has_ended {
        return 0;
    }
    let own = old
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    asked.or(own).unwrap_or(30).max(0)
}
