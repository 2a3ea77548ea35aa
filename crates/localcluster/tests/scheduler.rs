//! Pods get a node, or are told why not.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod support;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, Node, Pod, PodCondition};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use localcluster::control::Loop;
use serde_json::{Value, json};
use support::{Cluster, patch, patch_status, until};

const LOOPS: &[Loop] = &[Loop::Scheduler];

async fn node(cluster: &Cluster, name: &str, cpu: u32) {
    let nodes: Api<Node> = cluster.all();
    cluster
        .create_global::<Node>(json!({"metadata": {"name": name}}))
        .await;
    let allocatable = json!({"cpu": cpu.to_string(), "memory": "64Gi", "pods": "500"});
    patch_status(&nodes, name, json!({"allocatable": allocatable})).await;
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    let container = json!({"name": "c", "image": "i:1", "resources": resources});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

async fn node_of(pods: &Api<Pod>, name: &str) -> Option<String> {
    pods.get(name).await.unwrap().spec.unwrap().node_name
}

async fn scheduled(pods: &Api<Pod>, name: &str) -> Option<PodCondition> {
    let status = pods.get(name).await.unwrap().status?;
    let mut conditions = status.conditions?.into_iter();
    conditions.find(|condition| condition.type_ == "PodScheduled")
}

async fn messages(cluster: &Cluster, reason: &str) -> Vec<String> {
    let events = cluster
        .here::<Event>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let events = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason));
    events.filter_map(|event| event.message).collect()
}

#[tokio::test]
async fn pods_wait_for_room() {
    let mut cluster = Cluster::new("scheduler-room", LOOPS).await;
    let pods = cluster.here::<Pod>();
    let waits = |name: &'static str, message: &'static str| {
        let pods = pods.clone();
        until(message, move || {
            let pods = pods.clone();
            async move {
                let condition = scheduled(&pods, name).await;
                condition.is_some_and(|condition| {
                    (condition.status.as_str(), condition.reason.as_deref())
                        == ("False", Some("Unschedulable"))
                        && condition.message.as_deref() == Some(message)
                })
            }
        })
    };
    cluster.create::<Pod>(pod("a", "2")).await;
    waits("a", "no nodes available to schedule pods").await;
    node(&cluster, "n-0", 3).await;
    until("it has a node", || async {
        node_of(&pods, "a").await.is_some()
    })
    .await;
    assert_eq!(scheduled(&pods, "a").await.unwrap().status, "True");
    until("that is told", || async {
        messages(&cluster, "Scheduled").await == ["Successfully assigned default/a to n-0"]
    })
    .await;

    const FULL: &str = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are \
        available: 1 No preemption victims found for incoming pod.";
    cluster.create::<Pod>(pod("b", "2")).await;
    cluster.create::<Pod>(pod("c", "2")).await;
    waits("b", FULL).await;
    waits("c", FULL).await;
    // A loop that is ended between the condition and the event tells it no more.
    until("both were told", || async {
        messages(&cluster, "FailedScheduling")
            .await
            .iter()
            .filter(|told| *told == FULL)
            .count()
            == 2
    })
    .await;
    // Neither what does not matter nor a restart is a reason to say it again.
    cluster.restart(LOOPS).await;
    node(&cluster, "n-1", 1).await;
    patch(
        &cluster.all::<Node>(),
        "n-1",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    const FULLER: &str = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were \
        unschedulable. preemption: 0/2 nodes are available: 1 No preemption victims found for \
        incoming pod, 1 Preemption is not helpful for scheduling.";
    waits("b", FULLER).await;
    waits("c", FULLER).await;
    until("each was told once", || async {
        let told = messages(&cluster, "FailedScheduling").await;
        let times = |message| told.iter().filter(|told| *told == message).count();
        assert!(times(FULL) <= 2 && times(FULLER) <= 2, "{told:?}");
        times(FULL) == 2 && times(FULLER) == 2
    })
    .await;

    // What is finished or gone makes room.
    patch_status(&pods, "a", json!({"phase": "Succeeded"})).await;
    until("b has a node", || async {
        node_of(&pods, "b").await.is_some()
    })
    .await;
    let now = DeleteParams::default().grace_period(0);
    pods.delete("b", &now).await.unwrap();
    until("c has a node", || async {
        node_of(&pods, "c").await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_gate_holds_a_pod() {
    let cluster = Cluster::new("scheduler-gate", LOOPS).await;
    let pods = cluster.here::<Pod>();
    node(&cluster, "n-0", 4).await;
    let mut gated = pod("a", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.create::<Pod>(gated).await;
    until("it says that it is gated", || async {
        let condition = scheduled(&pods, "a").await;
        condition.is_some_and(|condition| condition.reason.as_deref() == Some("SchedulingGated"))
    })
    .await;
    patch(&pods, "a", json!({"spec": {"schedulingGates": null}})).await;
    until("it has a node", || async {
        node_of(&pods, "a").await.is_some()
    })
    .await;
    assert!(messages(&cluster, "FailedScheduling").await.is_empty());
}

#[tokio::test]
async fn a_burst_is_spread() {
    let cluster = Cluster::new("scheduler-burst", LOOPS).await;
    let pods = cluster.here::<Pod>();
    for name in ["n-0", "n-1", "n-2", "n-3"] {
        node(&cluster, name, 50).await;
    }
    let pods_to_make = (0..200).map(|index| cluster.create::<Pod>(pod(&format!("p-{index}"), "1")));
    futures::future::join_all(pods_to_make).await;
    until("all have a node", || async {
        let all = pods.list(&ListParams::default()).await.unwrap();
        let placed = all
            .iter()
            .filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some());
        placed.count() == 200
    })
    .await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        *counts
            .entry(pod.spec.unwrap().node_name.unwrap())
            .or_default() += 1;
    }
    assert!(counts.values().all(|count| *count == 50), "{counts:?}");
}
