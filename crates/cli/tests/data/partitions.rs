//! A set whose number of partitions changes.

use std::collections::BTreeMap;

use api::{SampleSet, SampleSetPhase, SampleSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::bed::{Bed, NAMESPACE, fill, until};

/// The partition that each node holds, by the node's label.
async fn labels(bed: &Bed) -> BTreeMap<String, String> {
    let key = format!("paddlepaddle.org/juicefs-{NAMESPACE}.data");
    let nodes = Api::<Node>::all(bed.client.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let label = |node: Node| {
        let label = node.metadata.labels?.get(&key)?.clone();
        Some((label, node.metadata.name?))
    };
    nodes.into_iter().filter_map(label).collect()
}

/// Waits until all is as it should be with so many partitions.
async fn settles(bed: &Bed, partitions: i32) {
    let is_settled = |status: &SampleSetStatus| {
        let cache = status.cache_status.as_ref();
        status.phase == Some(SampleSetPhase::Ready)
            && cache.is_some_and(|cache| {
                cache.partitions.len() == usize::try_from(partitions).unwrap()
                    && cache.partitions.iter().all(|each| each.percent == Some(100))
                    // Each holds its share and nothing else.
                    && cache.cached_size == Some("1.6 MiB".to_owned())
            })
    };
    let what = format!("Ready with {partitions} partitions");
    let status = bed.set("data", &what, is_settled).await;
    let runtime = status.runtime_status.unwrap();
    assert_eq!(runtime.ready_replicas, Some(partitions));
    let pods = bed.api::<Pod>();
    until("the labels follow", async || {
        let mut wanted = BTreeMap::new();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let node = pod.spec.unwrap().node_name.unwrap_or_default();
            wanted.insert(pod.metadata.name.unwrap(), node);
        }
        wanted.len() == usize::try_from(partitions).unwrap() && labels(bed).await == wanted
    })
    .await;
}

#[tokio::test]
async fn partitions_come_and_go() {
    let bed = Bed::start(4, |bucket| fill(&bucket.join("files"), 100, 16 << 10)).await;
    bed.create_ready_set("data", "files", 2).await;
    settles(&bed, 2).await;
    for partitions in [4, 5, 1] {
        bed.patch::<SampleSet>("data", json!({"spec": {"partitions": partitions}}))
            .await;
        match partitions {
            5 => {
                let says = "each needs one of its own: add nodes (local: --nodes 5)";
                bed.set_says("data", says).await;
            }
            _ => settles(&bed, partitions).await,
        }
    }
    bed.end().await;
}
