//! The guide to the cache component, from "prepare Redis" to its last command. Only the
//! addresses and the source differ, and that Redis and the source ask for keys.

use std::path::Path;
use std::sync::{Arc, Mutex};

use api::{PaddleJob, SampleSet, SampleSetPhase};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinHandle;

use crate::bed::{Bed, NAMESPACE, fill, until};
use crate::shell::Shell;

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

    fn seen(&self) -> Vec<SampleSetPhase> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Phases {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until kubectl prints these sizes.
async fn prints(shell: &Shell, total: &str, cached: &str) {
    let shown = format!(
        "NAME       TOTAL SIZE   CACHED SIZE   AVAIL SPACE   RUNTIME   PHASE   AGE\n\
         imagenet   {total:<10}   {cached:<11}   12 GiB        1/1       Ready   76s\n"
    );
    let command = "kubectl get sampleset imagenet -n paddle-system";
    shell.shows(command, &shown).await;
}

/// Creates a SampleJob, and waits until it is done.
async fn does(shell: &Shell, name: &str, yaml: &str) {
    let created = shell.tell("kubectl create -f -", yaml);
    assert_eq!(
        created,
        format!("samplejob.batch.paddlepaddle.org/{name} created\n")
    );
    let width = name.len();
    let shown = format!("{:<width$}   PHASE\n{name}   Succeeded\n", "NAME");
    let command = format!("kubectl get samplejob {name} -n paddle-system");
    shell.shows(&command, &shown).await;
}

#[tokio::test]
async fn the_guide_works_from_redis_to_the_last_command() {
    let bed = Bed::start(2, imagenet).await;
    let at_bos = "bos://paddleflow-public.hkg.bcebos.com/imagenet";
    let at_s3 = bed.s3.folder("imagenet");
    bed.create(bed.secret("imagenet", (0, 1))).await;
    let shell = Shell::of(&bed.local);

    let phases = Phases::watch(&bed);
    let yaml = IMAGENET.replace(at_bos, &at_s3);
    let created = shell.tell("kubectl create -f -", &yaml);
    assert_eq!(
        created,
        "sampleset.batch.paddlepaddle.org/imagenet created\n"
    );
    prints(&shell, "58 MiB", "58 MiB").await;
    use SampleSetPhase::{Bound, Mount, PartialReady, Ready, Syncing};
    until("it is Ready after all other phases", async || {
        phases.seen() == [Bound, Mount, Syncing, PartialReady, Ready]
    })
    .await;
    let shown = "NAME                 READY   STATUS    RESTARTS   AGE\n\
                 imagenet-runtime-0   1/1     Running   0          30s\n";
    shell
        .shows("kubectl get pods -n paddle-system", shown)
        .await;
    let pods = bed.pods();
    let pod = pods.0.get("imagenet-runtime-0").await.unwrap();
    let node = pod.spec.unwrap().node_name.unwrap();
    let nodes = Api::<Node>::all(bed.client.clone());
    let label = format!("paddlepaddle.org/juicefs-{NAMESPACE}.imagenet");
    let labels = nodes.get(&node).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels[&label], "imagenet-runtime-0");

    does(&shell, "imagenet-rmr", RMR).await;
    prints(&shell, "4.0 KiB", "0 B").await;
    does(&shell, "imagenet-sync", &SYNC.replace(at_bos, &at_s3)).await;
    prints(&shell, "100 MiB", "100 MiB").await;
    does(&shell, "imagenet-clear", CLEAR).await;
    prints(&shell, "100 MiB", "0 B").await;
    does(&shell, "imagenet-warmup", WARMUP).await;
    prints(&shell, "100 MiB", "100 MiB").await;

    shell.tell("kubectl create -f -", PS_DEMO);
    let shown = "NAME      STATUS    MODE   AGE\n\
                 ps-demo   Running   PS     112s\n";
    shell
        .shows("kubectl get paddlejob -n paddle-system", shown)
        .await;
    let enter = "kubectl exec -it ps-demo-worker-0 -n paddle-system -- /bin/bash";
    let listed = shell.tell(enter, "ls /mnt/imagenet\n");
    assert_eq!(listed, "demo\ntrain\ntrain_list.txt\n");
    let read = shell.tell(enter, "cat /mnt/imagenet/train_list.txt\n");
    assert_eq!(read, "n01440764/0000.JPEG 0\n");
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
    shell.tell("kubectl create -f -", &without_sync);
    prints(&shell, "100 MiB", "100 MiB").await;
    bed.end().await;
}
