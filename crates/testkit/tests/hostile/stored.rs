//! What was stored under a CRD without rules and is there when a better one
//! comes: it reaches the manager.

use api::labels::GO_FINALIZER;
use serde_json::{Value, json};

use super::objects::{
    Answer, Hostile, deep_job, replicas, spec_with, template, template_with, worker,
};

pub fn objects() -> Vec<Hostile> {
    let mut all = unreadable();
    all.extend(frozen());
    all.extend(readable());
    all.extend(refused_later());
    all.extend(with_forged_status());
    all
}

fn says(what: &'static str, spec: Value, words: &'static [&'static str]) -> Hostile {
    Hostile::job(what, spec, Answer::Condition("InvalidSpec", words))
}

/// The job without its spec, or with a finalizer of the Go operator.
fn edited(hostile: Hostile, edit: impl FnOnce(&mut Value)) -> Hostile {
    let mut body = serde_json::from_str(&hostile.body).unwrap_or_default();
    edit(&mut body);
    Hostile {
        body: body.to_string(),
        ..hostile
    }
}

fn finalized(hostile: Hostile) -> Hostile {
    edited(hostile, |body| {
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            metadata.insert("finalizers".to_owned(), json!([GO_FINALIZER]));
        }
    })
}

/// What does not fit its type.
fn unreadable() -> Vec<Hostile> {
    let at_replicas = |what, number: Value, words| says(what, replicas(number), words);
    let huge = at_replicas("stored-huge", json!("HERE"), &["spec.worker.replicas"]);
    let huge_body = huge.body.replace(r#""HERE""#, "99999999999999999999");
    let two = &["spec.worker.replicas", "two"];
    let int64 = &["spec.worker.replicas", "9223372036854775807"];
    let yes = spec_with(json!({"suspend": "yes"}));
    let list = spec_with(json!({"cleanPodPolicy": [1]}));
    let deep = &["spec.worker.template", "recursion limit"];
    vec![
        at_replicas("stored-words", json!("two"), two),
        at_replicas("stored-int64", json!(i64::MAX), int64),
        at_replicas("stored-half", json!(1.5), &["spec.worker.replicas", "1.5"]),
        Hostile {
            body: huge_body,
            ..huge
        },
        says("stored-suspend", yes.clone(), &["spec.suspend", "yes"]),
        finalized(says("stored-finalized", yes, &["spec.suspend", "yes"])),
        says("stored-policy", list, &["spec.cleanPodPolicy"]),
        says("stored-null", json!(null), &["spec is missing"]),
        edited(
            says("stored-nothing", json!({}), &["spec is missing"]),
            |body| drop(body.as_object_mut().and_then(|body| body.remove("spec"))),
        ),
        Hostile::object(
            "stored-deep",
            deep_job("stored-deep", 2_000),
            Answer::Condition("InvalidSpec", deep),
        ),
    ]
}

/// Where the rules of the CRD expect an object and find none, the API server
/// takes no change at all, however small.
fn frozen() -> Vec<Hostile> {
    let told =
        |what, spec, words| Hostile::job(what, spec, Answer::OnlyWarned("InvalidSpec", words));
    let containers = &["spec.worker.template.spec.containers"];
    vec![
        told("stored-list", json!([1, 2]), &["spec"]),
        told(
            "stored-text",
            json!("train, please"),
            &["spec", "train, please"],
        ),
        told(
            "stored-worker",
            json!({"worker": "me"}),
            &["spec.worker", "me"],
        ),
        told("stored-template", worker(json!(5)), containers),
        finalized(told("stored-for-ever", worker(json!(5)), containers)),
    ]
}

/// What fits its type and can't work.
fn readable() -> Vec<Hostile> {
    let field =
        |what, field: &str, value: i64, words| says(what, spec_with(json!({field: value})), words);
    let containers = |what, containers: Value, words| {
        says(
            what,
            worker(json!({"spec": {"containers": containers}})),
            words,
        )
    };
    let backoff = &["spec.backoffLimit is -1"];
    let deadline = &["spec.activeDeadlineSeconds is -9223372036854775808"];
    let ttl = &["spec.ttlSecondsAfterFinished is -1"];
    let many = &["spec.worker.replicas is 2147483647", "2000"];
    let missing = &["spec.worker.template.spec.containers"];
    let text = &["spec.worker.template.spec.containers holds \"paddle\""];
    let null = &["spec.worker.template.spec.containers holds null"];
    vec![
        says("stored-no-role", json!({}), &["no role", "spec.worker"]),
        says(
            "stored-zero",
            replicas(json!(0)),
            &["spec.worker.replicas is 0"],
        ),
        says(
            "stored-negative",
            replicas(json!(-5)),
            &["spec.worker.replicas is -5"],
        ),
        says("stored-many", replicas(json!(i32::MAX)), many),
        field("stored-backoff", "backoffLimit", -1, backoff),
        field(
            "stored-deadline",
            "activeDeadlineSeconds",
            i64::MIN,
            deadline,
        ),
        field("stored-ttl", "ttlSecondsAfterFinished", -1, ttl),
        says("stored-template-null", worker(json!(null)), missing),
        containers("stored-containers", json!([]), missing),
        containers("stored-strings", json!(["paddle"]), text),
        containers("stored-nulls", json!([null]), null),
    ]
}

/// What only the API server can judge, when it is asked to make the pods.
fn refused_later() -> Vec<Hostile> {
    let refused = |what, metadata, container, words| {
        let spec = worker(template_with(metadata, container));
        Hostile::job(what, spec, Answer::Condition("Refused", words))
    };
    let none = || json!({});
    let port = json!({"ports": [{"containerPort": 70_000}]});
    let name = json!({"name": null});
    vec![
        refused(
            "stored-nameless",
            none(),
            name,
            &["containers[0].name", "Required"],
        ),
        refused("stored-env", none(), json!({"env": "A=B"}), &["env"]),
        refused(
            "stored-labels",
            json!({"labels": {"rank": 1}}),
            none(),
            &["labels"],
        ),
        refused("stored-ports", none(), port, &["containerPort"]),
    ]
}

/// Good jobs, of which somebody who may write the status says something else.
fn with_forged_status() -> Vec<Hostile> {
    let runs =
        |what, status| Hostile::job(what, worker(template()), Answer::Runs).with_status(status);
    let types = json!({"phase": 7, "conditions": "none", "restarts": "many"});
    let uid = "00000000-0000-0000-0000-000000000000";
    let refs = json!([{"name": "forged-refs-worker-0", "uid": uid}]);
    let lost = json!({"phase": "Running", "attempt": 3, "worker": {"replicas": 1, "refs": refs}});
    vec![
        runs("forged-types", types),
        runs(
            "forged-phase",
            json!({"phase": "Dreaming", "mode": "Quantum"}),
        ),
        runs("forged-refs", lost),
        runs("forged-first", json!({"attempt": i32::MIN, "restarts": -7})),
        runs(
            "forged-last",
            json!({"attempt": i32::MAX, "restarts": i32::MAX}),
        ),
    ]
}
