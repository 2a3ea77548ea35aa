//! Keys: a source that asks for them, and that nobody else gets to see them.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;

/// An S3 server with a bucket `source` of 30 files below `data`.
struct S3 {
    address: SocketAddr,
    _server: Ending,
}

fn s3(node: &Node) -> S3 {
    let dir = node.dir.join("s3");
    fs::create_dir(&dir).unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    let meta = format!("sqlite3://{}", path("meta.db"));
    let store = format!("{}/", path("store"));
    run(
        &[
            "format",
            "--storage",
            "file",
            "--bucket",
            &store,
            &meta,
            "source",
        ],
        &[],
    );
    fill(&dir.join("files"), 30, 2000);
    let from = format!("file://{}/", path("files"));
    run(
        &[
            "sync",
            &from,
            "jfs://source/data/",
            "--metrics",
            "127.0.0.1:0",
        ],
        &[("source", &meta)],
    );
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = Command::new(juicefs())
        .args([
            "--no-agent",
            "gateway",
            "--metrics",
            "127.0.0.1:0",
            "--cache-dir",
            &path("cache"),
        ])
        .args([&meta, &address.to_string()])
        .env("MINIO_ROOT_USER", ACCESS_KEY)
        .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Ending(server);
    eventually("an S3 server", || TcpStream::connect(address).ok());
    S3 {
        address,
        _server: server,
    }
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
    node.succeeds(order("good", "source/data", SECRET_KEY))
        .await;
    let cases = [
        ("wrong", "source/data", "SK/wrong+visible", "AccessDenied"),
        ("bucket", "no-bucket/data", SECRET_KEY, "BadSource"),
        ("empty", "source/nothing", SECRET_KEY, "EmptySource"),
    ];
    for (id, path, secret, want) in cases {
        let failure = node.fails(order(id, path, secret)).await;
        assert_eq!(failure.reason, want, "{}", failure.message);
        messages.push(failure.message);
    }
    let slow = node.sync_with("killed", |sync| {
        sync.source = source("source/data");
        sync.destination = "again".to_owned();
        sync.no_https = true;
        sync.bwlimit = Some(1);
    });
    node.client.post(&slow).await.unwrap();
    node.wait("killed", |job| job.state == cache_api::JobState::Running)
        .await;
    node.kill();
    node.run();
    let total = node
        .cache(|cache| cache.total.is_some())
        .await
        .total
        .unwrap();
    assert!(total.files >= 30);

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
        for key in [ACCESS_KEY, SECRET_KEY, "SK/wrong+visible", "SK%2F"] {
            assert!(!text.contains(key), "{key} is in {text}");
        }
    }
}
