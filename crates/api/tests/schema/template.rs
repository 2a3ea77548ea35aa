//! A pod template is kept whole.

use api::{PaddleJob, PodTemplate};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::fixtures::{schema_for, through_the_type};
use crate::walk::{for_each, problems};

fn job(template: Value) -> Value {
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": { "name": "a" },
        "spec": { "worker": { "replicas": 1, "template": template } },
    })
}

/// Problems of a job with this template, which must also survive the type.
fn problems_of(template: Value) -> Vec<String> {
    let job = job(template);
    assert_eq!(through_the_type(&job), job);
    problems(&schema_for(&job), &job)
}

/// A value for a schema in which every field is set.
fn sample(schema: &Value) -> Value {
    if let Some(properties) = schema["properties"].as_object() {
        let fields = properties
            .iter()
            .map(|(name, property)| (name.clone(), sample(property)));
        return Value::Object(fields.collect());
    }
    if let Some(values) = schema.get("additionalProperties") {
        return json!({ "some.key/x": sample(values) });
    }
    match schema["type"].as_str() {
        Some("array") => json!([sample(&schema["items"])]),
        Some("string") => json!("text"),
        Some("boolean") => json!(true),
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("object") => json!({ "any": { "thing": [1] } }),
        _ => json!("100m"),
    }
}

#[test]
fn every_field_that_kubernetes_has_is_accepted_and_kept() {
    let kubernetes = SchemaSettings::openapi3()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<PodTemplateSpec>()
        .to_value();
    let template = sample(&kubernetes);
    let parts = [
        "nodeAffinity",
        "ephemeralContainers",
        "projected",
        "preStop",
    ];
    for part in parts {
        assert!(
            template.to_string().contains(part),
            "no {part} in the sample"
        );
    }
    assert_eq!(problems_of(template), Vec::<String>::new());
}

#[test]
fn fields_that_nobody_has_heard_of_are_kept() {
    let template = json!({
        "metadata": { "creationTimestamp": null, "new": 1 },
        "new": { "a": 1 },
        "spec": {
            "new": { "a": [{ "b": 1 }] },
            "affinity": { "new": 1, "nodeAffinity": { "new": 1 } },
            "securityContext": { "new": 1 },
            "volumes": [{ "name": "v", "newType": { "a": 1 }, "emptyDir": { "new": 1 } }],
            "containers": [{
                "name": "paddle",
                "new": { "a": { "b": 1 } },
                "env": [{ "name": "A", "valueFrom": { "newRef": { "a": "b" } } }],
                "livenessProbe": { "httpGet": { "port": "http", "new": 1 } },
                "resources": { "new": { "a": 1 } },
            }],
        },
    });
    assert_eq!(problems_of(template), Vec::<String>::new());
}

#[test]
fn numbers_are_taken_as_kubernetes_takes_them() {
    let container = |resources: Value, port: Value| {
        json!({
            "name": "paddle",
            "resources": resources,
            "readinessProbe": { "tcpSocket": { "port": port } },
        })
    };
    let template = json!({ "spec": { "containers": [
        container(json!({ "limits": { "cpu": 0.5, "nvidia.com/gpu": 1, "memory": "1Gi" } }), json!(80)),
        container(json!({ "requests": { "cpu": "100m" } }), json!("http")),
    ] } });
    assert_eq!(problems_of(template), Vec::<String>::new());
}

#[test]
fn what_no_kubernetes_accepts_is_refused() {
    let refused = |container: Value| {
        let job = job(json!({ "spec": { "containers": [container] } }));
        problems(&schema_for(&job), &job)
    };
    let at = "spec.worker.template.spec.containers[0]";
    assert_eq!(
        refused(json!({ "name": "a", "command": "python" })),
        [format!("{at}.command: \"python\" does not fit")]
    );
    assert_eq!(
        refused(json!({ "image": "a" })),
        [format!("{at}.name: missing")]
    );
    assert_eq!(
        refused(json!({ "name": "a", "env": [{ "name": "A", "value": 1 }] })),
        [format!("{at}.env[0].value: 1 does not fit")]
    );
}

/// `OPEN` and the lists beside it name fields of Kubernetes; a new version of
/// its types could move them, and then the CRD would grow unnoticed.
#[test]
fn common_fields_are_spelled_out_and_rare_ones_are_not() {
    let schema = schema_for(&job(json!({})));
    let mut paths = Vec::new();
    for_each("", &schema, &mut |path, _| paths.push(path.to_owned()));
    let template = ".spec.worker.template";
    let has = |path: &str| paths.contains(&format!("{template}{path}"));
    for path in [
        ".metadata.annotations.*",
        ".metadata.finalizers[]",
        ".metadata.labels.*",
        ".metadata.name",
        ".metadata.namespace",
        ".spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ".spec.containers[].args[]",
        ".spec.containers[].command[]",
        ".spec.containers[].env[].valueFrom.configMapKeyRef.key",
        ".spec.containers[].envFrom[].secretRef.name",
        ".spec.containers[].image",
        ".spec.containers[].imagePullPolicy",
        ".spec.containers[].lifecycle",
        ".spec.containers[].name",
        ".spec.containers[].ports[].containerPort",
        ".spec.containers[].resources.limits.*",
        ".spec.containers[].volumeMounts[].mountPath",
        ".spec.initContainers[].command[]",
        ".spec.nodeSelector.*",
        ".spec.restartPolicy",
        ".spec.schedulerName",
        ".spec.tolerations[].key",
        ".spec.volumes[].emptyDir.medium",
        ".spec.volumes[].hostPath.path",
        ".spec.volumes[].persistentVolumeClaim.claimName",
        ".spec.volumes[].iscsi",
    ] {
        assert!(has(path), "no {path}");
    }
    for path in [
        ".metadata.creationTimestamp",
        ".spec.containers[].lifecycle.preStop",
        ".spec.ephemeralContainers[].name",
        ".spec.initContainers[].lifecycle.preStop",
        ".spec.volumes[].iscsi.iqn",
    ] {
        assert!(!has(path), "{path} is spelled out");
    }
}

#[test]
fn a_template_is_equal_to_itself_however_it_was_written() {
    let text = r#"{"spec":{"containers":[{"name":"a","image":"b"}]},"metadata":{}}"#;
    let other = r#"{"metadata":{},"spec":{"containers":[{"image":"b","name":"a"}]}}"#;
    let parse = |text: &str| serde_json::from_str::<PodTemplate>(text).unwrap();
    assert_eq!(parse(text), parse(other));
    let job: PaddleJob = serde_json::from_value(job(parse(text).to_json())).unwrap();
    assert_eq!(job.spec.worker.unwrap().template, Some(parse(other)));
}
