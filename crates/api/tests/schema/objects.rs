//! Objects keep every field through the types and through the API server.

use std::collections::BTreeSet;

use api::{PaddleJob, Phase, SampleJob, SampleSet};
use serde_json::{Value, json};

use crate::fixtures::{EVERY_FIELD, all, parse, schema_for, through_the_type};
use crate::walk::problems;

#[test]
fn nothing_is_lost_in_the_types() {
    for (name, object) in all() {
        assert_eq!(through_the_type(&object), object, "{name}");
    }
}

/// The walker finds what there is to find; without this the tests that use it
/// would prove little.
#[test]
fn the_walker_sees_what_an_api_server_would() {
    let (_, yaml) = EVERY_FIELD[2];
    let mut object = parse(yaml);
    object["spec"]["partitions"] = json!(0);
    object["spec"]["source"]["uri"] = json!("short");
    object["spec"]["cache"]["levels"] = json!([]);
    object["spec"]["csi"]["driver"] = json!("other");
    object["spec"]["noSync"] = json!("no");
    object["spec"]["new"] = json!(1);
    object["status"]["operation"] = json!({ "id": "1", "type": "sync" });
    let expected = [
        r#"spec.cache.levels: [] is out of bounds"#,
        r#"spec.csi.driver: "other" is none of the values"#,
        r#"spec.new: dropped"#,
        r#"spec.noSync: "no" does not fit"#,
        r#"spec.partitions: 0 is out of bounds"#,
        r#"spec.source.uri: "short" is out of bounds"#,
        r#"status.operation.owner: missing"#,
    ];
    let mut found = problems(&schema_for(&object), &object);
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn nothing_is_refused_or_dropped_by_the_schemas() {
    for (name, object) in all() {
        let found = problems(&schema_for(&object), &object);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
}

/// The fields of an object and of its schema must be the same, so that the
/// fixtures, and the tests that read them, really know every field.
#[test]
fn the_fixtures_know_every_field() {
    for (name, yaml) in EVERY_FIELD {
        let object = parse(yaml);
        let schema = schema_for(&object);
        for part in ["spec", "status"] {
            let mut missing = BTreeSet::new();
            unused(
                part,
                &schema["properties"][part],
                &[&object[part]],
                &mut missing,
            );
            assert_eq!(missing, BTreeSet::new(), "{name}");
        }
    }
}

/// Adds the paths of our own fields (those with a description) that no value
/// at that place has.
fn unused(path: &str, schema: &Value, values: &[&Value], missing: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if property.get("description").is_none() {
            continue;
        }
        let path = format!("{path}.{name}");
        let values: Vec<_> = values.iter().filter_map(|value| value.get(name)).collect();
        if values.is_empty() {
            missing.insert(path);
        } else if let Some(items) = property.get("items") {
            let items_of = |value: &&Value| value.as_array().cloned().unwrap_or_default();
            let values: Vec<_> = values.iter().flat_map(items_of).collect();
            unused(&path, items, &values.iter().collect::<Vec<_>>(), missing);
        } else {
            unused(&path, property, &values, missing);
        }
    }
}

#[test]
fn what_the_go_operators_wrote_is_read() {
    let job: PaddleJob = serde_json::from_value(json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": { "name": "old", "finalizers": ["finalizers.paddlepaddle.org"] },
        "spec": { "worker": { "replicas": 1 } },
        "status": {
            "phase": "Aborted",
            "worker": {
                "running": 1,
                "refs": [{
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "old-worker-0",
                    "namespace": "default",
                    "resourceVersion": "7",
                    "uid": "6a5f",
                }],
            },
        },
    }))
    .unwrap();
    let status = job.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Unknown));
    assert_eq!(status.worker.unwrap().refs[0].uid, "6a5f");

    let set: SampleSet = serde_json::from_value(json!({
        "metadata": { "name": "old" },
        "spec": {},
        "status": { "phase": "", "cacheStatus": { "diskUsageRate": "" } },
    }))
    .unwrap();
    assert_eq!(set.status.unwrap().phase, None);

    let job: SampleJob = serde_json::from_value(json!({
        "metadata": { "name": "old" },
        "spec": {},
        "status": { "phase": "" },
    }))
    .unwrap();
    assert_eq!(job.status.unwrap().phase, None);
}
