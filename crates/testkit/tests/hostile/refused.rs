//! What the API server refuses, by the schema and the rules of the CRD.

use serde_json::{Value, json};

use super::objects::{
    Answer, Hostile, nested, replicas, spec_with, template, template_with, worker,
};

/// More than etcd takes, less than the API server reads.
const TOO_LARGE_TO_STORE: usize = 2 << 20;
/// More than the API server reads.
const TOO_LARGE_TO_READ: usize = 4 << 20;

pub fn objects() -> Vec<Hostile> {
    let mut all = numbers();
    all.extend(shapes());
    all.extend(containers());
    all.extend(names_and_sizes());
    all
}

fn refused(what: &'static str, spec: Value, words: &'static [&'static str]) -> Hostile {
    Hostile::job(what, spec, Answer::Refused(words))
}

fn numbers() -> Vec<Hostile> {
    // Numbers that no type of ours can hold are written as text.
    let text = |what, number: &str, words| {
        let job = refused(what, replicas(json!("HERE")), words);
        let body = job.body.replace(r#""HERE""#, number);
        Hostile { body, ..job }
    };
    let at_least_1 = &["spec.worker.replicas", "greater than or equal to 1"];
    let at_most_2000 = &["spec.worker.replicas", "less than or equal to 2000"];
    let integer = &["spec.worker.replicas", "integer"];
    let field = |name: &str, value: i64| spec_with(json!({name: value}));
    vec![
        refused("no-replicas", replicas(json!(0)), at_least_1),
        refused("negative-replicas", replicas(json!(-1)), at_least_1),
        refused("many-replicas", replicas(json!(2001)), at_most_2000),
        refused(
            "replicas-beyond-int32",
            replicas(json!(1_i64 << 31)),
            at_most_2000,
        ),
        text("replicas-beyond-int64", "9223372036854775808", integer),
        text(
            "astronomic-replicas",
            "1e400",
            &["cannot unmarshal number 1e400"],
        ),
        refused("half-a-replica", replicas(json!(1.5)), integer),
        refused("replicas-in-words", replicas(json!("two")), integer),
        refused(
            "null-replicas",
            replicas(json!(null)),
            &["spec.worker.replicas", "Required"],
        ),
        refused(
            "negative-backoff",
            field("backoffLimit", -1),
            &["spec.backoffLimit"],
        ),
        refused(
            "no-deadline",
            field("activeDeadlineSeconds", 0),
            &["spec.activeDeadlineSeconds"],
        ),
        refused(
            "negative-ttl",
            field("ttlSecondsAfterFinished", -5),
            &["spec.ttlSecondsAfterFinished"],
        ),
    ]
}

fn shapes() -> Vec<Hostile> {
    let no_role = &["the job has no role", "spec.worker"];
    let without_spec = json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "no-spec"},
    });
    vec![
        Hostile::object(
            "no-spec",
            without_spec.to_string(),
            Answer::Refused(&["spec", "Required"]),
        ),
        refused("null-spec", json!(null), &["spec"]),
        refused("spec-in-words", json!("train, please"), &["spec", "object"]),
        refused("no-role", json!({}), no_role),
        refused("null-role", json!({"worker": null}), no_role),
        refused(
            "list-of-workers",
            json!({"worker": [{"replicas": 1}]}),
            &["spec.worker", "object"],
        ),
        refused(
            "suspend-in-words",
            spec_with(json!({"suspend": "yes"})),
            &["spec.suspend", "boolean"],
        ),
        refused(
            "policy-as-number",
            spec_with(json!({"cleanPodPolicy": 5})),
            &["spec.cleanPodPolicy", "string"],
        ),
        refused(
            "gloo-in-words",
            spec_with(json!({"withGloo": "on"})),
            &["spec.withGloo", "integer"],
        ),
        refused(
            "elastic-in-words",
            spec_with(json!({"elastic": "yes"})),
            &["spec.elastic", "integer"],
        ),
        Hostile::object(
            "half-an-object",
            r#"{"kind": "PaddleJob", "#.to_owned(),
            Answer::Refused(&["unexpected end of JSON"]),
        ),
        Hostile::object(
            "bottomless",
            nested(20_000),
            Answer::Refused(&["max depth"]),
        ),
    ]
}

fn containers() -> Vec<Hostile> {
    let with = |containers: Value| worker(json!({"spec": {"containers": containers}}));
    let empty = &["containers is empty: a role needs at least one container"];
    vec![
        refused(
            "no-template",
            json!({"worker": {"replicas": 1}}),
            &["template.spec is missing"],
        ),
        refused(
            "template-without-spec",
            worker(json!({"metadata": {}})),
            &["template.spec is missing"],
        ),
        refused(
            "template-in-words",
            worker(json!("resnet")),
            &["spec.worker.template", "object"],
        ),
        refused(
            "no-containers",
            worker(json!({"spec": {}})),
            &["spec.worker.template.spec.containers"],
        ),
        refused("zero-containers", with(json!([])), empty),
        refused(
            "null-containers",
            with(json!(null)),
            &["spec.worker.template.spec.containers"],
        ),
        refused(
            "containers-in-words",
            with(json!(["paddle"])),
            &["containers[0]", "object"],
        ),
        refused("null-container", with(json!([null])), &["containers[0]"]),
        refused(
            "map-of-containers",
            with(json!({"paddle": {}})),
            &["containers", "array"],
        ),
        refused(
            "nameless-container",
            with(json!([{"image": "a"}])),
            &["containers[0].name", "Required"],
        ),
        refused(
            "env-in-words",
            worker(template_with(json!({}), json!({"env": "A=B"}))),
            &["containers[0].env", "array"],
        ),
        refused(
            "env-as-number",
            worker(template_with(
                json!({}),
                json!({"env": [{"name": "A", "value": 1}]}),
            )),
            &["containers[0].env[0].value", "string"],
        ),
    ]
}

fn names_and_sizes() -> Vec<Hostile> {
    let named = |what, name: &str, words| {
        Hostile::named(what, name, worker(template()), Answer::Refused(words))
    };
    let filled = |size: usize| {
        let value = "x".repeat(size);
        worker(template_with(
            json!({"annotations": {"a": value}}),
            json!({}),
        ))
    };
    let annotated = json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "annotated", "annotations": {"a": "x".repeat(1 << 20)}},
        "spec": worker(template()),
    });
    vec![
        named(
            "name-too-long",
            &"a".repeat(254),
            &["metadata.name", "no more than 253"],
        ),
        named(
            "name-in-capitals",
            "ResNet_50",
            &["metadata.name", "lower case"],
        ),
        named("name-in-chinese", "作业", &["metadata.name"]),
        named("name-with-bell", "a\u{7}b", &["metadata.name"]),
        named("name-as-path", "../../nodes/kwok-0", &["metadata.name"]),
        Hostile::object(
            "annotated",
            annotated.to_string(),
            Answer::Refused(&["annotations", "may not be more than"]),
        ),
        refused(
            "too-large-to-store",
            filled(TOO_LARGE_TO_STORE),
            &["larger than max"],
        ),
        refused(
            "too-large-to-read",
            filled(TOO_LARGE_TO_READ),
            &["too large"],
        ),
    ]
}
