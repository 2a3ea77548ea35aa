//! What is read of a pod.

use api::Role;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::paddlejob::{Address, PodPhase, PodView, Trouble, wire};
use serde_json::{Value, json};

/// The view of a worker with this spec and status.
fn view(spec: Value, status: Value) -> PodView {
    let meta = json!({
        "name": "a-worker-3", "namespace": "default", "uid": "u",
        "creationTimestamp": "2027-01-15T08:00:00Z",
        "labels": {"paddle-res-type": "worker"},
        "annotations": {
            "batch.paddlepaddle.org/attempt": "2",
            "batch.paddlepaddle.org/key": "K",
            "batch.paddlepaddle.org/woken-for": "W",
        },
    });
    read(meta, spec, status).unwrap()
}

fn read(meta: Value, spec: Value, status: Value) -> Option<PodView> {
    let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
    let spec: wire::PodSpec = serde_json::from_value(spec).unwrap();
    let status: wire::PodStatus = serde_json::from_value(status).unwrap();
    PodView::new("a", &meta, &spec, &status)
}

fn trouble(status: Value) -> Option<String> {
    let view = view(json!({}), status);
    view.trouble.map(|trouble| trouble.to_string())
}

#[test]
fn who_it_is() {
    let view = view(
        json!({"nodeName": "n1", "activeDeadlineSeconds": 7}),
        json!({}),
    );
    assert_eq!((view.role, view.rank), (Role::Worker, 3));
    assert_eq!(view.attempt, Some(2));
    assert_eq!(view.key.as_deref(), Some("K"));
    assert_eq!(view.woken.as_deref(), Some("W"));
    assert_eq!(view.node.as_deref(), Some("n1"));
    assert_eq!(view.active_deadline, Some(7));
    assert_eq!(view.phase, PodPhase::Pending);
    assert_eq!(view.created, Some(crate::support::now()));
    assert!(!view.is_legacy());
}

#[test]
fn a_pod_of_the_go_operator() {
    let meta = json!({
        "name": "a-ps-0", "uid": "u", "namespace": "default",
        "labels": {"paddle-res-type": "ps", "paddle-res-name": "a-ps-0"},
        "annotations": {"paddle-resource": "ps"},
    });
    let view = read(meta, json!({}), json!({})).unwrap();
    assert!(view.is_legacy());
    assert_eq!(view.attempt(), 0);
    assert_eq!(view.key, None);
}

#[test]
fn pods_that_no_job_made_are_not_read() {
    let meta = |name: &str, label: Option<&str>| {
        let labels = label.map(|role| json!({"paddle-res-type": role}));
        json!({"name": name, "uid": "u", "labels": labels})
    };
    let is_read = |meta| read(meta, json!({}), json!({})).is_some();
    assert!(is_read(meta("a-worker-0", Some("worker"))));
    assert!(!is_read(meta("a-worker-0", None)));
    assert!(!is_read(meta("a-worker-0", Some("ps"))), "another role");
    assert!(!is_read(meta("a-worker-0", Some("evaluator"))));
    assert!(!is_read(meta("b-worker-0", Some("worker"))), "another job");
    assert!(!is_read(meta("a-worker-x", Some("worker"))));
}

#[test]
fn whether_it_waits_for_others() {
    let waits = |name: &str, state: &str| {
        let init = json!([{"name": name, "state": {state: {}}}]);
        view(json!({}), json!({"initContainerStatuses": init})).waits
    };
    assert!(waits("coord-paddle", "running"));
    assert!(!waits("coord-paddle", "waiting"));
    assert!(!waits("coord-paddle", "terminated"));
    assert!(!waits("fetch", "running"));
    assert!(!view(json!({}), json!({})).waits);
}

#[test]
fn whether_the_paddle_container_has_started() {
    let spec = json!({"containers": [{"name": "proxy"}, {"name": "paddle"}]});
    let started = |spec: &Value, name: &str, status: Value| {
        let mut status = status;
        status["name"] = name.into();
        view(spec.clone(), json!({"containerStatuses": [status]})).started
    };
    let running = || json!({"state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}});
    assert!(started(&spec, "paddle", running()));
    assert!(!started(&spec, "proxy", running()), "a sidecar");
    assert!(started(
        &spec,
        "paddle",
        json!({"state": {"terminated": {"exitCode": 0}}})
    ));
    assert!(!started(
        &spec,
        "paddle",
        json!({"state": {"waiting": {"reason": "ContainerCreating"}}})
    ));
    assert!(
        started(
            &spec,
            "paddle",
            json!({"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}})
        ),
        "it has run before"
    );
    let unnamed = json!({"containers": [{"name": "main"}, {"name": "proxy"}]});
    assert!(started(&unnamed, "main", running()));
    assert!(!started(&unnamed, "proxy", running()));
}

#[test]
fn ready_is_ready_only_while_it_runs() {
    let ready = |phase: &str, status: &str| {
        let conditions = json!([{"type": "Ready", "status": status}]);
        view(json!({}), json!({"phase": phase, "conditions": conditions})).ready
    };
    assert!(ready("Running", "True"));
    assert!(!ready("Running", "False"));
    assert!(!ready("Pending", "True"));
    assert!(!ready("Succeeded", "True"));
}

#[test]
fn the_address_is_the_one_that_the_pod_itself_sees() {
    let address = |ip: &str| view(json!({}), json!({"podIP": ip})).address;
    assert_eq!(address("10.0.0.7"), Some(Address::V4([10, 0, 0, 7].into())));
    assert_eq!(address("fd00::7"), Some(Address::V6Only));
    assert_eq!(address(""), None);
    assert_eq!(address("0.0.0.0"), None);
}

#[test]
fn what_keeps_a_pod_from_running() {
    let waiting = |reason: &str| {
        json!({"phase": "Pending", "containerStatuses": [
            {"name": "paddle", "state": {"waiting": {"reason": reason, "message": "m"}}},
        ]})
    };
    for normal in ["ContainerCreating", "PodInitializing"] {
        assert_eq!(trouble(waiting(normal)), None, "{normal}");
    }
    assert_eq!(
        trouble(waiting("ImagePullBackOff")).unwrap(),
        "container paddle waits, ImagePullBackOff: m"
    );
    let init = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "fetch", "state": {"waiting": {"reason": "ErrImagePull"}}},
    ]});
    assert_eq!(
        trouble(init).unwrap(),
        "container fetch waits, ErrImagePull"
    );
    let scheduled = |reason: &str| {
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no GPU"},
        ]})
    };
    assert_eq!(
        trouble(scheduled("Unschedulable")).unwrap(),
        "not schedulable: no GPU"
    );
    assert_eq!(trouble(scheduled("SchedulingGated")), None);
}

/// By what is missing in the job's own ConfigMap pods wait for each other; what
/// else is missing, only the user can bring.
#[test]
fn what_a_container_misses() {
    let cases = [
        (r#"configmap "a" not found"#, true),
        (
            "couldn't find key PADDLE_OPERATOR_0a1b2c3d_0_1 in ConfigMap default/a",
            true,
        ),
        (r#"configmap "b" not found"#, false),
        (r#"secret "a" not found"#, false),
        ("couldn't find key TOKEN in ConfigMap default/a", false),
        ("couldn't find key TOKEN in Secret default/a", false),
    ];
    for (message, is_normal) in cases {
        let reason = "CreateContainerConfigError";
        for list in ["initContainerStatuses", "containerStatuses"] {
            let told = trouble(json!({"phase": "Pending", list: [
                {"name": "paddle", "state": {"waiting": {"reason": reason, "message": message}}},
            ]}));
            let want = format!("container paddle waits, {reason}: {message}");
            assert_eq!(told, (!is_normal).then_some(want), "{list}");
        }
    }
}

/// With `restartPolicy: OnFailure` the pod of a program that crashes again and
/// again is Running, and never ready.
#[test]
fn why_a_container_crashes_again_and_again() {
    let crashing = |phase: &str, ready: &str, list: &str| {
        trouble(json!({
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready}],
            list: [{
                "name": "paddle",
                "restartCount": 3,
                "state": {"waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off 40s restarting failed container=paddle",
                }},
                "lastState": {"terminated":
                    {"exitCode": 2, "reason": "Error", "message": "no such file\n"}},
            }],
        }))
    };
    let want =
        "container paddle waits, CrashLoopBackOff: it exited with code 2 (Error): no such file";
    let found = crashing("Running", "False", "containerStatuses");
    assert_eq!(found.as_deref(), Some(want));
    let found = crashing("Pending", "False", "initContainerStatuses");
    assert_eq!(found.as_deref(), Some(want));
    assert_eq!(crashing("Running", "True", "containerStatuses"), None);
}

#[test]
fn how_a_pod_ended() {
    let ended = |code: i32, reason: &str, message: &str| {
        json!({"phase": "Failed", "containerStatuses": [
            {"name": "proxy", "state": {"terminated": {"exitCode": 0}}},
            {"name": "paddle", "state": {"terminated":
                {"exitCode": code, "reason": reason, "message": message}}},
        ]})
    };
    assert_eq!(
        trouble(ended(1, "Error", "Traceback\nValueError\n")).unwrap(),
        "container paddle exited with code 1 (Error): Traceback\nValueError"
    );
    assert_eq!(
        trouble(ended(137, "OOMKilled", "")).unwrap(),
        "container paddle exited with code 137 (OOMKilled)"
    );
    let init = json!({"phase": "Failed", "initContainerStatuses": [
        {"name": "fetch", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}},
    ]});
    assert_eq!(
        trouble(init).unwrap(),
        "container fetch exited with code 2 (Error)"
    );
    let other = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"});
    assert_eq!(trouble(other).unwrap(), "DeadlineExceeded: too long");
}

/// Logs may be long, and cut anywhere: their end says what happened.
#[test]
fn last_words_are_the_last_ones() {
    let message = format!("{}the end", "é".repeat(1000));
    let status = json!({"phase": "Failed", "containerStatuses": [
        {"name": "paddle", "state": {"terminated": {"exitCode": 1, "message": message}}},
    ]});
    let view = view(json!({}), status);
    let Some(Trouble::Exited { message, .. }) = view.trouble.as_deref() else {
        panic!("{view:?}");
    };
    assert!(message.ends_with("éthe end"));
    assert!((500..=512).contains(&message.len()), "{}", message.len());
}

#[test]
fn what_the_cluster_did_is_no_failure() {
    let failed = |reason: &str| json!({"phase": "Failed", "reason": reason});
    let target = |status: &str| {
        json!({
            "phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": status,
                "reason": "PreemptionByScheduler", "message": "preempted"}],
            "containerStatuses": [
                {"name": "paddle", "state": {"terminated": {"exitCode": 143}}},
            ],
        })
    };
    let cases = [
        (failed("Evicted"), true),
        (failed("Preempting"), true),
        (failed("NodeLost"), true),
        (failed("NodeShutdown"), true),
        (failed("Terminated"), true),
        (failed("NodeAffinity"), true),
        (failed("OutOfcpu"), true),
        (failed("OutOfnvidia.com/gpu"), true),
        (failed("UnexpectedAdmissionError"), true),
        (failed("DeadlineExceeded"), false),
        (failed(""), false),
        (target("True"), true),
        (target("False"), false),
    ];
    for (status, want_disrupted) in cases {
        let view = view(json!({}), status.clone());
        assert_eq!(view.is_disrupted(), want_disrupted, "{status}");
    }
}

#[test]
fn a_pod_that_goes_is_disrupted_unless_it_is_done() {
    let going = |phase: &str| {
        let mut view = view(json!({}), json!({"phase": phase}));
        view.deleted_at = Some(crate::support::now());
        view.is_disrupted()
    };
    for phase in ["Running", "Pending", "Unknown", "Failed"] {
        assert!(going(phase), "{phase}");
    }
    assert!(!going("Succeeded"));
}

/// A drain tells nginx to end, which then exits with 0.
#[test]
fn a_pod_that_ended_because_it_was_told_to_has_not_succeeded() {
    let ended = |at: &str, meta: Value| {
        let mut all = json!({
            "name": "a-worker-0", "uid": "u", "namespace": "default",
            "labels": {"paddle-res-type": "worker"},
        });
        all.as_object_mut()
            .unwrap()
            .extend(meta.as_object().unwrap().clone());
        let state = json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        let status = json!({
            "phase": "Succeeded",
            "containerStatuses": [{"name": "paddle", "state": state}],
        });
        let spec = json!({"containers": [{"name": "paddle"}]});
        let view = read(all, spec, status).unwrap();
        (view.phase, view.is_disrupted())
    };
    let done = (PodPhase::Succeeded, false);
    let told = (PodPhase::Failed, true);
    // Deleted at 08:00:00.
    let going = json!({
        "deletionTimestamp": "2027-01-15T08:00:30Z",
        "deletionGracePeriodSeconds": 30,
    });
    assert_eq!(ended("2027-01-15T07:59:59Z", going.clone()), done);
    assert_eq!(ended("2027-01-15T08:00:00Z", going.clone()), told);
    assert_eq!(ended("2027-01-15T08:00:02Z", going), told);
    assert_eq!(ended("2027-01-15T08:00:02Z", json!({})), done);
}
