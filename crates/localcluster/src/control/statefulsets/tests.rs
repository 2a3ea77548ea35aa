//! What a set needs next, as a table.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use super::plan::{Act, Plan, plan};
use super::pod::{Member, revision};

/// A set `web` of 3, with changes of its spec.
fn set(changes: &Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "web", "uid": "u", "generation": 4},
        "spec": {
            "replicas": 3, "serviceName": "web", "selector": {},
            "template": {"spec": {"containers": [{"name": "c", "image": "new"}]}},
        },
    });
    for (field, value) in changes.as_object().unwrap() {
        set.pointer_mut("/spec").unwrap()[field] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

/// Pods in short: `r` ready, `s` starting, `f` failed, `g` going, `.` none; in
/// capitals those of an old revision.
fn members(set: &StatefulSet, short: &str) -> Vec<Member> {
    let members = short.chars().enumerate().filter(|(_, state)| *state != '.');
    let members = members.map(|(ordinal, state)| Member {
        owner: "u".to_owned(),
        name: format!("web-{ordinal}"),
        uid: ordinal.to_string(),
        revision: Some(match state.is_lowercase() {
            true => revision(set),
            false => "web-old".to_owned(),
        }),
        has_ended: state.eq_ignore_ascii_case(&'f'),
        ready_since: "rg"
            .contains(state.to_ascii_lowercase())
            .then(|| now() - SignedDuration::from_secs(10)),
        is_going: state.eq_ignore_ascii_case(&'g'),
    });
    members.collect()
}

fn planned(set: &StatefulSet, short: &str) -> Plan {
    let members = members(set, short);
    plan(set, &members.iter().collect::<Vec<_>>(), now())
}

/// What is done, in short: `+0` creates, `-0` deletes.
fn acts(set: &StatefulSet, short: &str) -> String {
    let acts = planned(set, short).acts.into_iter().map(|act| match act {
        Act::Create(ordinal) => format!("+{ordinal}"),
        Act::Delete { uid, .. } => format!("-{uid}"),
    });
    acts.collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_come_and_go_in_order() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let small = |policy: &str| json!({"replicas": 1, "podManagementPolicy": policy});
    for (spec, pods, wanted) in [
        (json!({}), "", "+0"),
        (json!({}), "s", ""),
        (json!({}), "r", "+1"),
        (json!({}), "rs.", ""),
        (json!({}), "r.r", "+1"),
        (json!({}), "rfr", "-1"),
        (json!({}), "rgr", ""),
        (json!({}), "rrr", ""),
        (parallel.clone(), "", "+0 +1 +2"),
        (parallel.clone(), "s.f", "+1 -2"),
        (parallel, "ggg", ""),
        (json!({"replicas": 0}), "rr", "-1"),
        (small("OrderedReady"), "rrr", "-2"),
        (small("OrderedReady"), "rrg", ""),
        (small("OrderedReady"), "srr", ""),
        (small("Parallel"), "rrr", "-2 -1"),
        (json!({"ordinals": {"start": 2}}), "..r", "+3"),
        (json!({"minReadySeconds": 20}), "r", ""),
        (json!({"minReadySeconds": 5}), "r", "+1"),
    ] {
        assert_eq!(acts(&set(&spec), pods), wanted, "{spec} with {pods:?}");
    }
}

#[test]
fn updates_roll_from_the_last_to_the_first() {
    let from = |partition: i32| {
        json!({"updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"partition": partition},
        }})
    };
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let parallel = json!({"podManagementPolicy": "Parallel"});
    for (spec, pods, wanted) in [
        (json!({}), "RRR", "-2"),
        (json!({}), "RRG", ""),
        (json!({}), "RR.", "+2"),
        (json!({}), "RRs", ""),
        (json!({}), "RRr", "-1"),
        (json!({}), "Rrr", "-0"),
        (parallel.clone(), "RRR", "-2"),
        (parallel.clone(), "RRs", ""),
        (parallel, "RSr", "-1"),
        (from(2), "RRR", "-2"),
        (from(2), "RRr", ""),
        (from(9), "RRR", ""),
        (on_delete.clone(), "RRR", ""),
        (on_delete, "R.R", "+1"),
    ] {
        assert_eq!(acts(&set(&spec), pods), wanted, "{spec} with {pods:?}");
    }
}

#[test]
fn the_status_counts() {
    let mut set = set(&json!({"minReadySeconds": 20}));
    set.status = Some(
        serde_json::from_value(json!({
            "replicas": 0, "currentRevision": "web-old",
        }))
        .unwrap(),
    );
    let plan = planned(&set, "RGs");
    let status = plan.status;
    assert_eq!(
        (
            status.replicas,
            status.ready_replicas,
            status.available_replicas
        ),
        (3, Some(2), Some(0))
    );
    assert_eq!(
        (status.current_replicas, status.updated_replicas),
        (Some(1), Some(1))
    );
    assert_eq!(status.current_revision.as_deref(), Some("web-old"));
    assert_eq!(status.update_revision, Some(revision(&set)));
    assert_eq!(status.observed_generation, Some(4));
    assert_eq!(plan.wake, Some(now() + SignedDuration::from_secs(10)));
    // When all are new and ready, the new one is the current one.
    assert_eq!(
        planned(&set, "rrr").status.current_revision,
        Some(revision(&set))
    );
}

#[test]
fn a_set_that_goes_does_nothing() {
    let mut set = set(&json!({}));
    set.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(acts(&set, "r"), "");
}
