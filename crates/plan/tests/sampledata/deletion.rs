//! How a set goes.

use api::Operation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::sampleset::{Child, Kind};

use crate::support::*;

fn deleted() -> Stage {
    let stage = stage(set("imagenet").partitions(2)).settle();
    stage.edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    })
}

#[test]
fn a_set_goes_with_all_that_it_made_and_the_finalizer_last() {
    let mut stage = deleted();
    let mut order: Vec<Kind> = Vec::new();
    while stage.set.is_some() {
        let plan = stage.plan_set();
        assert!(order.len() == 4 || plan.finalizers.is_none());
        order.extend(plan.deleted.iter().copied());
        assert!(stage.apply_set(plan));
    }
    let children = [
        Kind::StatefulSet,
        Kind::Service,
        Kind::PersistentVolumeClaim,
        Kind::PersistentVolume,
    ];
    assert_eq!(order, children);
    assert!(stage.seen.labelled_nodes.is_empty());
    let clears = stage
        .posts
        .iter()
        .filter(|post| post.task.operation() == Operation::Clear);
    assert_eq!(clears.count(), 2);
}

#[test]
fn jobs_that_use_the_set_are_waited_for_and_named() {
    let stage = deleted().change(|stage| stage.seen.jobs = ["resnet".to_owned()].into());
    let stage = stage.settle();
    let (reason, message) = stage.told("Deleting");
    assert_eq!(reason, "InUse");
    assert!(message.contains("resnet"), "{message}");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(3)));
    assert!(stage.seen.stateful_set.ours().is_some());
    let stage = stage.change(|stage| stage.seen.jobs.clear()).settle();
    assert!(stage.set.is_none());
}

#[test]
fn servers_have_a_minute_to_clear_and_then_their_nodes_are_named() {
    let stage = deleted().says(Operation::Clear, running()).settle();
    assert_eq!(stage.told("Deleting").0, "Clearing");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(60)));
    let stage = stage.after(60);
    assert!(stage.set.is_none());
    let told = stage
        .events
        .iter()
        .find(|event| event.reason == "CacheLeft")
        .unwrap();
    assert!(told.message.contains("node-0, node-1"), "{}", told.message);
}

#[test]
fn what_runs_is_cancelled_before_the_caches_are_cleared() {
    let stage = stage(set("imagenet"))
        .says(Operation::Warmup, running())
        .settle();
    let stage = stage.edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    });
    let plan = stage.plan_set();
    assert_eq!(plan.cancelled.len(), 1);
    assert!(stage.settle().set.is_none());
}

#[test]
fn when_everything_goes_nothing_is_waited_for() {
    let stage = deleted().change(|stage| {
        stage.seen.everything_goes = true;
        stage.seen.jobs.insert("resnet".to_owned());
    });
    let plan = stage.plan_set();
    assert_eq!(plan.finalizers, Some(Vec::new()));
    assert_eq!(plan.deleted.len(), 4);
    assert_eq!(plan.labelled.len(), 2);
    assert!(plan.events.iter().any(|event| event.reason == "CacheLeft"));
}

#[test]
fn what_belongs_to_others_stays() {
    let stage = deleted().change(|stage| {
        stage.seen.claim = Child::Foreign;
        stage.seen.volume = Child::Foreign;
    });
    let stage = stage.settle();
    assert!(stage.set.is_none());
    assert_eq!(stage.seen.claim, Child::Foreign);
    assert_eq!(stage.seen.volume, Child::Foreign);
}

#[test]
fn a_server_that_never_ran_is_not_waited_for() {
    let stage = stage(set("imagenet").partitions(2)).change(|stage| stage.works = false);
    let stage = stage.settle().change(|stage| {
        let bound = plan::sampleset::VolumeView {
            is_bound: true,
            ..Default::default()
        };
        (stage.seen.claim, stage.seen.volume) = (Child::Ours(bound.clone()), Child::Ours(bound));
        let mut pod = runtime_pod(0);
        (pod.is_ready, pod.trouble) = (false, Some("ErrImagePull".to_owned()));
        stage.seen.pods.push(pod);
    });
    let stage = stage.settle().edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    });
    let stage = stage.settle();
    assert!(stage.set.is_none());
    assert!(!stage.events.iter().any(|event| event.reason == "CacheLeft"));
}

/// As Kubernetes has it, a pod that has ended keeps a claim too.
#[test]
fn a_claim_that_pods_keep_is_told() {
    let stage = stage(set("imagenet")).settle().edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    });
    let stage = stage.change(|stage| {
        stage.seen.stateful_set = Child::Missing;
        stage.seen.pods.clear();
        stage.seen.claim = Child::Ours(plan::sampleset::VolumeView {
            is_bound: true,
            is_going: true,
            ..Default::default()
        });
    });
    let plan = stage.plan_set();
    let mut told = plan.status.conditions.iter();
    let told = told.find(|told| told.type_ == "Deleting").unwrap();
    assert_eq!(told.reason, "ClaimInUse");
    assert!(
        told.message.contains("kubectl describe pvc imagenet"),
        "{}",
        told.message
    );
}

#[test]
fn a_set_that_never_got_anywhere_goes_at_once() {
    let stage = stage(set("imagenet"))
        .change(|stage| stage.secrets.clear())
        .settle();
    let stage = stage.edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    });
    assert!(stage.settle().set.is_none());
}
