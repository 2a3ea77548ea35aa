//! The scale of an object: its size apart from everything else.

use serde_json::{Value, json};

use crate::object::meta;
use crate::path::{at, steps};
use crate::served::Scale;
use crate::status::Status;

/// The scale of an object.
pub fn of(paths: &Scale, object: &Value) -> Value {
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = paths.selector.as_ref().and_then(|path| at(object, path));
    let meta = |field: &str| meta(object, field);
    let mut status = json!({"replicas": number(&paths.status)});
    if let Some(selector) = selector.map(told).filter(|text| !text.is_empty()) {
        json_patch::merge(&mut status, &json!({"selector": selector}));
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta("name"),
            "namespace": meta("namespace"),
            "uid": meta("uid"),
            "resourceVersion": meta("resourceVersion"),
            "creationTimestamp": meta("creationTimestamp"),
        },
        "spec": {"replicas": number(&paths.spec)},
        "status": status,
    })
}

/// A selector as a text.
fn told(selector: &Value) -> String {
    if let Value::String(text) = selector {
        return text.clone();
    }
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    labels.collect::<Vec<_>>().join(",")
}

/// What a scale changes in its object, as a merge patch.
///
/// # Errors
/// 400 when it has no size.
pub fn change(paths: &Scale, scale: &Value) -> Result<Value, Status> {
    let size = scale.pointer("/spec/replicas").and_then(Value::as_i64);
    let size = size.ok_or_else(|| Status::bad_request("spec.replicas is no number"))?;
    let nested = steps(&paths.spec).rfold(json!(size), |inner, step| json!({step: inner}));
    let mut change = json!({"metadata": {}});
    for field in ["uid", "resourceVersion"] {
        let given = meta(scale, field);
        if let (false, Some(meta)) = (given.is_empty(), change.get_mut("metadata")) {
            json_patch::merge(meta, &json!({field: given}));
        }
    }
    json_patch::merge(&mut change, &nested);
    Ok(change)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let paths = Scale {
            spec: ".spec.worker.replicas".to_owned(),
            status: ".status.worker.replicas".to_owned(),
            selector: Some(".status.selector".to_owned()),
        };
        let object = json!({
            "metadata": {"name": "a", "resourceVersion": "7"},
            "spec": {"worker": {"replicas": 2}},
            "status": {"worker": {"replicas": 1}, "selector": "x=y"},
        });
        let mut scale = of(&paths, &object);
        assert_eq!(scale.pointer("/spec/replicas"), Some(&json!(2)));
        assert_eq!(
            scale.pointer("/status"),
            Some(&json!({"replicas": 1, "selector": "x=y"}))
        );
        json_patch::merge(&mut scale, &json!({"spec": {"replicas": 5}}));
        assert_eq!(
            change(&paths, &scale).unwrap(),
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"worker": {"replicas": 5}}})
        );
        assert!(change(&paths, &json!({})).is_err());
    }
}
