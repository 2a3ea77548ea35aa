//! Schemas are structural, and require no more than the originals did.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fixtures::{EVERY_FIELD, parse, schema_for};
use crate::walk::for_each;

fn schemas() -> impl Iterator<Item = (String, Value)> {
    EVERY_FIELD.iter().map(|(_, yaml)| {
        let object = parse(yaml);
        (
            object["kind"].as_str().unwrap().to_owned(),
            schema_for(&object),
        )
    })
}

#[test]
fn every_schema_is_structural() {
    for (kind, schema) in schemas() {
        for_each(&kind, &schema, &mut |path, node| {
            for key in [
                "$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "title",
            ] {
                assert_eq!(node.get(key), None, "{path} has {key}");
            }
            assert!(
                node["type"].is_string()
                    || node["x-kubernetes-int-or-string"] == true
                    || node["x-kubernetes-preserve-unknown-fields"] == true,
                "{path} has no type: {node}"
            );
            if let Some(values) = node["enum"].as_array() {
                assert!(values.iter().all(Value::is_string), "{path}: {node}");
            }
            let (properties, values) = (node.get("properties"), node.get("additionalProperties"));
            assert!(properties.is_none() || values.is_none(), "{path} has both");
        });
    }
}

#[test]
fn nothing_is_required_that_the_originals_did_not_require() {
    let mut required = BTreeMap::new();
    for (kind, schema) in schemas() {
        for_each(&kind, &schema, &mut |path, node| {
            // What is inside a pod is Kubernetes' to say, and a status is ours.
            let core = path.contains(".template.spec.") || path.contains(".nodeAffinity.");
            let core = core || path.contains(".resources.");
            if let Some(names) = node.get("required")
                && !core
                && !path.contains(".status")
            {
                required.insert(path.to_owned(), names.clone());
            }
        });
    }
    let expected = [
        ("PaddleJob", json!(["spec"])),
        ("PaddleJob.spec.heter", json!(["replicas"])),
        ("PaddleJob.spec.heter.template.spec", json!(["containers"])),
        ("PaddleJob.spec.ps", json!(["replicas"])),
        ("PaddleJob.spec.ps.template.spec", json!(["containers"])),
        ("PaddleJob.spec.sampleSetRef", json!(["mountPath"])),
        ("PaddleJob.spec.worker", json!(["replicas"])),
        ("PaddleJob.spec.worker.template.spec", json!(["containers"])),
    ];
    let expected = expected.map(|(path, names)| (path.to_owned(), names));
    assert_eq!(required, BTreeMap::from(expected));
}

#[test]
fn only_what_the_originals_bounded_is_bounded_and_what_is_new() {
    let mut bounds = Vec::new();
    for (kind, schema) in schemas() {
        for_each(&kind, &schema["properties"]["spec"], &mut |path, node| {
            for key in ["enum", "minimum", "maximum", "minLength", "minItems"] {
                if let Some(bound) = node.get(key) {
                    bounds.push(format!("{path} {key} {bound}"));
                }
            }
            for key in ["pattern", "maxItems", "maxLength", "maxProperties"] {
                assert_eq!(node.get(key), None, "{path} has {key}");
            }
        });
    }
    let original = [
        r#"SampleJob.clearOptions.paths minItems 1"#,
        r#"SampleJob.rmrOptions.paths minItems 1"#,
        r#"SampleJob.type enum ["sync","warmup","clear","rmr"]"#,
        r#"SampleJob.warmupOptions.partitions minimum 1.0"#,
        r#"SampleJob.warmupOptions.paths minItems 1"#,
        r#"SampleJob.warmupOptions.strategyName enum ["sequence","random"]"#,
        r#"SampleSet.cache.levels minItems 1"#,
        r#"SampleSet.cache.levels[].mediumType enum ["MEM","SSD","HDD"]"#,
        r#"SampleSet.cache.levels[].path minLength 1"#,
        r#"SampleSet.csi.driver enum ["juicefs"]"#,
        r#"SampleSet.partitions minimum 1.0"#,
        r#"SampleSet.source.uri minLength 10"#,
    ];
    for bound in original {
        assert!(bounds.iter().any(|b| b == bound), "no {bound}");
    }
    let new = |bound: &String| {
        [
            ".replicas m",
            ".sampler.",
            "PaddleJob.activeDeadlineSeconds",
            "PaddleJob.backoffLimit",
            "PaddleJob.sampleSetRef.minCachedPercent",
            "SampleJob.concurrencyPolicy",
            "SampleJob.failedJobsHistoryLimit",
            "SampleJob.startingDeadlineSeconds",
            "SampleJob.successfulJobsHistoryLimit",
            "SampleSet.warmup.",
            "ttlSecondsAfterFinished",
        ]
        .iter()
        .any(|part| bound.contains(part))
    };
    bounds.retain(|bound| !original.contains(&bound.as_str()) && !new(bound));
    assert_eq!(bounds, Vec::<String>::new());
}

#[test]
fn defaults_stand_only_where_the_originals_had_them() {
    let mut defaults = Vec::new();
    for (kind, schema) in schemas() {
        for_each(&kind, &schema, &mut |path, node| {
            if let Some(default) = node.get("default") {
                defaults.push(format!("{path} {default}"));
            }
        });
    }
    // A default of `warmupOptions.strategyName` would hide that of the
    // SampleSet. The empty specs make an object without one readable.
    let expected = [
        r#"SampleJob.spec {}"#,
        r#"SampleSet.spec {}"#,
        r#"SampleSet.spec.csi.driver "juicefs""#,
    ];
    assert_eq!(defaults, expected);
}
