//! What is wrong in a spec is said by a condition, in words that help.

use api::{Phase, Role};
use plan::paddlejob::{self, PodPhase, Refusal};
use serde_json::{Value, json};

use crate::support::*;

fn template_of(containers: Value) -> Value {
    json!({"spec": {"containers": containers}})
}

#[test]
fn what_can_not_work_is_refused_with_a_reason() {
    let long = "a".repeat(60);
    let cases: Vec<(Job, String)> = vec![
        (
            job("a"),
            "the job has no role: set spec.worker, or spec.ps and spec.worker".into(),
        ),
        (
            job("a").workers(0),
            "spec.worker.replicas is 0; it must be 1 to 2000".into(),
        ),
        (
            job("a").workers(-3),
            "spec.worker.replicas is -3; it must be 1 to 2000".into(),
        ),
        (
            job("a").workers(2001),
            "spec.worker.replicas is 2001; it must be 1 to 2000".into(),
        ),
        (
            job("a").ps(0).workers(0),
            "spec.ps.replicas is 0; it must be 1 to 2000; spec.worker.replicas is 0; it must be 1 to 2000".into(),
        ),
        (
            job("a").role(Role::Worker, 1, json!({})),
            "spec.worker.template.spec.containers is missing; at least one container is needed".into(),
        ),
        (
            job("a").role(Role::Worker, 1, template_of(json!([]))),
            "spec.worker.template.spec.containers is []; at least one container is needed".into(),
        ),
        (
            job("a").role(Role::Worker, 1, template_of(json!(["paddle"]))),
            "spec.worker.template.spec.containers holds \"paddle\"; each must be a container".into(),
        ),
        (
            job("a").workers(1).spec(|spec| spec.worker.as_mut().unwrap().template = None),
            "spec.worker.template.spec.containers is missing; at least one container is needed".into(),
        ),
        (
            job("a").workers(1).spec(|spec| spec.with_gloo = Some(3)),
            "spec.withGloo is 3; it must be 0 (off), 1 (workers) or 2 (workers and servers)".into(),
        ),
        (
            job("a").workers(1).backoff_limit(-1),
            "spec.backoffLimit is -1; it must be 0 or more".into(),
        ),
        (
            job("a").workers(1).deadline(0),
            "spec.activeDeadlineSeconds is 0; it must be 1 or more".into(),
        ),
        (
            job("a").workers(1).ttl(-1),
            "spec.ttlSecondsAfterFinished is -1; it must be 0 or more".into(),
        ),
        (
            job(&long).workers(1),
            format!("metadata.name has 60 characters; its pods would be called {long}-worker-0, 6 more than the 63 that Kubernetes allows"),
        ),
        (
            job("1a").workers(1).service(),
            "metadata.name is 1a, and Services can't have such a name; with intranet: Service it may hold a-z, 0-9 and '-' and must begin with a letter".into(),
        ),
    ];
    for (job, want) in cases {
        let plan = job.plan(&nothing());
        assert!(plan.is_idle(), "{want}");
        assert_eq!(plan.phase(), Phase::Pending);
        assert_eq!(
            plan.condition("Scheduled"),
            format!("False InvalidSpec: {want}")
        );
        assert_eq!(plan.told(), ["InvalidSpec"]);
        // It is told once.
        let told = job.status(|status| *status = plan.status.clone());
        let again = told.plan(&nothing());
        assert!(again.events.is_empty(), "{want}");
        assert_eq!(again.status, plan.status);
    }
}

#[test]
fn two_thousand_workers_are_a_job() {
    let plan = job("a").workers(2000).plan(&nothing());
    assert_eq!(plan.pods_created.len(), 2000);
    assert_eq!(plan.pods_created[1999]["metadata"]["name"], "a-worker-1999");
}

/// No room is made for pods that are never made.
#[test]
fn huge_numbers_are_refused_at_once() {
    let job = job("a").ps(i32::MAX).workers(i32::MAX);
    assert!(
        job.plan(&nothing())
            .condition("Scheduled")
            .contains("2147483647")
    );
}

/// A job that runs is not stopped by a spec that can't work; the pods stay.
#[test]
fn what_runs_goes_on_when_the_spec_is_broken() {
    let job = job("a").workers(2).running().scaled(Role::Worker, 0);
    let plan = job.plan(&seen(&job, Pod::ready));
    assert!(plan.is_idle());
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(plan.status.worker.unwrap().replicas, 2);
}

#[test]
fn what_is_done_is_done_under_a_broken_spec_too() {
    let broken = job("a").ps(1).workers(1).running().deadline(0);
    let done = seen(&broken, Pod::ready).pod("worker-0", Pod::succeeded);
    assert_eq!(broken.plan(&done).phase(), Phase::Completed);
}

#[test]
fn words_that_nobody_knows_are_told_once() {
    let misspelt = job("a")
        .workers(1)
        .cleans("OnFailed")
        .spec(|spec| spec.intranet = Some("PodIp".to_owned()));
    let plan = misspelt.plan(&nothing());
    let messages: Vec<&str> = plan
        .events
        .iter()
        .filter(|event| event.is_warning)
        .map(|event| event.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "spec.cleanPodPolicy is \"OnFailed\", which acts as Never; it can be Always, Never, OnFailure or OnCompletion",
            "spec.intranet is \"PodIp\", which acts as PodIP; it can be PodIP, Service or Host",
        ]
    );
    assert_eq!(plan.created(), ["a-worker-0"], "and it starts");
    let told = misspelt.status(|status| *status = plan.status.clone());
    assert!(told.plan(&seen(&told, Pod::created)).events.is_empty());
}

/// A word may be misspelt later too, and together with a change that starts the
/// job again; a job that has ended still acts by it.
#[test]
fn a_word_is_told_once_for_each_generation() {
    let right = job("a").workers(1);
    let right = right.clone().status(|s| *s = right.plan(&nothing()).status);
    let ended = right.clone().phase(Phase::Failed);
    let scaled = right.clone().scaled(Role::Worker, 2);
    for (case, job) in [
        ("on its way", right.clone()),
        ("scaled", scaled),
        ("ended", ended),
    ] {
        let job = job
            .cleans("Nerver")
            .edit(|job| job.metadata.generation = Some(2));
        let plan = job.plan(&seen(&right, Pod::ready));
        assert!(
            plan.told().contains(&"Misspelt"),
            "{case}: {:?}",
            plan.told()
        );
        let told = job.status(|status| *status = plan.status);
        let again = told.plan(&seen(&right, Pod::ready));
        assert!(!again.told().contains(&"Misspelt"), "{case}");
    }
}

/// No room is made for pods that a job can't have: they are not waited for.
#[test]
fn a_job_of_the_largest_size_completes_though_more_are_asked_for() {
    let job = job("a").workers(2000);
    let all = seen(&job, |p| p.edit(|p| p.phase = PodPhase::Succeeded));
    let job = job.running().scaled(Role::Worker, 2001);
    assert_eq!(job.plan(&all).phase(), Phase::Completed);
}

#[test]
fn a_label_of_ours_in_a_template_is_replaced_and_told() {
    let template = json!({
        "metadata": {"labels": {"paddle-res-type": "mine"}},
        "spec": {"containers": [{"name": "paddle"}]},
    });
    let plan = job("a").role(Role::Worker, 1, template).plan(&nothing());
    assert_eq!(
        plan.pods_created[0]["metadata"]["labels"]["paddle-res-type"],
        "worker"
    );
    let told = plan.events.iter().find(|e| e.reason == "Misspelt").unwrap();
    assert_eq!(
        told.message,
        "spec.worker.template sets the label paddle-res-type, which belongs to the operator and is replaced"
    );
}

/// The API server may refuse a child; the job says so, once, and keeps its phase.
#[test]
fn a_refused_child_is_a_condition() {
    let job = job("a").workers(2).running();
    let refusal = || Refusal {
        reason: "NameTaken",
        message: "Pod default/a-worker-0 belongs to somebody else".to_owned(),
    };
    let mut plan = job.plan(&seen(&job, Pod::ready));
    paddlejob::refuse(&mut plan, &job, refusal(), now());
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(
        plan.condition("Scheduled"),
        "False NameTaken: Pod default/a-worker-0 belongs to somebody else"
    );
    assert_eq!(plan.told(), ["NameTaken"]);
    let told = job.status(|status| *status = plan.status);
    let mut again = told.plan(&seen(&told, Pod::ready));
    paddlejob::refuse(&mut again, &told, refusal(), now());
    assert!(again.events.is_empty());
}

#[test]
fn an_object_that_can_not_be_read_says_so() {
    let plan = paddlejob::unreadable(None, Some(3), "spec.worker: invalid type", now());
    assert_eq!(
        plan.condition("Scheduled"),
        "False InvalidSpec: the object does not fit its schema: spec.worker: invalid type"
    );
    assert_eq!(plan.status.observed_generation, Some(3));
    assert_eq!(plan.told(), ["InvalidSpec"]);
    let again = paddlejob::unreadable(
        Some(plan.status.clone()),
        Some(3),
        "spec.worker: invalid type",
        now() + seconds(9),
    );
    assert_eq!(again.status, plan.status);
    assert!(again.events.is_empty());
}

/// Nothing else would end it.
#[test]
fn a_spec_that_went_wrong_can_still_be_suspended_and_times_out() {
    let wrong = |job: Job| job.ps(1).spec(|spec| spec.elastic = Some(1));
    let job = wrong(job("a").workers(1).running().deadline(60));
    let world = seen(&job, Pod::ready);
    let plan = job.plan(&world);
    assert_eq!(plan.status.phase, Some(Phase::Running));
    let wakes = plan.wake_at.unwrap();
    let plan = job.plan_at(&world, wakes);
    assert_eq!(plan.status.phase, Some(Phase::Failed));
    let plan = job.clone().deadline(0).plan_at(&world, wakes);
    assert_eq!(plan.status.phase, Some(Phase::Running));
    let suspended = job.suspend(true);
    let plan = suspended.plan(&world);
    assert_eq!(plan.status.phase, Some(Phase::Suspended));
    assert!(plan.condition("Scheduled").starts_with("False InvalidSpec"));
}
