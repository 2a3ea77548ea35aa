//! Pods don't outlive their node.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use k8s_openapi::api::core::v1::{Node, Pod};
use localcluster::control::Loop;
use serde_json::json;
use support::{Cluster, delete, is_gone, until};

#[tokio::test]
async fn pods_go_with_their_node() {
    let cluster = Cluster::new("lost-pods", &[Loop::LostPods]).await;
    let pods = cluster.here::<Pod>();
    for name in ["n-0", "n-1"] {
        cluster
            .create_global::<Node>(json!({"metadata": {"name": name}}))
            .await;
    }
    for (name, node) in [("a", json!("n-0")), ("b", json!("n-1")), ("c", json!(null))] {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i:1"}]});
        cluster
            .create::<Pod>(json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }
    delete(&cluster.all::<Node>(), "n-0").await;
    until("its pod is gone", || is_gone(&pods, "a")).await;
    assert!(!is_gone(&pods, "b").await);
    assert!(!is_gone(&pods, "c").await);
}
