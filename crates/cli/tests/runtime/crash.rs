//! Kills of the server in the middle of something.

use std::fs;

use cache_api::{JobState, Task};

use crate::support::*;

#[tokio::test]
async fn a_sync_goes_on_when_its_keys_come_again() {
    let mut node = Node::start();
    let source = node.dir.join("source");
    fill(&source, 30, 2_000_000);
    let uri = format!("file://{}", source.display());
    let slow = node.sync_with("sync", |sync| {
        sync.source = uri.clone();
        sync.bwlimit = Some(80);
    });
    node.client.post(&slow).await.unwrap();
    node.client
        .post(&job("warm", Task::Warmup(warmup(1, 0))))
        .await
        .unwrap();
    node.wait("sync", |job| job.progress.total_files > Some(0))
        .await;
    node.kill();
    node.run();
    // What the killed one started is ended: nobody copies any more.
    eventually("the end of juicefs", || {
        let lines = command_lines();
        (!lines
            .iter()
            .any(|(_, line)| line.contains(" sync ") && line.contains(&uri)))
        .then_some(())
    });
    let waits = node.client.job("sync", None).await.unwrap();
    assert_eq!(waits.state, JobState::NeedsCredentials);
    assert!(
        node.ended("warm").await.state.has_ended(),
        "it holds nobody up"
    );
    let posted = node.client.post(&slow).await.unwrap();
    assert_ne!(posted.state, JobState::NeedsCredentials);
    assert!(matches!(
        node.ended("sync").await.state,
        JobState::Succeeded(_)
    ));
    // Nothing unfinished is left.
    node.cache(|cache| cache.total.is_some_and(|total| total.files == 30))
        .await;
}

#[tokio::test]
async fn a_warmup_begins_again() {
    let mut node = Node::start();
    fill(node.data(), 400, 40_000);
    node.succeeds(job("clear", Task::Clear(cache_api::Clear::default())))
        .await;
    for n in 0..3 {
        let id = format!("warm-{n}");
        // As lists, which are slow.
        let task = Task::Warmup(warmup(2, n % 2));
        node.client.post(&job(&id, task)).await.unwrap();
        node.wait(&id, |job| job.state != JobState::Queued).await;
        node.kill();
        node.run();
        match node.ended(&id).await.state {
            JobState::Succeeded(outcome) => assert_eq!(outcome.cached, outcome.share),
            other => panic!("{other:?}"),
        }
    }
    let share = node.client.cache(None).await.unwrap().share;
    assert!(share > Some(0));
    node.kill();
    node.run();
    assert_eq!(
        node.client.cache(None).await.unwrap().share,
        share,
        "it is kept"
    );
    assert_eq!(node.client.jobs().await.unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_on_disk_and_no_job_does_no_harm() {
    let mut node = Node::start();
    node.client
        .post(&job("a", Task::Warmup(warmup(1, 0))))
        .await
        .unwrap();
    node.ended("a").await;
    node.kill();
    fs::write(node.dir.join("state/jobs/torn.json"), "{\"id\":").unwrap();
    fs::write(node.dir.join("state/share.json"), "?").unwrap();
    fs::write(node.dir.join("state/commands/sync"), "1 1").unwrap();
    node.run();
    assert_eq!(node.client.jobs().await.unwrap().len(), 1);
}
