//! Volumes of JuiceFS: with the real juicefs and a real Redis, which `make examples`
//! installs.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{
    Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret,
};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Local, Pods, container, script};

const PASSWORD: &str = "pass-of-Redis-81";
/// Where the volume's blocks are cached, on each node.
const CACHE: &str = "/var/lib/juicefs/default.data";
const RUNTIME_IMAGE: &str = concat!(
    "registry.baidubce.com/paddle-operator/runtime:v",
    env!("CARGO_PKG_VERSION")
);

/// Waits for something.
async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A Redis that asks for a password.
struct Redis {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Redis {
    async fn start() -> Redis {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
        let given = std::env::var_os("PADDLE_OPERATOR_CACHE").map(PathBuf::from);
        let redis = given.unwrap_or(cache.join("paddle-operator")).join("redis");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = tempfile::tempdir().unwrap();
        let process = Command::new(redis.join("bin/redis-server"))
            .env("LD_LIBRARY_PATH", redis.join("lib"))
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(port.to_string())
            .args(["--requirepass", PASSWORD])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("make examples installs {redis:?}: {error}"));
        until("Redis answers", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })
        .await;
        Redis {
            process,
            port,
            _dir: dir,
        }
    }

    /// What a Secret says of a volume in it, as `echo … | base64` leaves it.
    fn secret(&self, password: &str) -> Value {
        let port = self.port;
        json!({"stringData": {
            "name": "data\n",
            "storage": "redis\n",
            "bucket": format!("redis://127.0.0.1:{port}/1\n"),
            "metaurl": format!("redis://:{password}@127.0.0.1:{port}/0\n"),
            "secret-key": format!("{PASSWORD}\n"),
        }})
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the Secret, the volume and the claim `data`, as a SampleSet has them.
async fn make_volume(client: &Client, redis: &Redis, password: &str) {
    let mut secret = redis.secret(password);
    secret["metadata"] = json!({"name": "data"});
    let volume = json!({
        "metadata": {"name": "default-data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "data"},
            "mountOptions": [format!("cache-dir={CACHE}"), "cache-size=100", "free-space-ratio=0.01"],
            "csi": {
                "driver": "csi.juicefs.com",
                "volumeHandle": "default-data",
                "nodePublishSecretRef": {"namespace": "default", "name": "data"},
            },
        },
    });
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": "default-data",
        },
    });
    let params = PostParams::default();
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&params, &secret).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = serde_json::from_value(volume).unwrap();
    volumes.create(&params, &volume).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = serde_json::from_value(claim).unwrap();
    claims.create(&params, &claim).await.unwrap();
}

/// A pod on a node that has the volume at `/data`, and read-only at `/ro`.
fn with_data(name: &str, node: usize, text: &str) -> Value {
    let mut pod = script(name, text);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": format!("node-{node}")});
    pod["spec"]["volumes"] = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/ro", "readOnly": true},
    ]);
    pod
}

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
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let killed = Command::new("kill").arg("-9").args(&pids).status().unwrap();
    assert!(killed.success());
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
    pods.exec(name, &["cat", path]).await.0
}

#[tokio::test]
async fn nodes_have_a_mount_and_a_cache_each() {
    let redis = Redis::start().await;
    let local = Local::start(&["--nodes", "2"]);
    let client = local.client().await;
    make_volume(&client, &redis, PASSWORD).await;
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
    let redis = Redis::start().await;
    let local = Local::start(&[]);
    make_volume(&local.client().await, &redis, PASSWORD).await;
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
    let redis = Redis::start().await;
    let local = Local::start(&[]);
    make_volume(&local.client().await, &redis, PASSWORD).await;
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
            // Another takes its place without a gap.
            0 => kill(&first),
            _ => kill(&[first[0], second]),
        }
        until("another process", || {
            let now = served(&local);
            !now.is_empty() && now.iter().all(|pid| !first.contains(pid))
        })
        .await;
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
    let redis = Redis::start().await;
    let mut local = Local::start(&["--nodes", "2"]);
    let client = local.client().await;
    make_volume(&client, &redis, PASSWORD).await;
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
    let log = fs::read_dir(local.dir.join("pods"))
        .unwrap()
        .flatten()
        .next();
    let log = log.unwrap().path().join("containers/main/0/log");
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

/// All that anybody could read of it, but for the Secret itself.
fn everything(local: &Local) -> String {
    let mut text = String::new();
    let mut directories = vec![local.dir.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                // What is mounted has a file that never ends.
                let is_mounted = ["mount", "shared"].iter().any(|name| path.ends_with(name));
                directories.extend(Some(path).filter(|_| !is_mounted));
            } else if !path.ends_with("state.redb") && !path.ends_with("program") {
                text += &String::from_utf8_lossy(&fs::read(path).unwrap_or_default());
            }
        }
    }
    text
}

/// The words of whoever waits for the pod's volume.
async fn complaint(client: &Client, pod: &str) -> String {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let events = events.list(&Default::default()).await.unwrap();
    let mut events = events.into_iter().filter(|event| {
        event.reason.as_deref() == Some("FailedMount")
            && event.involved_object.name.as_deref() == Some(pod)
    });
    events.next().unwrap().message.unwrap()
}

#[tokio::test]
async fn a_wrong_password_is_said_but_not_told() {
    const WRONG: &str = "wrong-pass-of-Redis-82";
    let redis = Redis::start().await;
    let local = Local::start(&[]);
    let client = local.client().await;
    make_volume(&client, &redis, WRONG).await;
    let pods = local.pods().await;
    pods.create(with_data("waits", 0, "cat /data/.config; echo there"))
        .await;
    let is_told = |pod: &Pod| {
        let status = pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        let waiting = statuses.and_then(|all| all[0].state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.message.is_some())
    };
    let pod = pods.until("waits", "told why it waits", is_told).await;
    let said = complaint(&client, "waits").await;
    assert!(
        said.contains("MountVolume.SetUp failed for volume \"data\"")
            && said.contains("password in metaurl"),
        "{said}"
    );
    let told = format!("{said} {pod:?} {}", everything(&local));
    for password in [WRONG, PASSWORD] {
        assert!(!told.contains(password));
    }
    // With the right one it goes on by itself.
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let right = redis.secret(PASSWORD);
    let patch = Patch::Merge(&right);
    secrets
        .patch("data", &PatchParams::default(), &patch)
        .await
        .unwrap();
    pods.phase("waits", "Succeeded").await;
    let told = format!("{} {}", pods.log("waits").await, everything(&local));
    assert!(told.contains("there") && !told.contains(PASSWORD));
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let mut redis = Redis::start().await;
    let local = Local::start(&[]);
    let client = local.client().await;
    make_volume(&client, &redis, PASSWORD).await;
    redis.process.kill().unwrap();
    redis.process.wait().unwrap();
    let pods = local.pods().await;
    let begin = Instant::now();
    pods.create(with_data("waits", 0, "true")).await;
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let is_told = |event: &Event| event.reason.as_deref() == Some("FailedMount");
    while !events
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .any(is_told)
    {
        assert!(begin.elapsed() < Duration::from_secs(30), "it is said soon");
    }
    let said = complaint(&client, "waits").await;
    let server = format!(
        "metaurl of the secret: no Redis answers at 127.0.0.1:{}",
        redis.port
    );
    assert!(said.contains(&server), "{said}");
    pods.delete("waits").await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    secrets.delete("data", &Default::default()).await.unwrap();
    pods.create(with_data("again", 0, "true")).await;
    let begin = Instant::now();
    let of_second =
        |event: &Event| is_told(event) && event.involved_object.name.as_deref() == Some("again");
    while !events
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .any(of_second)
    {
        assert!(begin.elapsed() < Duration::from_secs(30), "it is said soon");
    }
    let said = complaint(&client, "again").await;
    assert!(said.contains("secret default/data not found"), "{said}");
    pods.delete("again").await;
}
