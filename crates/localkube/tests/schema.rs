//! Schemas prune, fill in and refuse.

#![expect(clippy::indexing_slicing, reason = "a test may fail")]

use localkube::Fault;
use localkube::schema::Schema;
use serde_json::{Value, json};

fn schema() -> Schema {
    Schema::new(json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "!has(self.size) || self.size != 7", "message": "7 is unlucky"},
                ],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                    "mode": {"type": "string", "enum": ["a", "b"]},
                    "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                    "amount": {"x-kubernetes-int-or-string": true},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {
                            "type": "object",
                            "properties": {"deep": {"type": "integer", "default": 1}},
                        }},
                    },
                    "items": {
                        "type": "array",
                        "maxItems": 2,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id"],
                        "items": {
                            "type": "object",
                            "required": ["id"],
                            "properties": {"id": {"type": "integer"}},
                        },
                    },
                },
            },
        },
    }))
}

fn faults(spec: Value) -> Vec<String> {
    let object = json!({"kind": "X", "metadata": {"name": "x"}, "spec": spec});
    let faults = schema().faults(&object, None);
    faults.iter().map(Fault::to_string).collect()
}

#[test]
fn what_is_unknown_goes() {
    let mut object = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {}}, "odd": 1,
        "spec": {
            "size": 1, "sise": 2, "labels": {"any": "thing"},
            "free": {"any": {"thing": 1}, "known": {"deep": 1, "deeep": 2}},
            "items": [{"id": 1, "di": 2}],
        },
    });
    let unknown = schema().prune(&mut object);
    let wanted = [
        "odd",
        "spec.free.known.deeep",
        "spec.items[0].di",
        "spec.sise",
    ];
    assert_eq!(unknown, wanted);
    assert_eq!(object["spec"]["free"]["any"]["thing"], 1);
    assert_eq!(object["metadata"]["name"], "x");
    assert!(schema().prune(&mut object).is_empty());
}

#[test]
fn defaults_are_filled_in_at_any_depth() {
    let mut object = json!({"spec": {"size": null, "free": {"known": {}}}});
    schema().set_defaults(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 3, "free": {"known": {"deep": 1}}}})
    );
}

const NOT_CHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked \
                           because the object was invalid; correct the existing errors to complete \
                           validation";

#[test]
fn faults_are_told_in_the_words_of_the_api_server() {
    for (spec, wanted) in [
        (json!({}), vec![]),
        (
            json!({"size": 0}),
            vec![
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ],
        ),
        (
            json!({"size": "two"}),
            vec![
                r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
                NOT_CHECKED,
            ],
        ),
        (
            json!({"mode": "c"}),
            vec![
                r#"spec.mode: Unsupported value: "c": supported values: "a", "b""#,
                NOT_CHECKED,
            ],
        ),
        (
            json!({"name": "ABCDEF"}),
            vec![
                "spec.name: Invalid value: \"ABCDEF\": spec.name in body should match '^[a-z]+$'",
                "spec.name: Too long: may not be more than 5 bytes",
                NOT_CHECKED,
            ],
        ),
        (json!({"amount": "1Gi"}), vec![]),
        (
            json!({"items": [{"id": 1}, {}, {"id": 1}]}),
            vec![
                "spec.items: Too many: 3: must have at most 2 items",
                r#"spec.items[2]: Duplicate value: {"id":1}"#,
                "spec.items[1].id: Required value",
                NOT_CHECKED,
            ],
        ),
        (
            json!({"size": 7}),
            vec!["spec: Invalid value: 7 is unlucky"],
        ),
    ] {
        assert_eq!(faults(spec.clone()), wanted, "{spec}");
    }
    let missing = schema().faults(&json!({"kind": "X"}), None);
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["spec: Required value", NOT_CHECKED]);
}

#[test]
fn what_was_wrong_before_and_did_not_change_passes() {
    let old = json!({"spec": {"size": 0, "mode": "c"}});
    let new = json!({"spec": {"size": 0, "mode": "c", "name": "x"}});
    assert_eq!(schema().faults(&new, Some(&old)), []);
    let worse = json!({"spec": {"size": -1, "mode": "c"}});
    assert_eq!(schema().faults(&worse, Some(&old)).len(), 1);
}
