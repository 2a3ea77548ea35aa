//! What changes the course of a whole job: failures, disruptions, suspension,
//! another size.

use api::{Phase, Role};
use plan::paddlejob::{Plan, Seen};

use crate::support::*;

/// A verdict is written down, and nothing else is done in that pass.
fn is_only_written_down(plan: &Plan) {
    assert!(plan.is_idle(), "{plan:#?}");
}

#[test]
fn a_failed_pod_restarts_the_job_while_the_limit_allows() {
    let failed = "pod a-worker-1 failed: container paddle exited with code 7 (Error): ValueError: no such file";
    struct Case {
        limit: Option<i32>,
        restarts: i32,
        want_phase: Phase,
        want_restarts: i32,
        want_condition: (&'static str, String),
    }
    let cases = [
        Case {
            limit: None,
            restarts: 0,
            want_phase: Phase::Failed,
            want_restarts: 0,
            want_condition: ("Failed", format!("True PodFailed: {failed}")),
        },
        Case {
            limit: Some(2),
            restarts: 0,
            want_phase: Phase::Restarting,
            want_restarts: 1,
            want_condition: (
                "Running",
                format!("False PodFailed: {failed}; restart 1 of at most 2"),
            ),
        },
        Case {
            limit: Some(2),
            restarts: 1,
            want_phase: Phase::Restarting,
            want_restarts: 2,
            want_condition: (
                "Running",
                format!("False PodFailed: {failed}; restart 2 of at most 2"),
            ),
        },
        Case {
            limit: Some(2),
            restarts: 2,
            want_phase: Phase::Failed,
            want_restarts: 2,
            want_condition: (
                "Failed",
                format!("True BackoffLimitExceeded: {failed}; backoffLimit is 2"),
            ),
        },
    ];
    for case in cases {
        for kind in [job("a").workers(2), job("a").ps(1).workers(2)] {
            let job = kind
                .spec(|spec| spec.backoff_limit = case.limit)
                .running()
                .attempt(5)
                .restarts(case.restarts);
            let seen = seen(&job, Pod::ready).pod("worker-1", |p| p.failed(7));
            let plan = job.plan(&seen);
            is_only_written_down(&plan);
            assert_eq!(plan.phase(), case.want_phase);
            assert_eq!(plan.status.restarts, Some(case.want_restarts));
            let restarts = case.want_phase == Phase::Restarting;
            assert_eq!(plan.status.attempt, Some(5 + i32::from(restarts)));
            let (type_, want) = &case.want_condition;
            assert_eq!(&plan.condition(type_), want);
        }
    }
}

#[test]
fn a_failed_server_counts_too() {
    let job = job("a").ps(1).workers(1).running();
    let plan = job.plan(&seen(&job, Pod::ready).pod("ps-0", |p| p.failed(1)));
    assert_eq!(plan.phase(), Phase::Failed);
    assert!(plan.condition("Failed").contains("pod a-ps-0 failed"));
}

/// Workers that are done make the job complete, whatever else is broken.
#[test]
fn success_comes_before_failure() {
    let job = job("a").ps(1).workers(1).running();
    let seen = seen(&job, |p| p.failed(1)).pod("worker-0", Pod::succeeded);
    assert_eq!(job.plan(&seen).phase(), Phase::Completed);
}

/// The ways in which a pod is taken away.
fn disruptions(job: &Job, pod: &str) -> [(&'static str, Seen); 3] {
    let all = seen(job, Pod::ready);
    [
        ("evicted", all.clone().pod(pod, Pod::evicted)),
        ("deleted", all.clone().pod(pod, |p| p.terminating(now()))),
        ("gone", all.without(pod)),
    ]
}

#[test]
fn a_pod_that_was_taken_away_restarts_the_whole_job_and_does_not_count() {
    let cases = [
        (job("a").workers(2), "worker-1"),
        (job("a").workers(1), "worker-0"),
        (job("a").ps(1).workers(2), "ps-0"),
    ];
    for (kind, pod) in cases {
        let job = kind.backoff_limit(0).running();
        for (how, seen) in disruptions(&job, pod) {
            let plan = job.plan(&seen);
            is_only_written_down(&plan);
            assert_eq!(plan.phase(), Phase::Restarting, "{pod} {how}");
            assert_eq!(plan.status.restarts, Some(0), "{pod} {how}");
            assert_eq!(plan.status.attempt, Some(1), "{pod} {how}");
            let condition = plan.condition("Running");
            assert!(
                condition.starts_with(&format!("False PodLost: pod a-{pod} ")),
                "{condition}"
            );
        }
    }
}

#[test]
fn a_worker_of_a_ps_job_is_replaced_alone() {
    let job = job("a").ps(1).workers(2).running();
    for (how, seen) in disruptions(&job, "worker-1") {
        let plan = job.plan(&seen);
        assert_eq!(plan.phase(), Phase::Running, "{how}");
        assert_eq!(plan.status.attempt, Some(0), "{how}");
        let (want_deleted, want_created): (&[&str], &[&str]) = match how {
            "evicted" => (&["a-worker-1"], &[]),
            "deleted" => (&[], &[]),
            _ => (&[], &["a-worker-1"]),
        };
        assert_eq!(plan.deleted(), want_deleted, "{how}");
        assert_eq!(plan.created(), want_created, "{how}");
        let want_told: &[&str] = if how == "gone" { &["PodReplaced"] } else { &[] };
        assert_eq!(plan.told(), want_told, "{how}");
    }
}

/// Attempts that end early are tried again ever later, but one that lasted
/// longer than the rest would is not.
#[test]
fn a_job_rests_before_it_starts_again() {
    // The attempt that ends, its age, and the rest before the next.
    let cases = [
        (0, 0, Some(1)),
        (0, 1, None),
        (1, 1, Some(2)),
        (1, 2, None),
        (5, 20, Some(32)),
        (9, 200, Some(300)),
        (9, 300, None),
        (i32::MAX - 1, 200, Some(300)),
    ];
    for (attempt, age, rest) in cases {
        let job = job("a").workers(2).running().attempt(attempt);
        let seen = seen(&job, |p| p.ready().aged(age)).pod("worker-1", Pod::evicted);
        let verdict = job.plan(&seen);
        let told = verdict.condition("Scheduled");
        let again = job.status(|status| *status = verdict.status);
        assert_eq!(again.plan(&seen).deleted(), ["a-worker-0", "a-worker-1"]);
        let Some(rest) = rest else {
            assert!(!told.contains("BackOff"), "{told}");
            assert_eq!(again.plan(&nothing()).created().len(), 2);
            continue;
        };
        let until = now() + seconds(rest);
        assert_eq!(
            told,
            format!("False BackOff: the last attempt ended early; the next one begins at {until}")
        );
        let resting = again.plan_at(&nothing(), until - seconds(1));
        assert!(resting.is_idle(), "{resting:#?}");
        assert_eq!(resting.wake_at, Some(until));
        assert_eq!(resting.condition("Scheduled"), told);
        assert_eq!(resting.phase(), Phase::Restarting);
        let rested = again.plan_at(&nothing(), until);
        assert_eq!(rested.created().len(), 2, "after {attempt}");
        assert!(rested.condition("Scheduled").contains("WaitingForNodes"));
    }
}

/// Each rest begins with its own verdict, also when the job never ran between.
#[test]
fn every_rest_has_its_whole_length() {
    let job = job("a").workers(1).running().attempt(2);
    let evicted = |p: Pod| p.evicted().aged(0);
    let job = job
        .clone()
        .status(|s| *s = job.plan(&seen(&job, evicted)).status);
    let later = now() + seconds(4);
    let again = job.plan_at(&seen(&job, |p| evicted(p).aged(-4)), later);
    assert_eq!(again.status.attempt, Some(4));
    let job = job.status(|status| *status = again.status);
    let plan = job.plan_at(&nothing(), later);
    assert_eq!(plan.wake_at, Some(later + seconds(8)));
}

/// Nobody waits for what he asks for himself.
#[test]
fn a_wish_ends_the_rest() {
    let job = job("a").workers(2).running().attempt(7);
    let young = seen(&job, |p| p.ready().aged(0)).pod("worker-1", Pod::evicted);
    let resting = job.clone().status(|s| *s = job.plan(&young).status);
    assert!(resting.plan(&nothing()).created().is_empty());
    let scaled = resting.clone().scaled(Role::Worker, 3);
    let scaled = scaled
        .clone()
        .status(|s| *s = scaled.plan(&nothing()).status);
    assert_eq!(scaled.plan(&nothing()).created().len(), 3);
    let suspended = resting.suspend(true);
    let suspended = suspended
        .clone()
        .status(|s| *s = suspended.plan(&nothing()).status);
    assert_eq!(suspended.suspend(false).plan(&nothing()).created().len(), 2);
}

#[test]
fn a_worker_that_is_turned_away_at_once_is_replaced_later() {
    let job = job("a").ps(1).workers(2).running();
    let seen = seen(&job, Pod::ready).pod("worker-1", |p| p.evicted().aged(3));
    let plan = job.plan(&seen);
    assert!(plan.deleted().is_empty());
    let at = now() + seconds(7);
    assert_eq!(plan.wake_at, Some(at));
    assert_eq!(job.plan_at(&seen, at).deleted(), ["a-worker-1"]);
}

/// A pod that ends while it is deleted has not failed by its own doing.
#[test]
fn a_pod_that_fails_while_it_is_deleted_does_not_count() {
    let job = job("a").workers(2).running();
    let seen = seen(&job, Pod::ready).pod("worker-1", |p| p.failed(143).terminating(now()));
    let plan = job.plan(&seen);
    assert_eq!(plan.phase(), Phase::Restarting);
    assert_eq!(plan.status.restarts, Some(0));
}

#[test]
fn a_new_attempt_starts_without_record() {
    let job = job("a").workers(2).running();
    let plan = job.plan(&seen(&job, Pod::ready).without("worker-0"));
    let worker = plan.status.worker.unwrap();
    assert_eq!((worker.replicas, worker.running), (2, 0));
    assert!(worker.refs.is_empty());
    assert_eq!(plan.status.start_time.unwrap().0, now());
}

#[test]
fn suspension_is_written_down_before_pods_go() {
    let job = job("a").ps(1).workers(1).running().suspend(true);
    let all = seen(&job, Pod::ready);
    let plan = job.plan(&all);
    is_only_written_down(&plan);
    assert_eq!(plan.phase(), Phase::Suspended);
    assert_eq!(plan.status.attempt, Some(1));
    assert_eq!(
        plan.condition("Suspended"),
        "True Suspended: spec.suspend is true; the job starts again when it is false"
    );
    let suspended = job.status(|status| *status = plan.status);
    let plan = suspended.plan(&all);
    assert_eq!(plan.deleted(), ["a-ps-0", "a-worker-0"]);
    assert_eq!(plan.phase(), Phase::Suspended);
    assert!(suspended.plan(&nothing()).is_idle());
}

#[test]
fn a_job_that_is_suspended_from_the_start_makes_nothing() {
    let job = job("a").workers(2).suspend(true);
    let plan = job.plan(&nothing());
    is_only_written_down(&plan);
    assert_eq!(plan.phase(), Phase::Suspended);
    assert_eq!(plan.status.attempt, Some(0), "there was none yet");
    let suspended = job.status(|status| *status = plan.status);
    let plan = suspended.plan(&nothing());
    assert!(plan.is_idle());
    let resumed = suspended.suspend(false).plan(&nothing());
    assert_eq!(resumed.created(), ["a-worker-0", "a-worker-1"]);
    assert_eq!(resumed.phase(), Phase::Pending);
    assert_eq!(
        resumed.condition("Suspended"),
        "False Resumed: spec.suspend is not true"
    );
}

/// A suspended job may be scaled: it comes back at the new size.
#[test]
fn scaling_while_suspended_needs_no_restart() {
    let job = job("a").workers(2).running().suspend(true);
    let plan = job.plan(&seen(&job, Pod::ready));
    let suspended = job
        .status(|status| *status = plan.status)
        .scaled(Role::Worker, 3);
    let plan = suspended.plan(&nothing());
    assert_eq!(plan.status.worker.as_ref().unwrap().replicas, 3);
    let resumed = suspended
        .status(|status| *status = plan.status)
        .suspend(false);
    let plan = resumed.plan(&nothing());
    assert_eq!(plan.pods_created.len(), 3);
    assert_eq!(plan.status.attempt, Some(1));
}

#[test]
fn a_size_that_can_not_change_restarts_the_whole_job() {
    let cases = [
        (job("a").workers(2), Role::Worker, 3),
        (job("a").workers(2), Role::Worker, 1),
        (job("a").workers(1), Role::Worker, 2),
        (job("a").ps(2).workers(2), Role::Ps, 1),
    ];
    for (kind, role, to) in cases {
        let job = kind.running().scaled(role, to);
        let plan = job.plan(&seen(&job, Pod::ready));
        is_only_written_down(&plan);
        assert_eq!(plan.phase(), Phase::Scaling, "{role} to {to}");
        assert_eq!(plan.status.attempt, Some(1));
        assert_eq!(plan.status.restarts, Some(0));
        assert_eq!(plan.status.role(role).unwrap().replicas, to);
    }
}

/// Workers that run know nothing of servers that come later, nor of another
/// mode.
#[test]
fn a_role_that_comes_or_goes_restarts_the_whole_job() {
    let collective = job("a").workers(2).running().attempt(0);
    let grown = collective.clone().ps(1);
    let plan = grown.plan(&seen(&collective, Pod::ready));
    is_only_written_down(&plan);
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(
        plan.condition("Running"),
        "False Scaling: ps goes from 0 to 1 replicas; the job starts again at the new size"
    );
    let ps = job("a").ps(1).workers(2).running().attempt(0);
    let shrunk = ps.clone().spec(|spec| spec.ps = None);
    let plan = shrunk.plan(&seen(&ps, Pod::ready));
    is_only_written_down(&plan);
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(plan.status.ps, None);
}

#[test]
fn workers_of_a_ps_job_come_and_go() {
    let running = job("a").ps(1).workers(3).running();
    let all = seen(&running, Pod::ready);
    let grown = running.clone().scaled(Role::Worker, 5);
    let plan = grown.plan(&all);
    assert_eq!(plan.created(), ["a-worker-3", "a-worker-4"]);
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(plan.status.attempt, Some(0));
    assert!(plan.config_map.is_none(), "not every address is known");
    let shrunk = running.clone().scaled(Role::Worker, 1);
    let plan = shrunk.plan(&all);
    assert_eq!(
        plan.deleted(),
        ["a-worker-2", "a-worker-1"],
        "the highest first"
    );
    assert_eq!(plan.status.worker.as_ref().unwrap().refs.len(), 1);
    // Wanted again before it goes, it must not have started with lists that do
    // not have it: they follow when it can't start any more.
    assert_eq!(plan.config_map, None);
    let going = ["worker-1", "worker-2"]
        .iter()
        .fold(all, |all, name| all.pod(name, |p| p.terminating(now())));
    let data = shrunk.plan(&going).config_map.unwrap();
    assert_eq!(data["PADDLE_TRAINER_ENDPOINTS"], "10.0.2.1:36000");
    assert_eq!(data["PADDLE_TRAINERS_NUM"], "1");
}

/// Surplus pods go first: by name the lists come before the pods, and lists wait
/// until no pod that they do not have can start.
#[test]
fn a_pod_is_made_again_when_surplus_ones_have_been_told_to_go() {
    for job in [
        job("a").ps(1).workers(3),
        job("a").ps(1).workers(3).service(),
    ] {
        let all = seen(&job, Pod::ready).without("worker-0");
        let job = job.running().scaled(Role::Worker, 2);
        let plan = job.plan(&all);
        assert_eq!(plan.deleted(), ["a-worker-2"]);
        assert!(plan.created().is_empty());
        let going = all.pod("worker-2", |p| p.terminating(now()));
        assert_eq!(job.plan(&going).created(), ["a-worker-0"]);
    }
}

/// Who waits for the condition after `kubectl scale` waits for the new pods.
#[test]
fn a_job_does_not_count_as_running_while_it_scales() {
    let running = job("a").ps(1).workers(1);
    let all = seen(&running, Pod::ready);
    let running = running.clone().status(|s| *s = running.plan(&all).status);
    assert!(running.plan(&all).condition("Running").starts_with("True"));
    let grown = running.recorded().scaled(Role::Worker, 2);
    let want = "False Scaling: the number of pods is being changed";
    let plan = grown.plan(&all);
    assert_eq!(plan.condition("Running"), want);
    let grown = grown.status(|status| *status = plan.status);
    let came = |state: fn(Pod) -> Pod| all.clone().with(state(pod(&grown, Role::Worker, 1)));
    let plan = grown.plan(&came(Pod::started));
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(plan.condition("Running"), want);
    let plan = grown.plan(&came(Pod::ready));
    assert!(plan.condition("Running").starts_with("True AllReady"));
}

/// Lists that were published for another size, before any status could be
/// written, may be in use.
#[test]
fn lists_of_another_size_are_a_size_too() {
    let new = job("a").role(Role::Worker, 2, never_restarted()).service();
    let published = new.plan(&nothing()).config_map.unwrap();
    let grown = new.scaled(Role::Worker, 3);
    let all = seen(&grown, Pod::started).without("worker-2");
    let plan = grown.plan(&all.clone().config_map(published.clone()));
    assert_eq!(plan.phase(), Phase::Scaling);
    assert_eq!(plan.status.attempt, Some(1));
    assert!(plan.created().is_empty());
    // A role that they do not have at all is another size as well.
    let served = grown.scaled(Role::Worker, 2).ps(1);
    let plan = served.plan(&all.without("worker-1").config_map(published));
    assert_eq!(plan.phase(), Phase::Scaling);
}

#[test]
fn services_follow_the_size() {
    let job = job("a")
        .ps(1)
        .workers(2)
        .service()
        .running()
        .scaled(Role::Worker, 1);
    let seen = seen(&job, Pod::ready).services(&["a-ps-0", "a-worker-0", "a-worker-1"]);
    let plan = job.plan(&seen);
    assert_eq!(plan.services_deleted, ["a-worker-1"]);
    assert!(plan.services_created.is_empty());
}
