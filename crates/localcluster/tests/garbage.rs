//! What has lost its owners goes, and nothing else.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod support;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Resource, ResourceExt};
use localcluster::control::Loop;
use serde_json::{Value, json};
use support::{Cluster, create, delete, is_gone, patch, until};

const LOOPS: &[Loop] = &[Loop::Garbage];

/// A reference to an owner.
fn owned_by<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    serde_json::to_value(owner.owner_ref(&()).unwrap()).unwrap()
}

fn blocking<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let mut owner = owned_by(owner);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

fn map(name: &str, owners: &[Value]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

async fn held(cluster: &Cluster, name: &str, owners: &[Value]) -> ConfigMap {
    let mut object = map(name, owners);
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.create(object).await
}

async fn let_go(maps: &Api<ConfigMap>, name: &str) {
    let map = maps.get(name).await.unwrap();
    let others = map.finalizers().iter();
    let others: Vec<&String> = others.filter(|one| *one != "example.com/held").collect();
    patch(maps, name, json!({"metadata": {"finalizers": others}})).await;
}

#[tokio::test]
async fn what_is_owned_goes_with_its_last_owner() {
    let cluster = Cluster::new("garbage-last", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    let a: ConfigMap = cluster.create(map("a", &[])).await;
    let b: ConfigMap = cluster.create(map("b", &[])).await;
    let both: ConfigMap = cluster
        .create(map("both", &[owned_by(&a), owned_by(&b)]))
        .await;
    cluster
        .create::<ConfigMap>(map("grandchild", &[owned_by(&both)]))
        .await;
    delete(&maps, "a").await;
    until("the gone owner is not named any more", || async {
        let both = maps.get("both").await.unwrap();
        both.owner_references()
            .iter()
            .all(|owner| owner.name == "b")
    })
    .await;
    delete(&maps, "b").await;
    until("all that was owned is gone", || async {
        is_gone(&maps, "both").await && is_gone(&maps, "grandchild").await
    })
    .await;
}

#[tokio::test]
async fn owners_that_never_were_are_gone() {
    let cluster = Cluster::new("garbage-never", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    cluster
        .create_global::<Namespace>(json!({"metadata": {"name": "other"}}))
        .await;
    let other: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "other");
    let elsewhere: ConfigMap = create(&other, map("elsewhere", &[])).await;
    let namesake: ConfigMap = cluster.create(map("namesake", &[])).await;
    let node: Node = cluster
        .create_global(json!({"metadata": {"name": "n"}}))
        .await;
    let mut former = owned_by(&namesake);
    former["uid"] = json!("another");
    cluster
        .create::<ConfigMap>(map("of-namesake", &[former]))
        .await;
    cluster
        .create::<ConfigMap>(map("of-elsewhere", &[owned_by(&elsewhere)]))
        .await;
    cluster
        .create::<ConfigMap>(map("of-node", &[owned_by(&node)]))
        .await;
    // Nobody can tell whether one of an unknown kind is there.
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "name": "u", "uid": "u"});
    cluster
        .create::<ConfigMap>(map("of-unknown", &[unknown]))
        .await;
    until("those of owners that are not there are gone", || async {
        is_gone(&maps, "of-namesake").await && is_gone(&maps, "of-elsewhere").await
    })
    .await;
    delete(&cluster.all::<Node>(), "n").await;
    until("the node's is gone", || is_gone(&maps, "of-node")).await;
    assert!(!is_gone(&maps, "of-unknown").await);
    assert!(!is_gone(&maps, "namesake").await);
}

#[tokio::test]
async fn in_the_foreground_owners_go_last() {
    let cluster = Cluster::new("garbage-foreground", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    let owner: ConfigMap = cluster.create(map("owner", &[])).await;
    let child = held(&cluster, "child", &[blocking(&owner)]).await;
    held(&cluster, "grandchild", &[blocking(&child)]).await;
    held(&cluster, "beside", &[owned_by(&owner)]).await;
    maps.delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    until("all that is owned is going", || async {
        let all = maps.list(&ListParams::default()).await.unwrap();
        all.iter()
            .filter(|map| map.meta().deletion_timestamp.is_some())
            .count()
            == 4
    })
    .await;
    let_go(&maps, "child").await;
    until("the child waits for its own child only", || async {
        let child = maps.get("child").await.unwrap();
        child.finalizers() == ["foregroundDeletion"]
    })
    .await;
    assert!(!is_gone(&maps, "owner").await);
    let_go(&maps, "grandchild").await;
    until("the owner is gone", || is_gone(&maps, "owner")).await;
    // It did not block.
    assert!(!is_gone(&maps, "beside").await);
}

#[tokio::test]
async fn a_circle_in_the_foreground_is_broken() {
    let cluster = Cluster::new("garbage-circle", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    let a: ConfigMap = cluster.create(map("a", &[])).await;
    let b: ConfigMap = cluster.create(map("b", &[blocking(&a)])).await;
    patch(&maps, "a", map("a", &[blocking(&b)])).await;
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until("both are gone", || async {
        is_gone(&maps, "a").await && is_gone(&maps, "b").await
    })
    .await;
}

#[tokio::test]
async fn orphans_stay() {
    let cluster = Cluster::new("garbage-orphans", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    let owner: ConfigMap = cluster.create(map("owner", &[])).await;
    cluster
        .create::<ConfigMap>(map("child", &[owned_by(&owner)]))
        .await;
    maps.delete("owner", &DeleteParams::orphan()).await.unwrap();
    until("the owner is gone", || is_gone(&maps, "owner")).await;
    let child = maps.get("child").await.unwrap();
    assert!(child.owner_references().is_empty());
    assert!(child.meta().deletion_timestamp.is_none());
}

fn widgets() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

fn widget(name: &str, owners: &[Value]) -> Value {
    let mut object = map(name, owners);
    object["apiVersion"] = json!("example.com/v1");
    object["kind"] = json!("Widget");
    object
}

#[tokio::test]
async fn kinds_come_and_go() {
    let mut cluster = Cluster::new("garbage-kinds", LOOPS).await;
    let maps = cluster.here::<ConfigMap>();
    cluster
        .create_global::<CustomResourceDefinition>(widgets())
        .await;
    let kind = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(cluster.client.clone(), &kind);
    for restarted in [false, true] {
        if restarted {
            cluster.restart(LOOPS).await;
        }
        let owner = create(&widgets, widget("owner", &[])).await;
        let owner = serde_json::to_value(owner.owner_ref(&kind).unwrap()).unwrap();
        cluster
            .create::<ConfigMap>(map("map", std::slice::from_ref(&owner)))
            .await;
        create(&widgets, widget("child", &[owner])).await;
        delete(&widgets, "owner").await;
        until("what the widget owned is gone", || async {
            is_gone(&maps, "map").await && is_gone(&widgets, "child").await
        })
        .await;
    }
    let last = create(&widgets, widget("last", &[])).await;
    let last = serde_json::to_value(last.owner_ref(&kind).unwrap()).unwrap();
    // It has been seen by now: the collector knows the widget too.
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
    create(&widgets, widget("sign", &[gone])).await;
    until("the sign is gone", || is_gone(&widgets, "sign")).await;
    cluster.create::<ConfigMap>(map("map", &[last])).await;
    delete(
        &cluster.all::<CustomResourceDefinition>(),
        "widgets.example.com",
    )
    .await;
    until("what its widgets owned is gone", || is_gone(&maps, "map")).await;
}
