//! A namespace that is to end is emptied first.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::Api;
use localcluster::control::Loop;
use serde_json::json;
use support::{Cluster, create, delete, is_gone, patch, until};

const LOOPS: &[Loop] = &[Loop::Namespaces];

async fn condition(namespaces: &Api<Namespace>, name: &str, type_: &str) -> (String, String) {
    let namespace = namespaces.get_opt(name).await.unwrap();
    let status = namespace.and_then(|namespace| namespace.status);
    let conditions = status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition.type_ == type_);
    found
        .map(|found| (found.status, found.message.unwrap_or_default()))
        .unwrap_or_default()
}

#[tokio::test]
async fn it_goes_when_nothing_is_left() {
    let cluster = Cluster::new("namespaces-end", LOOPS).await;
    let namespaces = cluster.all::<Namespace>();
    cluster
        .create_global::<Namespace>(json!({"metadata": {"name": "team"}}))
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "team");
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "team");
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "team");
    cluster
        .create::<ConfigMap>(json!({"metadata": {"name": "ours"}}))
        .await;
    create(&secrets, json!({"metadata": {"name": "a"}})).await;
    create(
        &pods,
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}),
    )
    .await;
    for name in ["a", "b"] {
        let meta = json!({"name": name, "finalizers": ["example.com/held"]});
        create(&maps, json!({"metadata": meta})).await;
    }
    delete(&namespaces, "team").await;
    until("the conditions say what remains", || async {
        let remaining = condition(&namespaces, "team", "NamespaceContentRemaining").await;
        let held = condition(&namespaces, "team", "NamespaceFinalizersRemaining").await;
        remaining
            == (
                "True".to_owned(),
                "Some resources are remaining: configmaps. has 2 resource instances".to_owned(),
            )
            && held
                == (
                    "True".to_owned(),
                    "Some content in the namespace has finalizers remaining: \
                     example.com/held in 2 resource instances"
                        .to_owned(),
                )
    })
    .await;
    for name in ["a", "b"] {
        patch(&maps, name, json!({"metadata": {"finalizers": null}})).await;
    }
    until("the namespace is gone", || is_gone(&namespaces, "team")).await;
    assert!(!is_gone(&cluster.here::<ConfigMap>(), "ours").await);
}

#[tokio::test]
async fn an_end_that_was_interrupted_goes_on() {
    let mut cluster = Cluster::new("namespaces-restart", &[]).await;
    let namespaces = cluster.all::<Namespace>();
    for name in ["empty", "full"] {
        cluster
            .create_global::<Namespace>(json!({"metadata": {"name": name}}))
            .await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "full");
    create(&maps, json!({"metadata": {"name": "a"}})).await;
    delete(&namespaces, "empty").await;
    delete(&namespaces, "full").await;
    assert!(!is_gone(&namespaces, "full").await);
    cluster.restart(LOOPS).await;
    until("both are gone", || async {
        is_gone(&namespaces, "empty").await && is_gone(&namespaces, "full").await
    })
    .await;
}
