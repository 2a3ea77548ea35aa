//! What happens when a job ends, and after that.

use api::{Phase, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::support::*;

/// What becomes of the pods of a job that has ended.
#[derive(Debug, PartialEq)]
enum Fate {
    Deleted,
    Stopped,
}

#[test]
fn six_policies_in_two_phases() {
    use Fate::{Deleted, Stopped};
    let cases = [
        (None, Deleted, Stopped),
        (Some("Always"), Deleted, Deleted),
        (Some("Never"), Stopped, Stopped),
        (Some("OnFailure"), Stopped, Deleted),
        (Some("OnCompletion"), Deleted, Stopped),
        // Samples in the wild say so; what is kept can still be deleted.
        (Some("OnFailed"), Stopped, Stopped),
    ];
    for (policy, want_completed, want_failed) in cases {
        for (phase, want) in [
            (Phase::Completed, want_completed),
            (Phase::Failed, want_failed),
        ] {
            let case = format!("{policy:?}, {phase}");
            let job = job("a").ps(1).workers(2).ended(phase, now());
            let job = job.spec(|spec| spec.clean_pod_policy = policy.map(str::to_owned));
            // A server runs still; one worker has succeeded, one has failed.
            let seen = seen(&job, Pod::ready)
                .pod("worker-0", Pod::succeeded)
                .pod("worker-1", |p| p.failed(1))
                .services(&["a-ps-0"]);
            let plan = job.plan(&seen);
            match want {
                Deleted => {
                    assert_eq!(
                        plan.deleted(),
                        ["a-ps-0", "a-worker-0", "a-worker-1"],
                        "{case}"
                    );
                    assert_eq!(plan.services_deleted, ["a-ps-0"], "{case}");
                    assert!(plan.stopped().is_empty(), "{case}");
                }
                Stopped => {
                    assert_eq!(plan.stopped(), ["a-ps-0"], "{case}");
                    assert!(plan.deleted().is_empty(), "{case}");
                    assert!(plan.services_deleted.is_empty(), "{case}");
                }
            }
            assert!(plan.created().is_empty(), "{case}");
            assert_eq!(plan.phase(), phase, "{case}");
        }
    }
}

#[test]
fn a_pod_is_stopped_once() {
    let job = job("a")
        .ps(1)
        .workers(1)
        .cleans("Never")
        .ended(Phase::Completed, now());
    let all = seen(&job, Pod::ready).pod("worker-0", Pod::succeeded);
    let stopped = |seconds| {
        let seen = all
            .clone()
            .pod("ps-0", |p| p.edit(|p| p.active_deadline = seconds));
        job.plan(&seen).stopped().len()
    };
    assert_eq!(stopped(None), 1);
    assert_eq!(stopped(Some(3600)), 1, "the user's own deadline is longer");
    assert_eq!(stopped(Some(1)), 0);
}

/// It has no log to keep, and would be scheduled some day.
#[test]
fn a_pod_without_a_node_is_deleted_rather_than_stopped() {
    let job = job("a")
        .workers(2)
        .cleans("Never")
        .ended(Phase::Failed, now());
    let seen = seen(&job, Pod::created).pod("worker-0", |p| p.failed(1));
    let plan = job.plan(&seen);
    assert_eq!(plan.deleted(), ["a-worker-1"]);
    assert!(plan.stopped().is_empty());
}

#[test]
fn a_job_that_has_ended_makes_nothing_and_stays_as_it_is() {
    for phase in [Phase::Completed, Phase::Failed] {
        for edit in [
            (|job| job) as fn(Job) -> Job,
            |job| job.scaled(api::Role::Worker, 5),
            |job| job.suspend(true),
            |job| job.deadline(1),
            |job| job.edit(|job| job.spec.worker = None),
        ] {
            let ended = edit(job("a").workers(2).ended(phase, now()));
            let plan = ended.plan_at(&nothing(), now() + seconds(1000));
            assert!(plan.is_idle(), "{phase}");
            assert_eq!(Some(plan.status), ended.0.status, "{phase}");
        }
    }
}

/// The Go operator wrote the time two passes after the phase.
#[test]
fn an_end_without_a_time_gets_one() {
    let job = job("a").workers(1).recorded().phase(Phase::Completed);
    let plan = job.plan(&nothing());
    assert_eq!(plan.status.completion_time, Some(Time(now())));
}

#[test]
fn a_job_is_deleted_when_its_time_to_live_is_over() {
    let job = job("a").workers(1).ttl(60).ended(Phase::Completed, now());
    let early = job.plan_at(&nothing(), now() + seconds(59));
    assert!(!early.deletes_job);
    assert_eq!(early.wake_at, Some(now() + seconds(60)));
    let late = job.plan_at(&nothing(), now() + seconds(60));
    assert!(late.deletes_job);
    assert_eq!(late.wake_at, None);
}

/// Somebody's finalizer may hold it: it is not deleted again and again.
#[test]
fn a_job_that_is_being_deleted_is_not_deleted_again() {
    let job = job("a")
        .workers(1)
        .ttl(0)
        .ended(Phase::Completed, now())
        .edit(|job| job.metadata.deletion_timestamp = Some(Time(now())));
    assert!(!job.plan(&nothing()).deletes_job);
}

#[test]
fn a_job_that_runs_too_long_fails() {
    let job = job("a").workers(1).deadline(100).running();
    let seen = seen(&job, Pod::ready);
    let early = job.plan_at(&seen, now() + seconds(99));
    assert_eq!(early.phase(), Phase::Running);
    assert_eq!(early.wake_at, Some(now() + seconds(100)));
    let late = job.plan_at(&seen, now() + seconds(100));
    assert_eq!(late.phase(), Phase::Failed);
    assert_eq!(
        late.condition("Failed"),
        "True DeadlineExceeded: the job ran longer than activeDeadlineSeconds (100 s)"
    );
    assert_eq!(late.told(), ["DeadlineExceeded"]);
}

#[test]
fn a_deadline_beyond_all_time_never_comes() {
    let job = job("a").workers(1).deadline(i64::MAX).running();
    let plan = job.plan(&seen(&job, Pod::ready));
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(plan.wake_at, None);
}

#[test]
fn time_in_suspension_does_not_count() {
    let job = job("a").workers(1).deadline(100).running().suspend(true);
    let plan = job.plan(&seen(&job, Pod::ready));
    assert_eq!(plan.phase(), Phase::Suspended);
    assert_eq!(plan.status.start_time, None);
    let resumed = job.suspend(false).status(|status| *status = plan.status);
    let later = now() + seconds(1000);
    let plan = resumed.plan_at(&nothing(), later);
    assert_eq!(plan.status.start_time, Some(Time(later)));
    assert_ne!(plan.phase(), Phase::Failed);
}

#[test]
fn the_finalizer_of_the_go_operator_goes() {
    let with = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let job = job("a").workers(1);
        job.edit(|job| job.metadata.finalizers = Some(names))
    };
    assert!(
        with(&[labels::GO_FINALIZER])
            .plan(&nothing())
            .removes_finalizer
    );
    assert!(
        !with(&["somebody.else/hold"])
            .plan(&nothing())
            .removes_finalizer
    );
    // Also when the job is being deleted: it would never go.
    let deleted = with(&[labels::GO_FINALIZER])
        .edit(|job| job.metadata.deletion_timestamp = Some(Time(now())));
    assert!(deleted.plan(&nothing()).removes_finalizer);
}

/// The status says which spec the job was left by, and is written once for it.
/// What the Go operator left says nothing of that.
#[test]
fn a_job_that_has_ended_notes_a_new_spec() {
    let ended = job("a").workers(1).ended(Phase::Completed, now());
    let noted = |job: &Job| job.plan(&nothing()).status.observed_generation;
    assert_eq!(noted(&ended), None);
    let changed = ended
        .status(|status| status.observed_generation = Some(1))
        .ttl(60)
        .edit(|job| job.metadata.generation = Some(2));
    assert_eq!(noted(&changed), Some(2));
    let plan = changed.plan(&nothing());
    let told = changed.status(|status| *status = plan.status);
    assert_eq!(Some(told.plan(&nothing()).status), told.0.status);
}
