//! What counts as the copy that the set asks for.

use api::{Operation, SampleJob, SampleJobPhase, SampleSetPhase, SyncOptions};
use plan::operation::Task;

use crate::support::*;

/// A set whose own copy failed, and servers that copy well from now on.
fn unsynced() -> Stage {
    let stage = stage(set("imagenet")).says(Operation::Sync, failed("Unreachable", "no route"));
    let stage = stage.settle().after(10).after(30);
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    stage.says(Operation::Sync, succeeded())
}

fn sync(options: impl FnOnce(&mut SyncOptions)) -> SampleJob {
    let mut asked = SyncOptions::default();
    options(&mut asked);
    job("a", Operation::Sync).edit(|spec| spec.sync_options = Some(asked))
}

fn warmups(stage: &Stage) -> usize {
    let posted = stage.posted(0).into_iter();
    posted.filter(|posted| *posted == Operation::Warmup).count()
}

#[test]
fn a_dry_sync_copies_nothing_and_nothing_follows_it() {
    let stage = unsynced().with(sync(|options| options.dry = Some(true)));
    let stage = stage.settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    let told = stage.job_told("a", "Complete").1;
    assert_eq!(told, "1284 files would be copied");
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    assert_eq!(warmups(&stage), 0);
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_sync_of_something_else_is_cached_and_the_set_still_needs_its_own() {
    type Edit = fn(&mut SyncOptions);
    let others: [Edit; 4] = [
        |options| options.source = Some("s3://bucket/other".to_owned()),
        |options| options.destination = Some("train".to_owned()),
        |options| options.exclude = Some("*.txt".to_owned()),
        |options| options.end = Some("n02".to_owned()),
    ];
    for other in others {
        let stage = unsynced().with(sync(other)).settle();
        assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
        assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
        assert_eq!(warmups(&stage), 1);
        let stage = stage.after(300);
        assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    }
}

#[test]
fn a_sync_of_the_same_counts_however_it_is_done() {
    let same = sync(|options| {
        options.source = Some("bos://public.hkg.bcebos.com/imagenet/demo/".to_owned());
        options.destination = Some("/".to_owned());
        (options.threads, options.bwlimit) = (Some(50), Some(100));
        (options.update, options.dry) = (Some(true), Some(false));
    });
    let stage = unsynced().with(same).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

/// Until the lock says that a copy has succeeded.
fn until_copied(mut stage: Stage) -> Stage {
    let is_copied = |stage: &Stage| {
        let lock = stage.set().status.as_ref();
        let lock = lock.and_then(|status| status.operation.as_ref());
        lock.is_some_and(|lock| lock.follow_up.is_some())
    };
    while !is_copied(&stage) {
        assert!(stage.step());
    }
    stage
}

fn sources(stage: &Stage) -> Vec<&str> {
    let posts = stage.posts.iter();
    let sources = posts.filter_map(|post| match &post.task {
        Task::Sync(task) => Some(task.source.as_str()),
        _ => None,
    });
    sources.collect()
}

#[test]
fn a_source_that_changes_right_after_the_copy_is_copied_too() {
    let stage = until_copied(stage(set("imagenet")));
    let stage = stage.edit(|set| set.source("s3://bucket/other")).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    let copied = [
        "bos://public.hkg.bcebos.com/imagenet/demo/",
        "s3://bucket/other/",
    ];
    assert_eq!(sources(&stage), copied);
    assert_eq!(warmups(&stage), 1, "the old data is not cached any more");
    let stage = until_copied(unsynced().with(job("a", Operation::Sync)));
    let stage = stage.edit(|set| set.source("s3://bucket/other")).settle();
    assert_eq!(sources(&stage).last(), Some(&"s3://bucket/other/"));
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn a_source_that_changes_before_a_job_asks_for_the_copy_is_what_is_copied() {
    let mut stage = unsynced().with(job("a", Operation::Sync));
    while stage.status().operation.is_none() {
        assert!(stage.step());
    }
    let old = stage.status().operation.clone().unwrap().key;
    let mut stage = stage.edit(|set| set.source("s3://bucket/other"));
    let from = stage.posts.len();
    while stage.posts.len() == from {
        assert!(stage.step());
    }
    assert_eq!(sources(&stage).last(), Some(&"s3://bucket/other/"));
    assert_ne!(stage.status().operation.clone().unwrap().key, old);
    assert_eq!(stage.settle().phase(), Some(SampleSetPhase::Ready));
}
