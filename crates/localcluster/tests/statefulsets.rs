//! StatefulSets are kept.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use localcluster::control::Loop;
use serde_json::{Value, json};
use support::{Cluster, delete, patch, patch_status, until};

const LOOPS: &[Loop] = &[Loop::StatefulSets];

fn web(policy: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "serviceName": "web-service", "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": "kept"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        },
    })
}

async fn names(pods: &Api<Pod>) -> Vec<String> {
    let pods = pods.list(&ListParams::default()).await.unwrap();
    pods.iter().map(ResourceExt::name_any).collect()
}

async fn has_names(pods: &Api<Pod>, wanted: &[&str]) {
    until(&format!("there are {wanted:?}"), || async {
        names(pods).await == wanted
    })
    .await;
}

/// What a node agent would say of it.
async fn make_ready(pods: &Api<Pod>, name: &str) {
    let ready = json!({
        "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    patch_status(
        pods,
        name,
        json!({"phase": "Running", "conditions": [ready]}),
    )
    .await;
}

async fn has_status(sets: &Api<StatefulSet>, wanted: [i32; 4]) {
    until(
        &format!("replicas, ready, current, updated are {wanted:?}"),
        || async {
            let set = sets.get("web").await.unwrap();
            let generation = set.metadata.generation;
            let status = set.status.unwrap();
            let counts = [
                status.ready_replicas,
                status.current_replicas,
                status.updated_replicas,
            ];
            let counts = [Some(status.replicas)].into_iter().chain(counts);
            status.observed_generation == generation
                && counts.map(Option::unwrap_or_default).eq(wanted)
        },
    )
    .await;
}

#[tokio::test]
async fn a_set_grows_changes_and_shrinks() {
    let mut cluster = Cluster::new("sets-life", LOOPS).await;
    let (sets, pods) = (cluster.here::<StatefulSet>(), cluster.here::<Pod>());
    cluster.create::<StatefulSet>(web("OrderedReady")).await;
    has_names(&pods, &["web-0"]).await;
    make_ready(&pods, "web-0").await;
    has_names(&pods, &["web-0", "web-1"]).await;
    has_status(&sets, [2, 1, 2, 2]).await;
    make_ready(&pods, "web-1").await;
    has_status(&sets, [2, 2, 2, 2]).await;

    let pod = pods.get("web-1").await.unwrap();
    let revision = sets
        .get("web")
        .await
        .unwrap()
        .status
        .unwrap()
        .update_revision
        .unwrap();
    for (label, value) in [
        ("app", "web"),
        ("statefulset.kubernetes.io/pod-name", "web-1"),
        ("apps.kubernetes.io/pod-index", "1"),
        ("controller-revision-hash", &revision),
    ] {
        assert_eq!(
            pod.labels().get(label).map(String::as_str),
            Some(value),
            "{label}"
        );
    }
    assert_eq!(
        pod.annotations().get("note").map(String::as_str),
        Some("kept")
    );
    assert_eq!(pod.owner_references().first().unwrap().name, "web");
    let spec = pod.spec.unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("web-1"));
    assert_eq!(spec.subdomain.as_deref(), Some("web-service"));
    let volume = spec
        .volumes
        .unwrap()
        .into_iter()
        .find(|volume| volume.name == "data");
    let claim = volume.unwrap().persistent_volume_claim.unwrap().claim_name;
    assert_eq!(claim, "data-web-1");
    let claims = cluster.here::<PersistentVolumeClaim>();
    assert_eq!(
        claims
            .get(&claim)
            .await
            .unwrap()
            .labels()
            .get("app")
            .unwrap(),
        "web"
    );

    // A new template: the last pod first, the first when that is ready.
    cluster.restart(LOOPS).await;
    let uid = |name: &'static str| {
        let pods = pods.clone();
        async move { pods.get_opt(name).await.unwrap().and_then(|pod| pod.uid()) }
    };
    let before = (uid("web-0").await, uid("web-1").await);
    let container = json!([{"name": "c", "image": "i:2"}]);
    patch(
        &sets,
        "web",
        json!({"spec": {"template": {"spec": {"containers": container}}}}),
    )
    .await;
    until("web-1 is another", || async {
        let now = uid("web-1").await;
        now.is_some() && now != before.1
    })
    .await;
    has_status(&sets, [2, 1, 1, 1]).await;
    assert_eq!(uid("web-0").await, before.0);
    make_ready(&pods, "web-1").await;
    until("web-0 is another", || async {
        let now = uid("web-0").await;
        now.is_some() && now != before.0
    })
    .await;
    make_ready(&pods, "web-0").await;
    has_status(&sets, [2, 2, 2, 2]).await;
    let status = sets.get("web").await.unwrap().status.unwrap();
    assert_eq!(status.current_revision, status.update_revision);
    assert_ne!(status.current_revision, Some(revision));

    // One that has failed is replaced.
    let failed = uid("web-1").await;
    patch_status(&pods, "web-1", json!({"phase": "Failed"})).await;
    until("web-1 is another", || async {
        let now = uid("web-1").await;
        now.is_some() && now != failed
    })
    .await;
    make_ready(&pods, "web-1").await;

    patch(&sets, "web", json!({"spec": {"replicas": 0}})).await;
    has_names(&pods, &[]).await;
    has_status(&sets, [0, 0, 0, 0]).await;
    assert_eq!(
        claims
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}

#[tokio::test]
async fn in_parallel_all_come_at_once() {
    let cluster = Cluster::new("sets-parallel", LOOPS).await;
    let pods = cluster.here::<Pod>();
    cluster.create::<StatefulSet>(web("Parallel")).await;
    has_names(&pods, &["web-0", "web-1"]).await;
    delete(&pods, "web-0").await;
    has_names(&pods, &["web-0", "web-1"]).await;
}
