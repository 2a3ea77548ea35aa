//! The guide to the cache component, from "prepare Redis" to its last command. Only the
//! addresses and the source differ, and that Redis and the source ask for keys.

use std::path::Path;
use std::sync::{Arc, Mutex};

use api::{PaddleJob, SampleJobPhase, SampleSet, SampleSetPhase};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinHandle;

use crate::bed::{Bed, NAMESPACE, fill, until};

/// As large as in the guide: 58 MiB of `demo`, and with `train` 100 MiB.
pub fn imagenet(bucket: &Path) {
    let (folder, file) = (bucket.join("imagenet"), 256 << 10);
    fill(&folder.join("demo/n01514859"), 232, file);
    fill(&folder.join("train/n01440764"), 168, file);
    let list = "n01440764/0000.JPEG 0\n";
    std::fs::write(folder.join("train_list.txt"), list).unwrap();
    // A folder without '/' at its end is not the prefix of another one.
    fill(&folder.join("demonstration"), 1, file);
    std::fs::rename(folder.join("demonstration"), bucket.join("imagenet2")).unwrap();
}

const IMAGENET: &str = "
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata:
  name: imagenet
  namespace: paddle-system
spec:
  # 分区数，一个Kubernetes节点表示一个分区
  partitions: 1
  source:
    uri: bos://paddleflow-public.hkg.bcebos.com/imagenet/demo
  secretRef:
    name: imagenet
";

const RMR: &str = "
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata:
  name: imagenet-rmr
  namespace: paddle-system
spec:
  type: rmr
  sampleSetRef:
    name: imagenet
  rmrOptions:
    paths:
      - n01514859
";

const SYNC: &str = "
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata:
  name: imagenet-sync
  namespace: paddle-system
spec:
  type: sync
  sampleSetRef:
    name: imagenet
  # sync job 需要填写 secret 信息
  secretRef:
    name: imagenet
  syncOptions:
    source: bos://paddleflow-public.hkg.bcebos.com/imagenet
";

const CLEAR: &str = "
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata:
  name: imagenet-clear
  namespace: paddle-system
spec:
  type: clear
  sampleSetRef:
    name: imagenet
";

const WARMUP: &str = "
apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata:
  name: imagenet-warmup
  namespace: paddle-system
spec:
  type: warmup
  sampleSetRef:
    name: imagenet
";

const PS_DEMO: &str = "
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: ps-demo
  namespace: paddle-system
spec:
  sampleSetRef:
    # 申明要使用的 SampleSet
    name: imagenet
    # SampleSet 样本数据集在 Worker Pods 的挂载路径
    mountPath: /mnt/imagenet
  worker:
    replicas: 1
    template:
      spec:
        containers:
          - name: sample
            image: nginx
  ps:
    replicas: 1
    template:
      spec:
        containers:
          - name: sample
            image: nginx
";

/// The phases that a set goes through.
struct Phases {
    seen: Arc<Mutex<Vec<SampleSetPhase>>>,
    task: JoinHandle<()>,
}

impl Phases {
    fn watch(bed: &Bed) -> Phases {
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&seen);
        let stream = watcher(bed.api::<SampleSet>(), watcher::Config::default());
        let task = tokio::spawn(async move {
            let changes = stream.applied_objects().into_stream();
            changes
                .for_each(|set| {
                    let phase = set.unwrap().status.and_then(|status| status.phase);
                    let mut seen = noted.lock().unwrap();
                    if let Some(phase) = phase.filter(|phase| seen.last() != Some(phase)) {
                        seen.push(phase);
                    }
                    std::future::ready(())
                })
                .await;
        });
        Phases { seen, task }
    }

    /// Those since the last time.
    fn take(&self) -> Vec<SampleSetPhase> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Drop for Phases {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until `kubectl get sampleset imagenet` prints these sizes; what else it prints
/// is always the same.
async fn prints(bed: &Bed, total: &str, cached: &str) {
    let mut row = Vec::new();
    until(&format!("imagenet {total} {cached} Ready"), async || {
        row = bed.printed("samplesets", "imagenet").await;
        let cells: Vec<&str> = row.iter().map(|(_, cell)| cell.as_str()).collect();
        matches!(cells[..], ["imagenet", t, c, _, "1/1", "Ready", _] if (t, c) == (total, cached))
    })
    .await;
    let heads: Vec<&str> = row.iter().map(|(head, _)| head.as_str()).collect();
    let wanted = [
        "NAME",
        "TOTAL SIZE",
        "CACHED SIZE",
        "AVAIL SPACE",
        "RUNTIME",
        "PHASE",
        "AGE",
    ];
    assert_eq!(heads, wanted);
    let available = &row[3].1;
    assert!(available.ends_with("iB"), "{available}");
}

/// Creates a SampleJob, waits until it is done, and looks at what is printed.
async fn does(bed: &Bed, name: &str, yaml: &str) {
    bed.create_yaml(yaml).await;
    bed.job_is(name, SampleJobPhase::Succeeded).await;
    let printed = bed.printed("samplejobs", name).await;
    let cells: Vec<(&str, &str)> = printed
        .iter()
        .map(|(head, cell)| (head.as_str(), cell.as_str()))
        .collect();
    assert_eq!(cells, [("NAME", name), ("PHASE", "Succeeded")]);
}

#[tokio::test]
async fn the_guide_works_from_redis_to_the_last_command() {
    let bed = Bed::start(2, imagenet).await;
    let at_bos = "bos://paddleflow-public.hkg.bcebos.com/imagenet";
    let at_s3 = bed.s3.folder("imagenet");
    bed.create(bed.secret("imagenet", (0, 1))).await;

    let phases = Phases::watch(&bed);
    bed.create_yaml(&IMAGENET.replace(at_bos, &at_s3)).await;
    prints(&bed, "58 MiB", "58 MiB").await;
    use SampleSetPhase::{Bound, Mount, PartialReady, Ready, Syncing};
    assert_eq!(phases.take(), [Bound, Mount, Syncing, PartialReady, Ready]);
    let pods = bed.pods();
    let pod = pods.phase("imagenet-runtime-0", "Running").await;
    let node = pod.spec.unwrap().node_name.unwrap();
    let nodes = Api::<Node>::all(bed.client.clone());
    let label = format!("paddlepaddle.org/juicefs-{NAMESPACE}.imagenet");
    let labels = nodes.get(&node).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels[&label], "imagenet-runtime-0");

    does(&bed, "imagenet-rmr", RMR).await;
    prints(&bed, "4.0 KiB", "0 B").await;
    does(&bed, "imagenet-sync", &SYNC.replace(at_bos, &at_s3)).await;
    prints(&bed, "100 MiB", "100 MiB").await;
    does(&bed, "imagenet-clear", CLEAR).await;
    prints(&bed, "100 MiB", "0 B").await;
    does(&bed, "imagenet-warmup", WARMUP).await;
    prints(&bed, "100 MiB", "100 MiB").await;

    bed.create_yaml(PS_DEMO).await;
    pods_run(&bed).await;
    let listed = pods
        .exec("ps-demo-worker-0", &["ls", "/mnt/imagenet"])
        .await;
    assert_eq!(listed, ("demo\ntrain\ntrain_list.txt\n".to_owned(), true));
    let list = "/mnt/imagenet/train_list.txt";
    let read = pods.exec("ps-demo-worker-0", &["cat", list]).await;
    assert_eq!(read, ("n01440764/0000.JPEG 0\n".to_owned(), true));
    let worker = pods.0.get("ps-demo-worker-0").await.unwrap();
    assert_eq!(worker.spec.unwrap().node_name.unwrap(), node);

    // A set that is in use stays until it is not.
    bed.delete::<SampleSet>("imagenet").await;
    bed.set_says("imagenet", "ps-demo").await;
    bed.delete::<PaddleJob>("ps-demo").await;
    bed.gone::<SampleSet>("imagenet").await;
    bed.gone::<PersistentVolumeClaim>("imagenet").await;
    let volumes = Api::<PersistentVolume>::all(bed.client.clone());
    assert_eq!(volumes.list(&Default::default()).await.unwrap().items, []);
    let labels = nodes.get(&node).await.unwrap().metadata.labels.unwrap();
    assert!(!labels.contains_key(&label));

    // The data stayed.
    let without_sync = IMAGENET.replace("  source:\n", "  noSync: true\n  source:\n");
    bed.create_yaml(&without_sync).await;
    prints(&bed, "100 MiB", "100 MiB").await;
    bed.end().await;
}

async fn pods_run(bed: &Bed) {
    until("ps-demo runs", async || {
        let printed = bed.printed("paddlejobs", "ps-demo").await;
        let cells: Vec<(&str, &str)> = printed
            .iter()
            .map(|(head, cell)| (head.as_str(), cell.as_str()))
            .collect();
        matches!(
            cells[..],
            [
                ("NAME", "ps-demo"),
                ("STATUS", "Running"),
                ("MODE", "PS"),
                ("AGE", _)
            ]
        )
    })
    .await;
}
