//! Tries of a sync, its failure, and what follows its success.

use api::{Operation, SampleSetPhase};
use plan::operation::{State, Task};

use crate::support::*;

#[test]
fn a_sync_has_three_tries_and_then_one_every_five_minutes() {
    let stage = stage(set("imagenet")).says(
        Operation::Sync,
        failed("EmptySource", "the source is empty"),
    );
    let stage = stage.settle();
    assert_eq!(
        stage.phase(),
        Some(SampleSetPhase::Syncing),
        "the first of three"
    );
    let stage = stage.after(10);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Syncing), "the second");
    let stage = stage.after(29);
    assert_eq!(stage.posted(0).len(), 2);
    let stage = stage.after(1);
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    let (reason, message) = stage.told("Synced");
    assert_eq!(reason, "EmptySource");
    assert!(
        message.contains("imagenet-runtime-0: the source is empty"),
        "{message}"
    );
    assert_eq!(stage.plan_set().wake_at, Some(stage.now + seconds(300)));
    let stage = stage.after(299);
    assert_eq!(stage.posted(0).len(), 3);
    let stage = stage.says(Operation::Sync, succeeded()).after(1);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn a_failed_sync_is_tried_again_at_once_when_the_spec_changes() {
    let stage = stage(set("imagenet")).says(Operation::Sync, failed("Unreachable", "no route"));
    let stage = stage.settle().after(10).after(30);
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    let stage = stage.says(Operation::Sync, succeeded());
    let stage = stage
        .edit(|set| set.edit(|spec| spec.tolerations = Some(Vec::new())))
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn another_source_is_copied_and_the_old_sync_is_cancelled() {
    let stage = stage(set("imagenet"))
        .says(Operation::Sync, running())
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Syncing));
    let stage = stage.says(Operation::Sync, succeeded());
    let stage = stage.edit(|set| set.source("s3://bucket/other")).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    let sources = stage.posts.iter().filter_map(|post| match &post.task {
        Task::Sync(task) => Some(task.source.as_str()),
        _ => None,
    });
    let sources: Vec<&str> = sources.collect();
    assert_eq!(
        sources,
        [
            "bos://public.hkg.bcebos.com/imagenet/demo/",
            "s3://bucket/other/"
        ]
    );
    let cancelled = stage.servers[&0].operations.values();
    assert!(cancelled.clone().any(|state| *state == State::Cancelled));
}

#[test]
fn keys_are_named_and_never_held() {
    let stage = stage(set("imagenet")).settle();
    let post = stage.posts.first().unwrap();
    let credentials = post.credentials.clone().unwrap();
    assert_eq!(credentials.volume, "imagenet");
    assert_eq!(credentials.source.as_deref(), Some("imagenet"));
    assert!(
        stage.posts[1..]
            .iter()
            .all(|post| post.credentials.is_none())
    );
    let all = format!("{:?} {:?} {:?}", stage.posts, stage.set(), stage.secrets);
    assert!(!all.contains("sesame") && !all.contains("192.168"), "{all}");
}

#[test]
fn a_server_that_needs_keys_again_gets_them() {
    let stage = stage(set("imagenet"))
        .says(Operation::Sync, running())
        .settle();
    let stage = stage
        .turns(State::NeedsCredentials)
        .says(Operation::Sync, succeeded())
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.posts[0].id, stage.posts[1].id);
    assert!(stage.posts[1].credentials.is_some());
}

#[test]
fn a_source_secret_without_a_key_is_waited_for() {
    let keyed =
        set("imagenet").edit(|spec| spec.source.as_mut().unwrap().secret_ref = secret_ref("keys"));
    let stage = stage(keyed).settle();
    assert_eq!(stage.told("Synced").0, "SecretMissing");
    let half = secret(&[("access-key", "AKIA")]);
    let stage = stage
        .change(|stage| drop(stage.secrets.insert("keys".to_owned(), half)))
        .after(10);
    let (reason, message) = stage.told("Synced");
    assert_eq!(reason, "SecretKeyMissing");
    assert!(message.contains("has no secret-key"), "{message}");
    let whole = secret(&[("access-key", "AKIA"), ("secret-key", "sesame")]);
    let stage = stage
        .change(|stage| drop(stage.secrets.insert("keys".to_owned(), whole)))
        .after(10);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn a_warmup_that_fails_is_told_and_tried_again() {
    let stage = stage(set("imagenet")).says(Operation::Warmup, failed("DiskFull", "no space left"));
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
    assert_eq!(stage.told("Warm").0, "DiskFull");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(30)));
    let stage = stage.says(Operation::Warmup, succeeded()).after(30);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn an_order_that_selects_nothing_is_no_success() {
    let State::Succeeded(mut done) = succeeded() else {
        panic!("not done");
    };
    done.listing = Some(plan::operation::Listing { count: 0, crc: 0 });
    let stage = stage(set("imagenet"))
        .says(Operation::Warmup, State::Succeeded(done))
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
    let (reason, message) = stage.told("Warm");
    assert_eq!(reason, "NoSamples");
    assert!(message.contains("1284 files"), "{message}");
}

#[test]
fn servers_that_disagree_are_asked_once_more() {
    let stage = stage(set("imagenet").partitions(2))
        .says(Operation::Warmup, running())
        .settle();
    let listing = |count| {
        State::Succeeded(plan::operation::Done {
            listing: Some(plan::operation::Listing { count, crc: 1 }),
            ..plan::operation::Done::default()
        })
    };
    let finish = |mut stage: Stage, counts: [i64; 2]| {
        for (partition, count) in counts.into_iter().enumerate() {
            let server = stage.servers.get_mut(&(partition as i32)).unwrap();
            for state in server
                .operations
                .values_mut()
                .filter(|state| **state == running())
            {
                *state = listing(count);
            }
        }
        stage.settle()
    };
    let stage = finish(stage, [10, 11]);
    assert_eq!(stage.told("Warm").0, "Warming");
    assert!(stage.posts.last().unwrap().id.ends_with("-again"));
    let stage = finish(stage, [10, 11]);
    assert_eq!(stage.told("Warm").0, "ListingsDiffer");
}
