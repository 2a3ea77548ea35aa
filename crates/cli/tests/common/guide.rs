//! The guide to the cache component: what it has one create, and what it shows then. Only
//! the addresses and the source differ, and that Redis and the source ask for keys.

use std::fs;
use std::path::Path;

use crate::shell::Shell;

/// The source of the guide.
const AT_BOS: &str = "bos://paddleflow-public.hkg.bcebos.com/imagenet";

/// Makes files that all differ.
pub fn fill(folder: &Path, count: usize, size: usize) {
    fs::create_dir_all(folder).unwrap();
    for number in 0..count {
        let line = format!("{} {number} ", folder.display());
        let content: Vec<u8> = line.bytes().cycle().take(size).collect();
        fs::write(folder.join(format!("{number:04}.JPEG")), content).unwrap();
    }
}

/// As large as in the guide: 58 MiB of `demo`, and with `train` 100 MiB.
pub fn imagenet(bucket: &Path) {
    let (folder, file) = (bucket.join("imagenet"), 256 << 10);
    fill(&folder.join("demo/n01514859"), 232, file);
    fill(&folder.join("train/n01440764"), 168, file);
    let list = "n01440764/0000.JPEG 0\n";
    fs::write(folder.join("train_list.txt"), list).unwrap();
    // A folder without '/' at its end is not the prefix of another one.
    fill(&folder.join("demonstration"), 1, file);
    fs::rename(folder.join("demonstration"), bucket.join("imagenet2")).unwrap();
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

/// Waits until kubectl prints these sizes.
pub async fn prints(shell: &Shell, total: &str, cached: &str) {
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

/// Creates the set, whose source is elsewhere, and waits until it is ready.
pub async fn create_set(shell: &Shell, source: &str) {
    let yaml = IMAGENET.replace(AT_BOS, source);
    let created = shell.tell("kubectl create -f -", &yaml);
    assert_eq!(
        created,
        "sampleset.batch.paddlepaddle.org/imagenet created\n"
    );
    prints(shell, "58 MiB", "58 MiB").await;
}

/// Creates the set once more, when its data is there already.
pub async fn create_set_again(shell: &Shell) {
    let without_sync = IMAGENET.replace("  source:\n", "  noSync: true\n  source:\n");
    shell.tell("kubectl create -f -", &without_sync);
    prints(shell, "100 MiB", "100 MiB").await;
}

/// The four kinds of SampleJobs, one after the other.
pub async fn try_jobs(shell: &Shell, source: &str) {
    does(shell, "imagenet-rmr", RMR).await;
    prints(shell, "4.0 KiB", "0 B").await;
    does(shell, "imagenet-sync", &SYNC.replace(AT_BOS, source)).await;
    prints(shell, "100 MiB", "100 MiB").await;
    does(shell, "imagenet-clear", CLEAR).await;
    prints(shell, "100 MiB", "0 B").await;
    does(shell, "imagenet-warmup", WARMUP).await;
    prints(shell, "100 MiB", "100 MiB").await;
}

/// A job that has the set mounted, and a look into it.
pub async fn use_set(shell: &Shell) {
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
}
