//! Nodes: which of them hold a partition, and what is done when one dies.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::world::{RuntimePod, Seen};
use super::{NodeLabel, Plan, Pod};
use crate::{Event, names};

/// How long a pod may take to go before it is asked whether its node is lost.
const OVERDUE: SignedDuration = SignedDuration::from_secs(60);

/// Whether it is to be asked if the node of a pod is lost: the pod should have been gone
/// for long, or had begun and is not ready.
pub fn may_be_lost(pod: &RuntimePod, now: Timestamp) -> bool {
    let is_overdue = overdue_at(pod).is_some_and(|at| at <= now);
    is_overdue || pod.ip.is_some() && !pod.is_ready
}

fn overdue_at(pod: &RuntimePod) -> Option<Timestamp> {
    pod.deleted_at?.checked_add(OVERDUE).ok()
}

/// A dead node must not hold the name of a pod for ever.
pub(super) fn release_names(plan: &mut Plan, seen: &Seen, now: Timestamp) {
    for pod in &seen.pods {
        match overdue_at(pod) {
            Some(at) if at > now => plan.wake_at(at),
            Some(_) if pod.is_node_lost => {
                let node = pod.node.as_deref().unwrap_or_default();
                plan.pods_deleted.push(Pod {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                });
                plan.events.push(Event::warning(
                    "NodeLost",
                    format!(
                        "pod {} is deleted without its node {node}, which is lost",
                        pod.name
                    ),
                ));
            }
            _ => {}
        }
    }
}

/// The label that each node should carry: a partition is where its pod is. One
/// whose pod has no node now keeps the node that it had, to go back to.
pub(super) fn wanted(set: &str, seen: &Seen, partitions: i32) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    for partition in 0..partitions {
        let value = names::runtime_pod(set, partition);
        match seen.pod(partition).filter(|pod| pod.is_ready) {
            Some(pod) => {
                wanted.extend(pod.node.clone().map(|node| (node, value)));
            }
            None => {
                let before = seen.labelled_nodes.iter();
                let before = before.filter(|(_, carried)| **carried == value);
                let moved = |node: &str| {
                    let pod = seen.pod(partition).and_then(|pod| pod.node.as_deref());
                    pod.is_some_and(|now| now != node)
                };
                let before = before.filter(|(node, _)| !moved(node));
                let before: Vec<&String> = before.map(|(node, _)| node).collect();
                for node in before {
                    wanted.entry(node.clone()).or_insert_with(|| value.clone());
                }
            }
        }
    }
    wanted
}

/// Brings the labels of nodes in line.
pub(super) fn label(plan: &mut Plan, key: &str, seen: &Seen, wanted: &BTreeMap<String, String>) {
    let gone = seen
        .labelled_nodes
        .keys()
        .filter(|node| !wanted.contains_key(*node));
    let gone = gone.map(|node| (node, None));
    let new = wanted
        .iter()
        .filter(|(node, value)| seen.labelled_nodes.get(*node) != Some(value))
        .map(|(node, value)| (node, Some(value.clone())));
    plan.labelled
        .extend(gone.chain(new).map(|(node, value)| NodeLabel {
            node: node.clone(),
            key: key.to_owned(),
            value,
        }));
}
