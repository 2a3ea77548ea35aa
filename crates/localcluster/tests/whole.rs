//! The loops together.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use localcluster::control::{self, Loop};
use serde_json::json;
use support::{Cluster, delete, is_gone, patch_status, until};

async fn revision(cluster: &Cluster) -> u64 {
    let list = cluster
        .here::<ConfigMap>()
        .list(&ListParams::default())
        .await
        .unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

async fn node(cluster: &Cluster) {
    cluster
        .create_global::<Node>(json!({"metadata": {"name": "n"}}))
        .await;
    let allocatable = json!({"cpu": "1", "memory": "1Gi", "pods": "10"});
    patch_status(
        &cluster.all::<Node>(),
        "n",
        json!({"allocatable": allocatable}),
    )
    .await;
}

#[tokio::test]
async fn a_set_runs_on_a_volume_and_leaves_nothing_behind() {
    let cluster = Cluster::new("whole", &Loop::ALL).await;
    let pods = cluster.here::<Pod>();
    cluster.create::<StatefulSet>(json!({"metadata": {"name": "web"}, "spec": {
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}],
    }}))
    .await;
    cluster
        .create_global::<PersistentVolume>(json!({"metadata": {"name": "v"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/nowhere"},
        }}))
        .await;
    node(&cluster).await;
    until("the pod has a node", || async {
        let pod = pods.get_opt("web-0").await.unwrap();
        pod.is_some_and(|pod| pod.spec.unwrap().node_name.as_deref() == Some("n"))
    })
    .await;

    delete(&cluster.here::<StatefulSet>(), "web").await;
    until("the pod is going", || async {
        let pod = pods.get("web-0").await.unwrap();
        pod.metadata.deletion_timestamp.is_some()
    })
    .await;
    // Nobody runs it, so it goes with its node.
    delete(&cluster.all::<Node>(), "n").await;
    until("pod, claim and volume are gone", || async {
        is_gone(&pods, "web-0").await
            && is_gone(&cluster.here::<PersistentVolumeClaim>(), "data-web-0").await
            && is_gone(&cluster.all::<PersistentVolume>(), "v").await
    })
    .await;

    let maps = cluster.here::<ConfigMap>();
    until("what is settled is left alone", || async {
        let before = revision(&cluster).await;
        let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
        let meta = json!({"name": "garbage", "ownerReferences": [nobody]});
        cluster.create::<ConfigMap>(json!({"metadata": meta})).await;
        until("the garbage is gone", || is_gone(&maps, "garbage")).await;
        // The only writes are this one and its end.
        revision(&cluster).await == before + 2
    })
    .await;
}

/// Refuses everything once: each method on each path, and discovery as a whole.
fn refuse_once(api: Router) -> Router {
    let seen: Arc<Mutex<HashSet<(Method, String)>>> = Arc::default();
    api.layer(middleware::from_fn(move |request: Request, next: Next| {
        let path = request.uri().path();
        let is_discovery = ["/api", "/apis", "/v1"]
            .iter()
            .any(|end| path.ends_with(end));
        let path = if is_discovery { "discovery" } else { path };
        let what = (request.method().clone(), path.to_owned());
        let is_new = seen.lock().unwrap().insert(what);
        async move {
            match is_new {
                true => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                false => next.run(request).await,
            }
        }
    }))
}

#[tokio::test]
async fn what_fails_is_tried_again() {
    let cluster = Cluster::behind("whole-errors", &Loop::ALL, refuse_once).await;
    let (maps, pods) = (cluster.here::<ConfigMap>(), cluster.here::<Pod>());
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
    let meta = json!({"name": "garbage", "ownerReferences": [nobody]});
    cluster.create::<ConfigMap>(json!({"metadata": meta})).await;
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    cluster
        .create::<Pod>(json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    node(&cluster).await;
    until("both are seen to", || async {
        let pod = pods.get("p").await.unwrap();
        pod.spec.unwrap().node_name.is_some() && is_gone(&maps, "garbage").await
    })
    .await;
}

#[tokio::test]
async fn it_stops_when_told() {
    let cluster = Cluster::new("whole-stop", &[]).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(control::run(cluster.client.clone(), async {
        let _ = stopped.await;
    }));
    stop.send(()).unwrap();
    running.await.unwrap();
}
