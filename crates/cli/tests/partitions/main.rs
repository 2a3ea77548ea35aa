//! Each node holds what its worker is going to read: with the real Paddle, the real
//! JuiceFS, a Redis for its metadata and an S3 server for its blocks.
//!
//! `PADDLE_OPERATOR_TEST_FILES` says of how many files; by default they are few enough
//! for every run.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test may fail, and says what it measured"
)]

mod data;
mod volume;

#[path = "../common/installed.rs"]
mod installed;
#[path = "../common/servers.rs"]
#[expect(dead_code, reason = "the tests of the data path use all of it")]
mod servers;
#[expect(dead_code, reason = "the tests of local mode use all of it")]
#[path = "../local/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::{PaddleJob, SampleJob, SampleSet};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, LogParams, PostParams};
use serde_json::{Value, json};

use data::{Expected, blocks, expected, slices};
use support::{Local, Pods, repository};
use volume::Servers;

/// For anything, with all files, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
const PARTITIONS: usize = 4;
/// Of the data loader, and so of the warmup.
const BATCH: usize = 8;

/// Reads a data set as a training does, and says what it read: the number in each file.
const READER: &str = "
import hashlib, os, paddle

class Files(paddle.io.Dataset):
    def __init__(self, root):
        found = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names]
        self.files = sorted(found, key=os.fsencode)
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        with open(self.files[index], 'rb') as file:
            # What the kernel itself remembers of the file shall not help.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return int.from_bytes(file.read()[:4], 'big')

files = Files('/data')
sampler = paddle.io.DistributedBatchSampler(files, int(os.environ['BATCH']), shuffle=True)
read = [n for batch in paddle.io.DataLoader(files, batch_sampler=sampler) for n in batch.tolist()]
print('files', len(files), 'read', len(read))
print('sha256=' + hashlib.sha256(repr(read).encode()).hexdigest())
";

/// They end in this order: mounts that lose their servers would take their time.
struct World {
    local: Local,
    servers: Servers,
}

/// The objects of the default namespace.
struct Objects {
    sets: Api<SampleSet>,
    operations: Api<SampleJob>,
    jobs: Api<PaddleJob>,
    secrets: Api<Secret>,
    pods: Pods,
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until the status of an object has a phase, and not another one that is an end.
async fn phase<K>(api: &Api<K>, name: &str, wanted: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let begin = Instant::now();
    loop {
        let object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        let now = object["status"]["phase"].as_str().unwrap_or_default();
        if now == wanted {
            return;
        }
        let is_over = ["Failed", "SyncFailed", "Completed", "Succeeded"].contains(&now);
        assert!(
            !is_over && begin.elapsed() < PATIENCE,
            "{name} is {now:?}, not {wanted}: {:#}",
            object["status"]
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Objects {
    async fn of(local: &Local) -> Objects {
        let client: Client = local.client().await;
        Objects {
            sets: Api::default_namespaced(client.clone()),
            operations: Api::default_namespaced(client.clone()),
            jobs: Api::default_namespaced(client.clone()),
            secrets: Api::default_namespaced(client),
            pods: local.pods().await,
        }
    }

    /// Makes the set, and waits until it is synced and warm.
    async fn make_set(&self, source: &str, servers: &Servers) {
        create(&self.secrets, servers.secret("images")).await;
        let set = json!({
            "metadata": {"name": "images"},
            "spec": {
                "partitions": PARTITIONS,
                "source": {"uri": format!("file://{source}")},
                "secretRef": {"name": "images"},
                "warmup": {"strategyName": "random", "sampler": {"batchSize": BATCH}},
                // The disk of a machine that builds may be rather full.
                "csi": {"driver": "juicefs", "juiceFSMountOptions": {"free-space-ratio": "0.01"}},
            },
        });
        create(&self.sets, with_kind(set, "v1alpha1", "SampleSet")).await;
        phase(&self.sets, "images", "Ready").await;
    }

    /// Trains one epoch: what each rank read.
    async fn train(&self, name: &str) -> Vec<String> {
        let job = json!({
            "metadata": {"name": name},
            "spec": {
                "cleanPodPolicy": "Never",
                "sampleSetRef": {"name": "images", "mountPath": "/data"},
                "worker": {"replicas": PARTITIONS, "template": {"spec": {"containers": [{
                    "name": "paddle",
                    "image": "registry.baidubce.com/paddle-operator/demo-resnet:v1",
                    "command": ["python", "-c", READER],
                    "env": [{"name": "BATCH", "value": BATCH.to_string()}],
                }]}}},
            },
        });
        create(&self.jobs, with_kind(job, "v1", "PaddleJob")).await;
        phase(&self.jobs, name, "Completed").await;
        let mut read = Vec::new();
        for rank in 0..PARTITIONS {
            let wanted = LogParams {
                container: Some("paddle".to_owned()),
                ..LogParams::default()
            };
            let pod = format!("{name}-worker-{rank}");
            let log = self.pods.0.logs(&pod, &wanted).await.unwrap();
            let hash = log.lines().find_map(|line| line.strip_prefix("sha256="));
            read.push(hash.unwrap_or_else(|| panic!("{pod}: {log}")).to_owned());
        }
        read
    }

    async fn node(&self, pod: &str) -> String {
        let pod = self.pods.0.get(pod).await.unwrap();
        pod.spec.unwrap().node_name.unwrap()
    }

    async fn cached_size(&self) -> String {
        let set = self.sets.get("images").await.unwrap();
        let cache = set.status.and_then(|status| status.cache_status);
        cache
            .and_then(|cache| cache.cached_size)
            .unwrap_or_default()
    }
}

fn with_kind(mut object: Value, version: &str, kind: &str) -> Value {
    object["apiVersion"] = json!(format!("batch.paddlepaddle.org/{version}"));
    object["kind"] = json!(kind);
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_read_what_their_nodes_hold() {
    let images = repository().join("images.yaml");
    let nodes = PARTITIONS.to_string();
    let local = Local::start(&["--nodes", &nodes, "--images", images.to_str().unwrap()]);
    let objects = Objects::of(&local).await;
    let servers = Servers::start(&local.dir).await;
    let World { local, servers } = &World { local, servers };
    let files = data::number_of_files();
    let source = data::make(files);
    let begin = Instant::now();
    let path = format!("{}/", source.path().display());
    objects.make_set(&path, servers).await;
    eprintln!(
        "{files} files are synced and warm after {:?}",
        begin.elapsed()
    );

    let expected = expected(files, PARTITIONS, BATCH);
    let slices = slices(&servers.dump());
    assert_eq!(slices.len(), files);
    for (rank, Expected { indices, .. }) in expected.iter().enumerate() {
        let node = objects.node(&format!("images-runtime-{rank}")).await;
        let of_files = indices.iter().flat_map(|index| &slices[*index]);
        let wanted: BTreeSet<u64> = of_files.copied().collect();
        let held = blocks(&local.dir, &node);
        let (more, less) = (held.difference(&wanted), wanted.difference(&held));
        let (more, less) = (more.count(), less.count());
        assert_eq!(
            (more, less),
            (0, 0),
            "partition {rank} on {node} has too many, and too few"
        );
    }

    let before = servers.gets();
    assert!(
        before >= files,
        "{before} reads of the S3 server for {files} files"
    );
    let begin = Instant::now();
    let read = objects.train("warm").await;
    eprintln!("an epoch of a warm set: {:?}", begin.elapsed());
    let wanted: Vec<&str> = expected.iter().map(|rank| rank.sha256.as_str()).collect();
    assert_eq!(read, wanted, "each rank reads its share, in Paddle's order");
    assert_eq!(servers.gets(), before, "nothing comes from the S3 server");

    clear(&objects, local).await;
    let begin = Instant::now();
    assert_eq!(objects.train("cold").await, wanted);
    eprintln!("an epoch of a cold set: {:?}", begin.elapsed());
    let gets = servers.gets() - before;
    assert!(
        gets >= files,
        "{gets} reads of the S3 server for {files} files"
    );
}

/// Empties the caches; the status says so soon.
async fn clear(objects: &Objects, local: &Local) {
    let job = json!({
        "metadata": {"name": "clear"},
        "spec": {"type": "clear", "sampleSetRef": {"name": "images"}},
    });
    create(&objects.operations, with_kind(job, "v1alpha1", "SampleJob")).await;
    let is_empty = || {
        let nodes = 0..PARTITIONS;
        nodes
            .into_iter()
            .all(|node| blocks(&local.dir, &format!("node-{node}")).is_empty())
    };
    let begin = Instant::now();
    while !is_empty() {
        assert!(begin.elapsed() < PATIENCE, "blocks are still cached");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let emptied = Instant::now();
    while objects.cached_size().await != "0 B" {
        assert!(begin.elapsed() < PATIENCE, "the status has not followed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!(
        "the status says so {:?} after the caches were empty",
        emptied.elapsed()
    );
    phase(&objects.operations, "clear", "Succeeded").await;
}
