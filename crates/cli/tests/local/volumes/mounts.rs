//! A mount and a cache on each node, and what becomes of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{CACHE, make_volume, start_redis, until, with_data};
use crate::support::{Local, Pods, container, signal};

const RUNTIME_IMAGE: &str = concat!(
    "paddlepaddle/paddle-operator-runtime:v",
    env!("CARGO_PKG_VERSION")
);

/// Stays until it is told to go.
const STAYS: &str = "trap 'exit 0' TERM; while sleep 0.1; do :; done";

/// The processes of JuiceFS that serve volumes of nodes: the first of each.
fn served(local: &Local) -> BTreeSet<u32> {
    let mut pids = BTreeSet::new();
    for node in 0..2 {
        let file = format!("nodes/node-{node}/volumes/default-data/mount.json");
        let Ok(record) = fs::read(local.dir.join(file)) else {
            continue;
        };
        let record: Value = serde_json::from_slice(&record).unwrap();
        pids.insert(record["process"]["pid"].as_u64().unwrap() as u32);
    }
    pids
}

/// The second process of a mount, which each of the first's threads may have started.
async fn second(first: u32) -> u32 {
    let children = || {
        let threads = fs::read_dir(format!("/proc/{first}/task"))
            .unwrap()
            .flatten();
        let children =
            threads.flat_map(|thread| fs::read_to_string(thread.path().join("children")));
        let children: String = children.collect();
        children
            .split_whitespace()
            .next()
            .map(|pid| pid.parse().unwrap())
    };
    until("a second process", || children().is_some()).await;
    children().unwrap()
}

fn kill(pids: &[u32]) {
    for pid in pids {
        signal(*pid, "KILL");
    }
}

/// Blocks that a node has cached.
fn blocks(local: &Local, node: usize) -> usize {
    fn count(dir: &Path) -> usize {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let entries = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
            true => count(&entry.path()),
            // `<slice>_<block>_<size>`, and when it is whole.
            false => usize::from(entry.file_name().to_str().unwrap().split('_').count() == 3),
        });
        entries.sum()
    }
    count(&local.dir.join(format!("nodes/node-{node}/cache{CACHE}")))
}

async fn read(pods: &Pods, name: &str, path: &str) -> String {
    pods.exec(name, &["timeout", "20", "cat", path]).await.0
}

#[tokio::test]
async fn nodes_have_a_mount_and_a_cache_each() {
    let redis = start_redis();
    let local = Local::start(&["--nodes", "2"]);
    let client = local.client().await;
    make_volume(&client, &redis, &redis.metaurl(0)).await;
    let pods = local.pods().await;
    // The cache runtime server has the cache directory of its node.
    let mut writer = with_data("writer", 0, STAYS);
    writer["spec"]["volumes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "cache", "hostPath": {"path": CACHE, "type": "DirectoryOrCreate"}}));
    writer["spec"]["containers"][0]["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "cache", "mountPath": "/cache"}));
    pods.create(writer).await;
    pods.phase("writer", "Running").await;
    let write = "echo hello > /data/a; id -u > /data/owner";
    assert!(pods.exec("writer", &["sh", "-c", write]).await.1);
    pods.create(with_data("neighbour", 0, STAYS)).await;
    pods.create(with_data("distant", 1, STAYS)).await;
    for name in ["neighbour", "distant"] {
        pods.phase(name, "Running").await;
        assert_eq!(read(&pods, name, "/data/a").await, "hello\n");
        assert_eq!(read(&pods, name, "/ro/a").await, "hello\n");
        assert!(!pods.exec(name, &["touch", "/ro/b"]).await.1);
    }
    assert_eq!(served(&local).len(), 2, "one mount on each node");
    let driver: Api<CSIDriver> = Api::all(client);
    driver.get("csi.juicefs.com").await.unwrap();

    until("the cache of node-1", || blocks(&local, 1) > 0).await;
    let of_own = blocks(&local, 0);
    let find = "find /cache -name '*_*_*' | wc -l";
    let (shown, _) = pods.exec("writer", &["sh", "-c", find]).await;
    assert_eq!(shown.trim(), of_own.to_string(), "it is the node's own");
    assert!(!Path::new(CACHE).exists(), "nothing is cached outside");

    for name in ["writer", "neighbour"] {
        assert_eq!(served(&local).len(), 2, "it stays while a pod uses it");
        pods.delete(name).await;
    }
    assert_eq!(served(&local).len(), 1, "it goes with the last pod");
    assert_eq!(read(&pods, "distant", "/data/a").await, "hello\n");
    pods.delete("distant").await;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(local.dir.to_str().unwrap()), "{mounts}");
}

#[tokio::test]
async fn a_cache_runtime_server_needs_no_powers() {
    let redis = start_redis();
    let local = Local::start(&[]);
    make_volume(&local.client().await, &redis, &redis.metaurl(0)).await;
    let pods = local.pods().await;
    let text = "set -ex; mkdir /data/d; echo hello > /data/d/a; cat /data/d/a; \
                juicefs warmup /data/d; juicefs warmup --check /data/d; juicefs info -r /data; \
                grep blockcache_bytes /data/.stats; juicefs warmup --evict /data/d; \
                juicefs rmr --skip-trash /data/d; [ ! -e /data/d ]; paddle-operator --version";
    let mut pod = with_data("runtime", 0, text);
    pod["spec"]["containers"][0]["image"] = json!(RUNTIME_IMAGE);
    pod["spec"]["containers"][0]["securityContext"] = json!({
        "runAsUser": 0,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    let (phase, log) = pods.run(pod).await;
    assert_eq!(phase, "Succeeded", "{log}");
    assert!(log.contains("100.0%"), "{log}");
    // It has ended, so the volume is not used any more.
    until("it is unmounted", || served(&local).is_empty()).await;
}

#[tokio::test]
async fn a_killed_mount_comes_back_for_pods_that_run() {
    let redis = start_redis();
    let local = Local::start(&[]);
    make_volume(&local.client().await, &redis, &redis.metaurl(0)).await;
    let pods = local.pods().await;
    pods.create(with_data("reader", 0, STAYS)).await;
    pods.phase("reader", "Running").await;
    assert!(
        pods.exec("reader", &["sh", "-c", "echo hello > /data/a"])
            .await
            .1
    );
    for round in 0..3 {
        let first: Vec<u32> = served(&local).into_iter().collect();
        let second = second(first[0]).await;
        match round {
            0 => kill(&first),
            1 => kill(&[second]),
            _ => kill(&[first[0], second]),
        }
        // JuiceFS itself replaces its second process.
        if round != 1 {
            until("another process", || {
                let now = served(&local);
                !now.is_empty() && now.iter().all(|pid| !first.contains(pid))
            })
            .await;
        }
        let begin = Instant::now();
        for path in ["/data/a", "/ro/a"] {
            while read(&pods, "reader", path).await != "hello\n" {
                assert!(begin.elapsed() < Duration::from_secs(30), "{path} {round}");
            }
        }
        assert!(pods.exec("reader", &["touch", "/data/a"]).await.1);
        assert!(!pods.exec("reader", &["touch", "/ro/a"]).await.1, "{round}");
    }
    let pod = pods.0.get("reader").await.unwrap();
    assert_eq!(container(&pod).restart_count, 0);
    let log = pods.say("after", "echo done").await;
    assert_eq!(log, "done\n");
}

#[tokio::test]
async fn mounts_outlive_the_main_process() {
    let redis = start_redis();
    let mut local = Local::start(&["--nodes", "2"]);
    let client = local.client().await;
    make_volume(&client, &redis, &redis.metaurl(0)).await;
    let nodes: Api<Node> = Api::all(client);
    let label = json!({"metadata": {"labels": {"paddlepaddle.org/juicefs-default.data": "x"}}});
    let patch = Patch::Merge(&label);
    nodes
        .patch("node-1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let pods = local.pods().await;
    let reads = "trap 'exit 0' TERM; echo hello > /data/a; \
                 while sleep 0.05; do cat /data/a || exit 3; done";
    pods.create(with_data("reader", 1, reads)).await;
    pods.phase("reader", "Running").await;
    let before = served(&local);
    assert_eq!(before.len(), 1);
    local.kill();
    let log = local.pod_folder().join("containers/main/0/log");
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let at_death = lines();
    until("it reads on", || lines() > at_death + 5).await;
    local.run();
    let pods = local.pods().await;
    let pod = pods.phase("reader", "Running").await;
    assert_eq!(container(&pod).restart_count, 0);
    assert_eq!(served(&local), before, "the same process");
    let nodes: Api<Node> = Api::all(local.client().await);
    let node = nodes.get("node-1").await.unwrap();
    let labels = node.metadata.labels.unwrap();
    assert!(labels.contains_key("paddlepaddle.org/juicefs-default.data"));
    // Found again, it is still looked after.
    let first: Vec<u32> = before.iter().copied().collect();
    let second = second(first[0]).await;
    pods.create(with_data("other", 1, STAYS)).await;
    pods.phase("other", "Running").await;
    kill(&[first[0], second]);
    until("another process", || {
        let now = served(&local);
        !now.is_empty() && now.is_disjoint(&before)
    })
    .await;
    let begin = Instant::now();
    while read(&pods, "other", "/data/a").await != "hello\n" {
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
    // What runs and reads is ended with the nodes, and leaves nothing.
    local.stop();
    assert_eq!(local.leftovers(), Vec::<String>::new());
    assert!(served(&local).is_empty());
}
