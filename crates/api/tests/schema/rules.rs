//! The CEL rules: what can't work is refused, with a message that helps.

use kube_cel::Validator;
use serde_json::{Value, json};

use crate::fixtures::{all, schema_for};

/// What the rules say of an object, as `field: message`.
fn refusals(kind: &str, spec: Value) -> Vec<String> {
    let object = json!({ "kind": kind, "spec": spec });
    let errors = match Validator::new().validate(&schema_for(&object), &object, None) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec(),
    };
    errors
        .into_iter()
        .map(|error| format!("{}: {}", error.field_path, error.message))
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn a_job_without_a_role_is_refused() {
    let expected = ["spec: the job has no role: set spec.worker, or spec.ps and spec.worker"];
    assert_eq!(refusals("PaddleJob", json!({})), expected);
    assert_eq!(refusals("PaddleJob", json!({ "elastic": 1 })), expected);
}

#[test]
fn a_role_without_containers_is_refused() {
    for role in ["ps", "worker", "heter"] {
        let refused = |template: Value| {
            let mut pods = json!({ "replicas": 1 });
            if !template.is_null() {
                pods["template"] = template;
            }
            refusals("PaddleJob", json!({ role: pods }))
        };
        let missing = [format!(
            "spec.{role}.template: template.spec is missing: \
             a role needs a pod template with at least one container"
        )];
        assert_eq!(refused(Value::Null), missing);
        assert_eq!(refused(json!({ "metadata": {} })), missing);
        let empty = [format!(
            "spec.{role}.template.spec.containers: template.spec.containers is empty: \
             a role needs at least one container"
        )];
        assert_eq!(refused(json!({ "spec": { "containers": [] } })), empty);
        assert_eq!(
            refused(json!({ "spec": { "containers": [{ "name": "a" }] } })),
            NONE
        );
    }
}

#[test]
fn rmr_needs_paths() {
    let expected = ["spec.rmrOptions: rmrOptions.paths is missing: \
         a job of type rmr needs at least one path to remove"];
    assert_eq!(refusals("SampleJob", json!({ "type": "rmr" })), expected);
    assert_eq!(
        refusals("SampleJob", json!({ "type": "rmr", "rmrOptions": {} })),
        expected
    );
    assert_eq!(refusals("SampleJob", json!({ "type": "clear" })), NONE);
    assert_eq!(refusals("SampleJob", json!({})), NONE);
}

#[test]
fn a_sync_runs_on_no_other_machines() {
    for field in ["manager", "worker"] {
        let refused = |value: &str| {
            refusals(
                "SampleJob",
                json!({ "type": "sync", "syncOptions": { field: value } }),
            )
        };
        assert_eq!(
            refused("10.0.0.1"),
            [format!(
                "spec.syncOptions.{field}: {field} is not supported: \
                 a sync runs in the runtime server of partition 0; remove the field"
            )]
        );
        assert_eq!(refused(""), NONE);
    }
}

#[test]
fn what_the_tutorials_show_is_not_refused() {
    for (name, object) in all() {
        let kind = object["kind"].as_str().unwrap();
        assert_eq!(refusals(kind, object["spec"].clone()), NONE, "{name}");
    }
}
