//! Pods on dead nodes: rule (f).

use api::Phase;
use plan::paddlejob::{Plan, is_overdue};

use crate::support::*;

/// A worker was told to go at `now()`, by when it should have been gone.
fn plan_after(job: &Job, age: i64, node_is_lost: bool) -> Plan {
    let seen = seen(job, Pod::ready).pod("worker-0", |p| p.terminating(now()));
    let seen = match node_is_lost {
        true => seen.lost_node("node-0"),
        false => seen,
    };
    job.plan_at(&seen, now() + seconds(age))
}

fn forced(plan: &Plan) -> Vec<(&str, &str)> {
    plan.pods_deleted
        .iter()
        .filter(|deletion| deletion.force)
        .map(|deletion| (deletion.name.as_str(), deletion.uid.as_str()))
        .collect()
}

#[test]
fn rule_f_a_dead_node_does_not_hold_a_name_for_ever() {
    let job = job("a").ps(1).workers(1).running();
    let early = plan_after(&job, 59, true);
    assert!(forced(&early).is_empty());
    assert_eq!(early.wake_at, Some(now() + seconds(60)));
    let late = plan_after(&job, 60, true);
    assert_eq!(forced(&late), [("a-worker-0", "uid-of-a-worker-0")]);
    assert!(late.is_urgent, "the event waits for the status");
    let told = &late.events[0];
    assert_eq!((told.reason, told.is_warning), ("PodForceDeleted", true));
    assert_eq!(
        told.message,
        "pod a-worker-0 is removed without waiting for its node node-0, which does not answer"
    );
}

#[test]
fn rule_f_a_node_that_answers_is_waited_for() {
    let job = job("a").ps(1).workers(1).running();
    let plan = plan_after(&job, 3600, false);
    assert!(forced(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(now() + seconds(3660)), "and asked again");
}

#[test]
fn rule_f_holds_in_every_phase() {
    let base = || job("a").ps(1).workers(1);
    let jobs = [
        base().running(),
        base().running().suspend(true),
        base().suspend(true).recorded().phase(Phase::Suspended),
        base().recorded().phase(Phase::Restarting).attempt(1),
        base().ended(Phase::Failed, now()),
        base().scaled(api::Role::Worker, 0).recorded(),
        base().running().edit(|job| {
            job.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        }),
    ];
    for job in jobs {
        let seen = seen(&base(), Pod::ready)
            .pod("worker-0", |p| p.terminating(now()))
            .lost_node("node-0");
        let plan = job.plan_at(&seen, now() + seconds(61));
        assert_eq!(forced(&plan).len(), 1, "{:?}", job.0.status);
        let deleted = plan.deleted().into_iter().filter(|n| *n == "a-worker-0");
        assert_eq!(deleted.count(), 1, "and only once");
    }
}

#[test]
fn only_a_pod_that_should_be_gone_is_overdue() {
    let job = job("a").workers(1);
    let living = pod(&job, api::Role::Worker, 0).ready().0;
    let going = pod(&job, api::Role::Worker, 0).ready().terminating(now()).0;
    assert!(!is_overdue(&living, now() + seconds(3600)));
    assert!(!is_overdue(&going, now() + seconds(59)));
    assert!(is_overdue(&going, now() + seconds(60)));
}
