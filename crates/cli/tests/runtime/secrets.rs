//! Keys: a source that asks for them, and that nobody else gets to see them.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::servers::{S3, SECRET_KEY, TELLTALE};
use crate::support::*;

/// A bucket of 30 files below `data`.
fn s3(node: &Node) -> S3 {
    let files = node.dir.join("s3");
    fill(&files.join("data"), 30, 2000);
    S3::start(Ipv4Addr::LOCALHOST.into(), &files)
}

/// Looks at the command lines of the machine until it is dropped.
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<String>>>,
}

fn watch_command_lines() -> Watcher {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut found = Vec::new();
        while !seen.load(Ordering::Relaxed) {
            let lines = command_lines().into_iter().map(|(_, line)| line);
            found.extend(lines.filter(|line| line.contains("juicefs")));
        }
        found
    });
    Watcher {
        stop,
        thread: Some(thread),
    }
}

impl Watcher {
    fn lines(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[tokio::test]
async fn an_s3_source_is_copied_and_no_key_is_seen_anywhere() {
    let mut node = Node::start();
    let s3 = s3(&node);
    let watcher = watch_command_lines();
    let mut messages = Vec::new();
    let source = |path: &str| format!("minio://{}/{path}", s3.address);
    let order = |id: &str, path: &str, secret: &str| {
        let mut job = node.sync_with(id, |sync| {
            sync.source = source(path);
            sync.no_https = true;
        });
        job.credentials.as_mut().unwrap().secret_key = Some(secret.to_owned());
        job
    };
    node.succeeds(order("good", "public/data", &SECRET_KEY))
        .await;
    let wrong = format!("SK/wrong+{}", *TELLTALE);
    let cases = [
        ("wrong", "public/data", &wrong, "AccessDenied"),
        ("bucket", "no-bucket/data", &SECRET_KEY, "BadSource"),
        ("empty", "public/nothing", &SECRET_KEY, "EmptySource"),
    ];
    for (id, path, secret, want) in cases {
        let failure = node.fails(order(id, path, secret)).await;
        assert_eq!(failure.reason, want, "{}", failure.message);
        messages.push(failure.message);
    }
    let slow = node.sync_with("killed", |sync| {
        sync.source = source("public/data");
        sync.destination = "again".to_owned();
        sync.no_https = true;
        sync.bwlimit = Some(1);
    });
    node.client.post(&slow).await.unwrap();
    node.wait("killed", |job| job.state == cache_api::JobState::Running)
        .await;
    node.kill();
    node.run();
    node.cache(|cache| cache.total.is_some_and(|total| total.files >= 30))
        .await;

    let lines = watcher.lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("sync") && line.contains("minio://"))
    );
    let environment = format!("/proc/{}/environ", node.pid());
    messages.extend(lines);
    messages.extend([
        node.log(),
        node.state(),
        fs::read_to_string(environment).unwrap(),
    ]);
    for text in messages {
        let has_key = text.contains(TELLTALE.as_str());
        assert!(!has_key, "{} is in {text}", *TELLTALE);
    }
}
