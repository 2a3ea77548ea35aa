//! The guide to the cache component, from "prepare Redis" to its last command.

use std::sync::{Arc, Mutex};

use api::{PaddleJob, SampleSet, SampleSetPhase};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinHandle;

use crate::bed::{Bed, NAMESPACE, shell, until};
use crate::guide;

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

#[tokio::test]
async fn the_guide_works_from_redis_to_the_last_command() {
    let bed = Bed::start(2, guide::imagenet).await;
    let source = bed.s3.folder("imagenet");
    bed.create(bed.secret("imagenet", (0, 1))).await;
    let shell = shell(&bed.local);

    let phases = Phases::watch(&bed);
    guide::create_set(&shell, &source).await;
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

    guide::try_jobs(&shell, &source).await;
    guide::use_set(&shell).await;
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
    guide::create_set_again(&shell).await;
    bed.end().await;
}
