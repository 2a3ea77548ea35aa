//! What can't be done, and that it is said why.

use std::fs;
use std::net::TcpListener;
use std::time::Instant;

use cache_api::{Clear, Error, JobState, Rmr, Task};

use crate::servers::{ACCESS_KEY, SECRET_KEY, TELLTALE};
use crate::support::*;

#[tokio::test]
async fn sources_that_are_none() {
    let node = Node::start();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let empty = node.dir.join("empty");
    fs::create_dir(&empty).unwrap();
    let cases = [
        (format!("file://{}", empty.display()), "EmptySource"),
        (
            format!("file://{}/missing", node.dir.display()),
            "EmptySource",
        ),
        ("imagenet".to_owned(), "BadSource"),
        ("ks3://bucket/".to_owned(), "BadSource"),
        ("file:///etc/passwd".to_owned(), "BadSource"),
        (
            format!("s3://{}:{}@{closed}/b/", *ACCESS_KEY, *SECRET_KEY),
            "BadSource",
        ),
        (format!("minio://{closed}/bucket/"), "SourceUnreachable"),
        (
            "s3://bucket.no-such-host.invalid/".to_owned(),
            "SourceUnreachable",
        ),
    ];
    for (n, (source, want)) in cases.iter().enumerate() {
        let job = node.sync_with(&format!("sync-{n}"), |sync| {
            sync.source = source.clone();
            sync.no_https = true;
        });
        let failure = node.fails(job).await;
        assert_eq!(failure.reason, *want, "{source}: {}", failure.message);
        assert!(
            !failure.message.contains(TELLTALE.as_str()),
            "{}",
            failure.message
        );
    }
}

#[tokio::test]
async fn a_source_without_files_removes_nothing() {
    let node = Node::start();
    fs::write(node.data().join("kept"), "x").unwrap();
    let empty = node.dir.join("empty");
    fs::create_dir(&empty).unwrap();
    let missing = node.dir.join("missing");
    for (n, source) in [&empty, &missing].into_iter().enumerate() {
        for (dirs, delete_dst) in [(true, false), (false, true), (true, true)] {
            let job = node.sync_with(&format!("sync-{n}-{dirs}-{delete_dst}"), |sync| {
                sync.source = format!("file://{}", source.display());
                (sync.dirs, sync.delete_dst) = (dirs, delete_dst);
            });
            let failure = node.fails(job).await;
            assert_eq!(failure.reason, "EmptySource", "{}", failure.message);
            assert!(node.data().join("kept").exists(), "{dirs} {delete_dst}");
        }
    }
    fs::write(empty.join("new"), "x").unwrap();
    let mirror = node.sync_with("mirror", |sync| {
        sync.source = format!("file://{}", empty.display());
        sync.delete_dst = true;
    });
    node.succeeds(mirror).await;
    assert!(node.data().join("new").exists());
    eventually("its end, as it was asked for", || {
        (!node.data().join("kept").exists()).then_some(())
    });
}

#[tokio::test]
async fn a_metadata_server_that_is_not_there_is_told_soon() {
    let node = Node::start();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut job = node.sync("sync", "file:///usr/share/doc");
    job.credentials.as_mut().unwrap().metaurl = format!("redis://:hidden@{closed}/0");
    let start = Instant::now();
    let failure = node.fails(job).await;
    assert_eq!(failure.reason, "VolumeUnreachable");
    assert!(failure.message.contains(&closed.to_string()) && !failure.message.contains("hidden"));
    assert!(start.elapsed().as_secs() < 20, "juicefs itself takes 72 s");
}

#[tokio::test]
async fn paths_that_are_none() {
    let node = Node::start();
    fs::write(node.data().join("kept"), "x").unwrap();
    let outside = node.dir.join("outside");
    fs::write(&outside, "x").unwrap();
    std::os::unix::fs::symlink("..", node.data().join("up")).unwrap();
    for (n, path) in [
        "",
        "/",
        ".",
        "../outside",
        "up/outside",
        "missing",
        ".trash",
    ]
    .iter()
    .enumerate()
    {
        let paths = vec![(*path).to_owned()];
        let failure = node
            .fails(job(
                &format!("rmr-{n}"),
                Task::Rmr(Rmr {
                    paths: paths.clone(),
                }),
            ))
            .await;
        assert_eq!(failure.reason, "BadPath", "{path:?}: {}", failure.message);
        if !["", "."].contains(path) {
            let task = Task::Clear(Clear { paths });
            let failure = node.fails(job(&format!("clear-{n}"), task)).await;
            assert_eq!(failure.reason, "BadPath", "{path:?}: {}", failure.message);
        }
    }
    let to_above = node.sync_with("above", |sync| {
        sync.source = format!("file://{}", node.dir.join("tls").display());
        sync.destination = "../x".to_owned();
    });
    assert_eq!(node.fails(to_above).await.reason, "BadPath");
    assert!(outside.exists() && node.data().join("kept").exists());
}

#[tokio::test]
async fn strangers_are_turned_away() {
    let node = Node::start();
    match node.stranger().jobs().await.unwrap_err() {
        Error::Refused { status: 401, .. } => {}
        other => panic!("{other}"),
    }
    match node.misled().jobs().await.unwrap_err() {
        Error::Unreachable { .. } => {}
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_running_sync_is_cancelled_within_seconds_and_leaves_nothing_unfinished() {
    let node = Node::start();
    let source = node.dir.join("source");
    fill(&source, 40, 3_000_000);
    let slow = node.sync_with("slow", |sync| {
        sync.source = format!("file://{}", source.display());
        sync.bwlimit = Some(40);
    });
    node.client.post(&slow).await.unwrap();
    node.wait("slow", |job| {
        job.progress.bytes > 0 || job.progress.total_files > Some(0)
    })
    .await;
    let start = Instant::now();
    assert!(node.client.cancel("slow").await.unwrap().is_some());
    let ended = node.ended("slow").await;
    assert_eq!(ended.state, JobState::Cancelled);
    assert!(start.elapsed().as_secs() < 5);
    let source = source.display().to_string();
    eventually("the end of juicefs", || {
        let lines = command_lines();
        (!lines
            .iter()
            .any(|(_, line)| line.contains(" sync ") && line.contains(&source)))
        .then_some(())
    });
    eventually("the end of what is not whole", || {
        (!read_names(&node).contains(".jfs.")).then_some(())
    });
}

/// The names in the data.
fn read_names(node: &Node) -> String {
    let mut names = String::new();
    for folder in fs::read_dir(node.data()).unwrap().flatten() {
        names.push_str(&format!("{:?} ", folder.file_name()));
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            names.push_str(&format!("{:?} ", file.file_name()));
        }
    }
    names
}

#[tokio::test]
async fn a_mount_that_is_gone_is_told() {
    let node = Node::start();
    node.cache(|cache| cache.error.is_none() && cache.total.is_some())
        .await;
    let unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(node.data())
        .status();
    assert!(unmounted.unwrap().success());
    let gone = node.cache(|cache| cache.error.is_some()).await;
    assert!(gone.error.unwrap().contains("mnt"));
    let failure = node.fails(job("warm", Task::Warmup(warmup(1, 0)))).await;
    assert!(
        ["VolumeUnreachable", "CommandFailed"].contains(&&*failure.reason),
        "{failure:?}"
    );
}
