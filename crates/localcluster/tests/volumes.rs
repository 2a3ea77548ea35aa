//! Claims are bound to volumes, and neither goes while it is in use.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use localcluster::control::Loop;
use serde_json::{Value, json};
use support::{Cluster, delete, is_gone, until};

const LOOPS: &[Loop] = &[Loop::Volumes];

fn volume(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/nowhere"},
    }})
}

fn claim(name: &str, volume: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }})
}

async fn claim_is(claims: &Api<PersistentVolumeClaim>, name: &str, phase: &str) {
    until(&format!("the claim {name} is {phase}"), || async {
        let status = claims.get(name).await.unwrap().status.unwrap();
        status.phase.as_deref() == Some(phase)
    })
    .await;
}

async fn volume_is(volumes: &Api<PersistentVolume>, name: &str, phase: &str) {
    until(&format!("the volume {name} is {phase}"), || async {
        let status = volumes.get(name).await.unwrap().status.unwrap();
        status.phase.as_deref() == Some(phase)
    })
    .await;
}

#[tokio::test]
async fn a_claim_is_bound_kept_and_released() {
    let mut cluster = Cluster::new("volumes-life", LOOPS).await;
    let claims = cluster.here::<PersistentVolumeClaim>();
    let volumes = cluster.all::<PersistentVolume>();
    let pods = cluster.here::<Pod>();
    cluster
        .create::<PersistentVolumeClaim>(claim("keep", ""))
        .await;
    until("it is told that it waits", || async {
        let events = cluster
            .here::<Event>()
            .list(&ListParams::default())
            .await
            .unwrap();
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("FailedBinding"))
    })
    .await;
    cluster
        .create_global::<PersistentVolume>(volume("retained", "Retain"))
        .await;
    claim_is(&claims, "keep", "Bound").await;
    volume_is(&volumes, "retained", "Bound").await;
    let bound = claims.get("keep").await.unwrap();
    assert_eq!(bound.spec.unwrap().volume_name.as_deref(), Some("retained"));
    assert!(
        bound
            .status
            .unwrap()
            .capacity
            .unwrap()
            .contains_key("storage")
    );

    cluster
        .create_global::<PersistentVolume>(volume("deleted", "Delete"))
        .await;
    cluster
        .create::<PersistentVolumeClaim>(claim("drop", "deleted"))
        .await;
    claim_is(&claims, "drop", "Bound").await;

    // A pod keeps the claim, the claim keeps the volume.
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "keep"}});
    let spec = json!({
        "nodeName": "n", "volumes": [volume], "containers": [{"name": "c", "image": "i:1"}],
    });
    cluster
        .create::<Pod>(json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    delete(&claims, "keep").await;
    delete(&claims, "drop").await;
    delete(&volumes, "retained").await;
    until("what nobody uses is gone", || async {
        is_gone(&claims, "drop").await && is_gone(&volumes, "deleted").await
    })
    .await;
    assert!(!is_gone(&claims, "keep").await);
    cluster.restart(LOOPS).await;
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    until("all is gone", || async {
        is_gone(&claims, "keep").await && is_gone(&volumes, "retained").await
    })
    .await;
}

#[tokio::test]
async fn a_volume_that_is_retained_waits_for_its_admin() {
    let cluster = Cluster::new("volumes-retained", LOOPS).await;
    let claims = cluster.here::<PersistentVolumeClaim>();
    let volumes = cluster.all::<PersistentVolume>();
    cluster
        .create_global::<PersistentVolume>(volume("v", "Retain"))
        .await;
    volume_is(&volumes, "v", "Available").await;
    cluster
        .create::<PersistentVolumeClaim>(claim("c", ""))
        .await;
    volume_is(&volumes, "v", "Bound").await;
    delete(&claims, "c").await;
    volume_is(&volumes, "v", "Released").await;
    cluster
        .create::<PersistentVolumeClaim>(claim("c", ""))
        .await;
    claim_is(&claims, "c", "Pending").await;
    let freed = json!({"spec": {"claimRef": null}});
    support::patch(&volumes, "v", freed).await;
    claim_is(&claims, "c", "Bound").await;
}
