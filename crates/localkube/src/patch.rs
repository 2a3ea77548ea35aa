//! The three ways to change a part of an object.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value};

use crate::weight::{MAX_BYTES, MAX_DEPTH, Weight};

/// A list whose items are merged by a key, rather than replaced.
const MERGED_BY: [(&str, &str); 19] = [
    ("addresses", "type"),
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("podIPs", "ip"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("secrets", "name"),
    ("taints", "key"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("volumeClaimTemplates", "name"),
];
/// Lists of words that are merged as sets.
const SETS: [&str; 1] = ["finalizers"];

/// How many steps a JSON patch may have.
const MAX_STEPS: usize = 10_000;

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const DELETE_WORDS: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// A patch that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inapplicable(String);

/// A JSON patch (RFC 6902).
///
/// # Errors
/// When it is no patch, or one of its steps can't be taken.
pub fn json(target: &mut Value, patch: Value) -> Result<(), Inapplicable> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch).map_err(|error| Inapplicable(error.to_string()))?;
    if patch.len() > MAX_STEPS {
        return Err(Inapplicable(format!(
            "The allowed maximum operations in a JSON patch is {MAX_STEPS}, got {}",
            patch.len()
        )));
    }
    let mut copied = 0;
    for (index, step) in patch.iter().enumerate() {
        let weight = added(target, step);
        copied += weight.bytes;
        if weight.depth > MAX_DEPTH || copied > 2 * MAX_BYTES {
            return Err(Inapplicable(format!(
                "operation '/{index}' makes the object too large"
            )));
        }
        json_patch::patch_unsafe(target, std::slice::from_ref(step))
            .map_err(|error| Inapplicable(told(index, &error)))?;
    }
    Ok(())
}

/// An error of a step, which was given alone.
fn told(index: usize, error: &json_patch::PatchError) -> String {
    error
        .to_string()
        .replacen("'/0'", &format!("'/{index}'"), 1)
}

/// How deep what a step puts reaches, and how much of it was not in the patch:
/// copies of copies grow fast.
fn added(target: &Value, step: &PatchOperation) -> Weight {
    let (path, weight) = match step {
        PatchOperation::Copy(step) => {
            let from = target.pointer(step.from.as_str());
            (&step.path, from.map(Weight::of).unwrap_or_default())
        }
        PatchOperation::Move(step) => {
            let from = target.pointer(step.from.as_str());
            let depth = from.map(Weight::of).unwrap_or_default().depth;
            (&step.path, Weight { depth, bytes: 0 })
        }
        PatchOperation::Add(AddOperation { path, value })
        | PatchOperation::Replace(ReplaceOperation { path, value }) => {
            let depth = Weight::of(value).depth;
            (path, Weight { depth, bytes: 0 })
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Weight::default(),
    };
    Weight {
        depth: weight.depth + path.as_str().matches('/').count(),
        ..weight
    }
}

/// A merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

/// A strategic merge patch, with the lists of the built-in kinds.
///
/// # Errors
/// When a list that is merged by a key has an item without it.
pub fn strategic(target: &mut Value, patch: &Value) -> Result<(), Inapplicable> {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => merge_maps(target, patch),
        (target, patch) => {
            *target = plain(patch);
            Ok(())
        }
    }
}

fn merge_maps(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), Inapplicable> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *target = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(Inapplicable(format!(
                "{DIRECTIVE}: {other} is unknown; it may be replace, delete or merge"
            )));
        }
    }
    if let Some(Value::Array(kept)) = patch.get(RETAIN) {
        target.retain(|key, _| kept.iter().any(|kept| kept == key));
    }
    for (key, change) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (target.get_mut(key), change) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(old)), Value::Object(change)) => merge_maps(old, change)?,
            (old, Value::Array(change)) => {
                let nothing = Vec::new();
                let old = old.and_then(|old| old.as_array()).unwrap_or(&nothing);
                let merged = merge_lists(key, old, change)?;
                target.insert(key.clone(), merged.into());
            }
            (_, change) => {
                target.insert(key.clone(), plain(change));
            }
        }
    }
    for (key, words) in patch
        .iter()
        .filter_map(|(k, v)| Some((k.strip_prefix(DELETE_WORDS)?, v)))
    {
        if let (Some(Value::Array(list)), Value::Array(words)) = (target.get_mut(key), words) {
            list.retain(|item| !words.contains(item));
        }
    }
    for (key, order) in patch
        .iter()
        .filter_map(|(k, v)| Some((k.strip_prefix(ORDER)?, v)))
    {
        if let (Some(Value::Array(list)), Value::Array(order)) = (target.get_mut(key), order) {
            sort(key, list, order);
        }
    }
    Ok(())
}

fn merge_lists(name: &str, old: &[Value], change: &[Value]) -> Result<Vec<Value>, Inapplicable> {
    let mut merged = old.to_vec();
    if SETS.contains(&name) {
        let mut known: BTreeSet<String> = merged.iter().map(Value::to_string).collect();
        for word in change {
            if known.insert(word.to_string()) {
                merged.push(word.clone());
            }
        }
        return Ok(in_order(merged, old, change, |word| Some(word.to_string())));
    }
    let Some(by) = merge_key(name, old, change) else {
        return Ok(change.iter().map(plain).collect());
    };
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if change
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        let items = change.iter().filter(|item| item.get(by).is_some());
        return Ok(items.map(plain).collect());
    }
    let id = |item: &Value| item.get(by).map(Value::to_string);
    let mut places = BTreeMap::new();
    for (place, item) in merged.iter().enumerate() {
        if let Some(id) = id(item) {
            places.entry(id).or_insert(place);
        }
    }
    let mut removed = BTreeSet::new();
    for item in change {
        let id = id(item).ok_or_else(|| {
            Inapplicable(format!(
                "an item of {name} has no {by}, by which they are merged"
            ))
        })?;
        let place = places.get(&id).copied();
        if directive(item).as_deref() == Some("delete") {
            removed.extend(place);
            places.remove(&id);
        } else if let Some(old) = place.and_then(|place| merged.get_mut(place)) {
            strategic(old, item)?;
        } else {
            places.insert(id, merged.len());
            merged.push(plain(item));
        }
    }
    let kept = merged.into_iter().enumerate();
    let kept = kept.filter(|(place, _)| !removed.contains(place));
    let kept = kept.map(|(_, item)| item).collect();
    Ok(in_order(kept, old, change, id))
}

/// The items of a merged list in the order of the real one: each of the old ones that the
/// patch does not name stays before those that came after it; new ones come before it.
fn in_order(
    merged: Vec<Value>,
    old: &[Value],
    change: &[Value],
    id: impl Fn(&Value) -> Option<String>,
) -> Vec<Value> {
    let places = |list: &[Value]| -> BTreeMap<Option<String>, usize> {
        let places = list.iter().enumerate().rev();
        places.map(|(place, item)| (id(item), place)).collect()
    };
    let (before, named) = (places(old), places(change));
    let (mut patched, rest): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| named.contains_key(&id(item)));
    patched.sort_by_cached_key(|item| named.get(&id(item)).copied());
    let mut ordered = Vec::with_capacity(patched.len() + rest.len());
    let mut patched = patched.into_iter().peekable();
    for item in rest {
        let place = before.get(&id(&item));
        while let Some(first) = patched.next_if(|first| before.get(&id(first)) < place) {
            ordered.push(first);
        }
        ordered.push(item);
    }
    ordered.extend(patched);
    ordered
}

/// The key by which the items of a list are merged, if they are.
fn merge_key(name: &str, old: &[Value], change: &[Value]) -> Option<&'static str> {
    if name == "ports" {
        // Of containers or of a Service.
        let mut all = old.iter().chain(change);
        let of_containers = all.any(|port| port.get("containerPort").is_some());
        return Some(if of_containers {
            "containerPort"
        } else {
            "port"
        });
    }
    let mut known = MERGED_BY.iter();
    known.find(|(list, _)| *list == name).map(|(_, key)| *key)
}

/// Puts a list into the order that the patch wants; what it does not name stays
/// behind what it does.
fn sort(name: &str, list: &mut [Value], order: &[Value]) {
    let by = merge_key(name, list, order);
    let id = |item: &Value| match by {
        Some(by) => item.get(by).cloned(),
        None => Some(item.clone()),
    };
    let id = |item: &Value| id(item).map(|id| id.to_string());
    let mut places = BTreeMap::new();
    for (place, wanted) in order.iter().enumerate() {
        places.entry(id(wanted)).or_insert(place);
    }
    list.sort_by_cached_key(|item| places.get(&id(item)).copied().unwrap_or(usize::MAX));
}

/// A value of a patch as a value of an object.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => without_directives(map).into(),
        Value::Array(list) => list.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn without_directives(map: &Map<String, Value>) -> Map<String, Value> {
    let fields = map.iter();
    let fields = fields.filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    fields
        .map(|(key, value)| (key.clone(), plain(value)))
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(old: Value, patch: &Value, wanted: &Value) {
        let mut target = old;
        strategic(&mut target, patch).unwrap();
        assert_eq!(target, *wanted);
    }

    #[test]
    fn maps_are_merged_and_null_removes() {
        check(
            json!({"a": {"b": 1, "c": 2}, "d": [1, 2]}),
            &json!({"a": {"b": null, "e": {"f": null}}, "d": [3]}),
            &json!({"a": {"c": 2, "e": {}}, "d": [3]}),
        );
    }

    #[test]
    fn lists_are_merged_by_their_key() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "args": ["x"]},
            {"name": "b", "image": "1"},
        ]}});
        check(
            pod,
            &json!({"spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [
                    {"name": "a", "args": ["y"], "env": [{"name": "Y", "value": "2"}]},
                    {"name": "b", "$patch": "delete"},
                    {"name": "c", "image": "3"},
                ],
            }}),
            &json!({"spec": {"containers": [
                {"name": "c", "image": "3"},
                {"name": "a", "image": "1", "args": ["y"],
                 "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
            ]}}),
        );
    }

    #[test]
    fn new_items_come_before_those_that_the_patch_does_not_name() {
        let conditions = |types: &[&str]| {
            let types = types.iter().map(|type_| json!({"type": type_}));
            json!({"conditions": types.collect::<Vec<_>>()})
        };
        check(
            conditions(&["a", "b"]),
            &conditions(&["c"]),
            &conditions(&["c", "a", "b"]),
        );
        check(
            conditions(&["a", "b"]),
            &conditions(&["b", "c"]),
            &conditions(&["a", "b", "c"]),
        );
    }

    #[test]
    fn words_are_a_set() {
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            &json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "finalizers": ["b", "c"],
            }}),
            &json!({"metadata": {"finalizers": ["b", "c"]}}),
        );
    }

    #[test]
    fn a_part_can_be_replaced() {
        check(
            json!({"spec": {"volumes": [{"name": "a"}], "x": 1, "strategy": {"a": 1, "b": 2}}}),
            &json!({"spec": {
                "volumes": [{"$patch": "replace"}, {"name": "b"}],
                "strategy": {"$retainKeys": ["b"], "b": 3},
            }}),
            &json!({"spec": {"volumes": [{"name": "b"}], "x": 1, "strategy": {"b": 3}}}),
        );
        check(
            json!({"spec": {"x": 1, "y": 2}}),
            &json!({"spec": {"$patch": "replace", "z": 3}}),
            &json!({"spec": {"z": 3}}),
        );
    }

    #[test]
    fn ports_of_containers_and_of_services_differ() {
        check(
            json!({"ports": [{"containerPort": 80, "name": "a"}]}),
            &json!({"ports": [{"containerPort": 80, "name": "b"}]}),
            &json!({"ports": [{"containerPort": 80, "name": "b"}]}),
        );
        check(
            json!({"ports": [{"port": 80, "name": "a"}]}),
            &json!({"ports": [{"port": 81}]}),
            &json!({"ports": [{"port": 81}, {"port": 80, "name": "a"}]}),
        );
    }

    #[test]
    fn what_can_not_be_applied_says_why() {
        let mut target = json!({"containers": [{"name": "a"}]});
        let error = strategic(&mut target, &json!({"containers": [{"image": "x"}]}));
        assert_eq!(
            error.unwrap_err().to_string(),
            "an item of containers has no name, by which they are merged"
        );
        let error = json(
            &mut target,
            json!([{"op": "test", "path": "/x", "value": 1}]),
        );
        assert!(error.is_err());
    }
}
