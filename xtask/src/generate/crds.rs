//! The CRDs as YAML, for Kubernetes of today and before 1.16.

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::schema;

const HEADER: &str = "\
# The custom resources of Paddle Operator.
# Made from crates/api by `cargo xtask generate`; changes here are overwritten.
";

/// The CRDs as JSON, in the order in which they are written.
pub fn v1() -> Result<Vec<Value>> {
    api::crds()
        .iter()
        .map(|crd| Ok(canonical(serde_json::to_value(crd)?)))
        .collect()
}

/// The same CRD for API servers that know only `apiextensions.k8s.io/v1beta1`.
///
/// Columns, subresources and schema stand beside the versions there, because
/// those servers have one schema for all. They refuse defaults and have no CEL:
/// what these would say is said by the controllers, in conditions.
pub fn v1beta1(crd: &Value) -> Value {
    let part = |pointer: &str| crd.pointer(pointer).cloned().unwrap_or_default();
    let mut schema = part("/spec/versions/0/schema/openAPIV3Schema");
    schema::for_each(&mut schema, &mut |node| {
        node.remove("default");
        node.remove("x-kubernetes-validations");
    });
    // An object may leave out its spec only where a default fills it in.
    if let Some(root) = schema.as_object_mut() {
        root.insert("required".to_owned(), json!(["spec"]));
    }
    let mut columns = part("/spec/versions/0/additionalPrinterColumns");
    for column in columns.as_array_mut().into_iter().flatten() {
        if let Some(column) = column.as_object_mut()
            && let Some(path) = column.remove("jsonPath")
        {
            column.insert("JSONPath".to_owned(), path);
        }
    }
    canonical(json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": part("/kind"),
        "metadata": part("/metadata"),
        "spec": {
            "additionalPrinterColumns": columns,
            "group": part("/spec/group"),
            "names": part("/spec/names"),
            "preserveUnknownFields": false,
            "scope": part("/spec/scope"),
            "subresources": part("/spec/versions/0/subresources"),
            "validation": { "openAPIV3Schema": schema },
            "version": part("/spec/versions/0/name"),
            "versions": [{
                "name": part("/spec/versions/0/name"),
                "served": part("/spec/versions/0/served"),
                "storage": part("/spec/versions/0/storage"),
            }],
        },
    }))
}

/// One YAML document for each object.
pub fn yaml(objects: &[Value]) -> Result<String> {
    let mut text = HEADER.to_owned();
    for object in objects {
        text.push_str("---\n");
        let document = document(object)
            .with_context(|| format!("cannot write {}", schema::text(object, "/metadata/name")))?;
        text.push_str(&document);
    }
    Ok(text)
}

/// A value as YAML.
pub fn document(value: &impl Serialize) -> Result<String> {
    let document = serde_saphyr::to_string(value)?;
    // The serializer indents empty lines of a description, too.
    let lines = document.lines();
    let lines = lines.map(|line| if line.trim().is_empty() { "" } else { line });
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

/// The value with its keys sorted, whatever features `serde_json` was built
/// with, and with whole numbers written as such: `minimum` is a float in the
/// types, and nobody writes `minimum: 1.0`.
pub fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let entries = entries
                .into_iter()
                .map(|(key, value)| (key, canonical(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        Value::Number(number) => match number.as_f64() {
            // Beyond 2^53 a float is no longer exact, and no bound is so large.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                json!(float as i64)
            }
            _ => Value::Number(number),
        },
        other => other,
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;

    /// What `kubectl apply` may put into annotations is 256 KiB, and the larger
    /// part of it is a copy of the object; others may want the rest.
    const LIMIT: usize = 160 * 1024;

    fn both() -> Vec<(Value, Value)> {
        let v1 = v1().unwrap();
        v1.into_iter()
            .map(|crd| {
                let old = v1beta1(&crd);
                (crd, old)
            })
            .collect()
    }

    fn columns<'a>(crd: &'a Value, pointer: &str, path: &str) -> Vec<[&'a str; 3]> {
        let columns = crd.pointer(pointer).unwrap().as_array().unwrap();
        let text = |column: &'a Value, key: &str| column[key].as_str().unwrap();
        columns
            .iter()
            .map(|column| {
                [
                    text(column, "name"),
                    text(column, "type"),
                    text(column, path),
                ]
            })
            .collect()
    }

    #[test]
    fn kubectl_apply_can_store_each_crd_in_an_annotation() {
        for (v1, v1beta1) in both() {
            for crd in [v1, v1beta1] {
                let size = crd.to_string().len();
                let name = schema::text(&crd, "/metadata/name");
                assert!(size < LIMIT, "{name} is {size} bytes as JSON");
            }
        }
    }

    #[test]
    fn both_flavours_name_the_same_kinds_in_order() {
        let expected = [
            ("paddlejobs.batch.paddlepaddle.org", "v1", json!(["pdj"])),
            ("samplejobs.batch.paddlepaddle.org", "v1alpha1", Value::Null),
            ("samplesets.batch.paddlepaddle.org", "v1alpha1", Value::Null),
        ];
        let both = both();
        assert_eq!(both.len(), expected.len());
        for ((v1, v1beta1), (name, version, short)) in both.iter().zip(expected) {
            assert_eq!(v1["apiVersion"], "apiextensions.k8s.io/v1");
            assert_eq!(v1beta1["apiVersion"], "apiextensions.k8s.io/v1beta1");
            for crd in [v1, v1beta1] {
                assert_eq!(crd["kind"], "CustomResourceDefinition");
                assert_eq!(crd["metadata"]["name"], name);
                assert_eq!(crd["spec"]["scope"], "Namespaced");
                assert_eq!(crd["spec"]["names"]["shortNames"], short);
                let served = &crd["spec"]["versions"][0];
                assert_eq!(served["name"], version);
                assert_eq!(served["served"], true);
                assert_eq!(served["storage"], true);
            }
            assert_eq!(v1beta1["spec"]["version"], version);
            assert_eq!(v1beta1["spec"]["preserveUnknownFields"], false);
        }
    }

    #[test]
    fn both_flavours_print_the_columns_of_the_originals() {
        let age = ".metadata.creationTimestamp";
        let expected: [&[[&str; 3]]; 3] = [
            &[
                ["Status", "string", ".status.phase"],
                ["Mode", "string", ".status.mode"],
                ["Age", "date", age],
            ],
            &[["PHASE", "string", ".status.phase"]],
            &[
                ["TOTAL SIZE", "string", ".status.cacheStatus.totalSize"],
                ["CACHED SIZE", "string", ".status.cacheStatus.cachedSize"],
                ["AVAIL SPACE", "string", ".status.cacheStatus.diskAvail"],
                ["Runtime", "string", ".status.runtimeStatus.runtimeReady"],
                ["PHASE", "string", ".status.phase"],
                ["AGE", "date", age],
            ],
        ];
        for ((v1, v1beta1), expected) in both().iter().zip(expected) {
            let new = columns(v1, "/spec/versions/0/additionalPrinterColumns", "jsonPath");
            let old = columns(v1beta1, "/spec/additionalPrinterColumns", "JSONPath");
            assert_eq!(new, expected);
            assert_eq!(old, expected);
        }
    }

    #[test]
    fn both_flavours_have_the_subresources() {
        let scale = json!({
            "specReplicasPath": ".spec.worker.replicas",
            "statusReplicasPath": ".status.worker.replicas",
            "labelSelectorPath": ".status.selector",
        });
        for (v1, v1beta1) in both() {
            let new = &v1["spec"]["versions"][0]["subresources"];
            assert_eq!(new, &v1beta1["spec"]["subresources"]);
            assert_eq!(new["status"], json!({}));
            match schema::text(&v1, "/spec/names/kind") {
                "PaddleJob" => assert_eq!(new["scale"], scale),
                _ => assert_eq!(new["scale"], Value::Null),
            }
        }
    }

    #[test]
    fn v1beta1_has_the_same_schema_but_for_what_its_servers_refuse() {
        for (v1, v1beta1) in both() {
            let mut expected = v1["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            let (mut defaults, mut rules) = (0, 0);
            schema::for_each(&mut expected, &mut |node| {
                defaults += usize::from(node.remove("default").is_some());
                rules += usize::from(node.remove("x-kubernetes-validations").is_some());
            });
            let kind = schema::text(&v1, "/spec/names/kind");
            match kind {
                "PaddleJob" => assert_eq!((defaults, rules), (0, 4), "{kind}"),
                "SampleJob" => assert_eq!((defaults, rules), (1, 2), "{kind}"),
                _ => assert_eq!((defaults, rules), (2, 0), "{kind}"),
            }
            expected["required"] = json!(["spec"]);
            assert_eq!(
                v1beta1["spec"]["validation"]["openAPIV3Schema"], expected,
                "{kind}"
            );
            assert_eq!(v1beta1["spec"]["versions"][0].get("schema"), None);
        }
    }

    #[test]
    fn the_yaml_reads_back_as_what_was_written() {
        let crds = v1().unwrap();
        let text = yaml(&crds).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, crds);
        assert!(!text.contains("minimum: 1.0"));
    }
}
