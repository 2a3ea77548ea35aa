//! What the API server has no reason to refuse, and the manager answers.

use serde_json::{Value, json};

use super::objects::{Answer, Hostile, deep_job, spec_with, template, template_with, worker};

/// What the manager must not copy for each of many pods at once.
const LARGE: usize = 1 << 20;

pub fn objects() -> Vec<Hostile> {
    let mut all = specs();
    all.extend(names());
    all.extend(templates());
    all.extend(odd_but_fine());
    all
}

fn specs() -> Vec<Hostile> {
    let says = |what, fields, reason, words| {
        Hostile::job(what, spec_with(fields), Answer::Condition(reason, words))
    };
    let data = json!({"sampleSetRef": {"name": "imagenet", "mountPath": "/data"}});
    let heter = json!({"heter": {"replicas": 1, "template": template()}});
    vec![
        says(
            "gloo-7",
            json!({"withGloo": 7}),
            "InvalidSpec",
            &["spec.withGloo is 7"],
        ),
        says(
            "gloo-negative",
            json!({"withGloo": -1}),
            "InvalidSpec",
            &["spec.withGloo is -1"],
        ),
        says(
            "elastic",
            json!({"elastic": 1}),
            "NotSupported",
            &["spec.elastic"],
        ),
        says(
            "elastic-ps",
            json!({"elastic": 1, "ps": {"replicas": 1, "template": template()}}),
            "InvalidSpec",
            &["spec.elastic", "spec.ps"],
        ),
        says("heter", heter, "InvalidSpec", &["spec.heter", "spec.ps"]),
        Hostile::job(
            "gang-of-none",
            spec_with(json!({"schedulingPolicy": {"minAvailable": 0}})),
            Answer::Warning("Ignored", &["spec.schedulingPolicy"]),
        ),
        Hostile::job("host", spec_with(json!({"intranet": "Host"})), Answer::Runs),
        Hostile::job(
            "data",
            spec_with(data),
            Answer::Waits("SampleSetMissing", &["SampleSet", "create it"]),
        ),
        // The API server takes what JSON allows; who reads it must not overflow.
        Hostile::object(
            "deep",
            deep_job("deep", 300),
            Answer::Condition("InvalidSpec", &["spec.worker.template", "recursion limit"]),
        ),
        Hostile::object(
            "very-deep",
            deep_job("very-deep", 5_000),
            Answer::Condition("InvalidSpec", &["spec.worker.template", "recursion limit"]),
        ),
    ]
}

fn names() -> Vec<Hostile> {
    let named = |what, name: &str, fields, words| {
        Hostile::named(
            what,
            name,
            spec_with(fields),
            Answer::Condition("InvalidSpec", words),
        )
    };
    // Cut anywhere, a name like this ends in a dot or begins with one.
    let dots = ["a"; 127].join(".");
    let service = json!({"intranet": "Service"});
    vec![
        named(
            "long-name",
            &"a".repeat(253),
            json!({}),
            &["metadata.name has 253 characters"],
        ),
        named(
            "dots-all-over",
            &dots,
            json!({}),
            &["metadata.name has 253 characters"],
        ),
        named(
            "dotted-service",
            "a.b",
            service.clone(),
            &["metadata.name is a.b", "Services"],
        ),
        named(
            "service-with-digit",
            "1st",
            service,
            &["metadata.name is 1st", "begin with a letter"],
        ),
        Hostile::job(
            "pod-taken",
            worker(template()),
            Answer::Condition("NameTaken", &["Pod", "pod-taken-worker-0", "somebody else"]),
        ),
        Hostile::job(
            "map-taken",
            worker(template()),
            Answer::Condition("NameTaken", &["ConfigMap", "map-taken", "somebody else"]),
        ),
    ]
}

fn templates() -> Vec<Hostile> {
    let says = |what, metadata, container, words| {
        Hostile::job(
            what,
            worker(template_with(metadata, container)),
            Answer::Condition("Refused", words),
        )
    };
    let container = |what, container, words| says(what, json!({}), container, words);
    let cpu = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
    let env = |name: &str| json!({"env": [{"name": name, "value": "1"}]});
    let many = json!({"worker": {
        "replicas": 2000,
        "template": template_with(json!({"annotations": {"a": "x".repeat(LARGE)}}), json!({})),
    }});
    let pod = |what, fields: Value, words| {
        let mut template = template();
        if let Some(Value::Object(spec)) = template.get_mut("spec") {
            spec.extend(fields.as_object().cloned().unwrap_or_default());
        }
        Hostile::job(what, worker(template), Answer::Condition("Refused", words))
    };
    vec![
        says(
            "large",
            json!({"annotations": {"a": "x".repeat(LARGE)}}),
            json!({}),
            &["Pod", "annotations", "may not be more than"],
        ),
        Hostile::job(
            "large-and-many",
            many,
            Answer::Condition("Refused", &["Pod", "annotations", "may not be more than"]),
        ),
        says(
            "label-in-chinese",
            json!({"labels": {"team": "飞桨"}}),
            json!({}),
            &["metadata.labels"],
        ),
        container(
            "no-image",
            json!({"image": null}),
            &["containers[0].image", "Required"],
        ),
        container(
            "image-with-space",
            json!({"image": " paddle "}),
            &["containers[0].image", "whitespace"],
        ),
        container(
            "env-with-equals",
            env("A=B"),
            &["containers[0].env[0].name"],
        ),
        container(
            "env-with-bell",
            env("A\u{7}"),
            &["containers[0].env[0].name"],
        ),
        container(
            "env-very-long",
            env(&"=".repeat(5_000)),
            &["containers[0].env[0].name"],
        ),
        container(
            "quantity-as-truth",
            json!({"resources": {"limits": {"cpu": true}}}),
            &["quantities must match"],
        ),
        container("quantity-in-words", cpu("lots"), &["quantities must match"]),
        container(
            "quantity-negative",
            cpu("-1"),
            &[
                "containers[0].resources.limits",
                "greater than or equal to 0",
            ],
        ),
        container(
            "policy-unknown",
            json!({"imagePullPolicy": "Sometimes"}),
            &["imagePullPolicy", "Sometimes"],
        ),
        pod(
            "restart-unknown",
            json!({"restartPolicy": "Sometimes"}),
            &["restartPolicy", "Sometimes"],
        ),
        pod(
            "twins",
            json!({"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "a"}]}),
            &["containers[1].name", "Duplicate"],
        ),
        pod(
            "volume-twins",
            json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
            &["volumes[1].name", "Duplicate"],
        ),
    ]
}

fn odd_but_fine() -> Vec<Hostile> {
    let odd = |what, fields, words| {
        Hostile::job(what, spec_with(fields), Answer::Warning("Misspelt", words))
    };
    let reserved =
        json!({"labels": {"batch.paddlepaddle.org/rank": "7", "paddle-res-name": "mine"}});
    // None of it can be what the pod's own metadata is, but for the finalizer,
    // which is the user's right.
    let usurped = json!({
        "finalizers": ["example.org/mine"],
        "name": "kwok-0",
        "namespace": "kube-system",
        "uid": "00000000-0000-0000-0000-000000000000",
        "resourceVersion": "1",
        "generation": 7,
        "creationTimestamp": null,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "generateName": "a-",
        "managedFields": [{"manager": "me"}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "kwok-0", "uid": "1", "controller": true}],
    });
    let twice = json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]});
    let mut host = worker(template());
    if let Some(Value::Object(spec)) = host.pointer_mut("/worker/template/spec") {
        spec.extend([
            ("hostPID".to_owned(), json!(true)),
            ("hostIPC".to_owned(), json!(true)),
            ("hostNetwork".to_owned(), json!(true)),
        ]);
    }
    let forged = json!({"phase": "Completed", "restarts": 9});
    let unknown = json!({"tasks": [{"name": "w"}], "startInOrder": 1});
    vec![
        odd(
            "policy-misspelt",
            json!({"cleanPodPolicy": "Nerver\u{202e}\u{0}"}),
            &["spec.cleanPodPolicy", "Never"],
        ),
        odd(
            "intranet-misspelt",
            json!({"intranet": "🛰️"}),
            &["spec.intranet", "PodIP"],
        ),
        Hostile::job(
            "label-reserved",
            worker(template_with(reserved, json!({}))),
            Answer::Warning(
                "Misspelt",
                &["spec.worker.template", "belongs to the operator"],
            ),
        ),
        Hostile::job(
            "metadata-usurped",
            worker(template_with(usurped, json!({}))),
            Answer::Runs,
        ),
        Hostile::job(
            "env-twice",
            worker(template_with(json!({}), twice)),
            Answer::Runs,
        ),
        Hostile::job("host-pid", host, Answer::Runs),
        Hostile::job("fields-unknown", spec_with(unknown), Answer::Runs),
        Hostile::job(
            "deadline-far",
            spec_with(json!({"activeDeadlineSeconds": i64::MAX})),
            Answer::Runs,
        ),
        with_status_in_body("status-in-body", forged),
    ]
}

/// A status that comes with a new object is not its status.
fn with_status_in_body(what: &'static str, status: Value) -> Hostile {
    let body = json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": what},
        "spec": worker(template()),
        "status": status,
    });
    Hostile::object(what, body.to_string(), Answer::Runs)
}
