//! Whether a pod fits on a node, and if not, why, in the words of Kubernetes.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::affinity::selects;
use super::place::{Room, World};
use super::view::PodView;
use crate::control::mirror::Key;

/// Why a pod does not fit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) text: String,
    /// Whether it would be so even if the node were empty.
    pub(super) is_lasting: bool,
}

fn lasting(text: &str) -> Vec<Reason> {
    vec![Reason {
        text: text.to_owned(),
        is_lasting: true,
    }]
}

fn passing(text: &str) -> Vec<Reason> {
    vec![Reason {
        text: text.to_owned(),
        is_lasting: false,
    }]
}

/// Why a pod does not fit on a node; nothing if it does. As with Kubernetes, the
/// first thing that is wrong is told.
pub(super) fn obstacles(
    world: &World<'_>,
    room: &Room<'_>,
    key: &Key,
    pod: &PodView,
) -> Vec<Reason> {
    let node = room.node;
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.is_unschedulable && !is_tolerated(&unschedulable, &pod.tolerations) {
        return lasting("node(s) were unschedulable");
    }
    let hard = node
        .taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    if let Some(taint) = { hard }.find(|taint| !is_tolerated(taint, &pod.tolerations)) {
        let value = taint.value.as_deref().unwrap_or_default();
        return lasting(&format!(
            "node(s) had untolerated taint {{{}: {value}}}",
            taint.key
        ));
    }
    if !pod.wishes.admit(room.name, &node.labels) {
        return lasting("node(s) didn't match Pod's node affinity/selector");
    }
    let mut ports = pod.ports.iter();
    if ports.any(|port| world.is_taken(room, port)) {
        return passing("node(s) didn't have free ports for the requested pod ports");
    }
    let short = shortages(room, pod);
    if !short.is_empty() {
        return short;
    }
    let mut volumes = pod
        .claims
        .iter()
        .filter_map(|claim| world.volume_of(&key.0, claim));
    let reaches = |nodes| selects(nodes, room.name, &node.labels);
    if !volumes.all(|volume| volume.nodes.as_ref().is_none_or(reaches)) {
        return lasting("node(s) had volume node affinity conflict");
    }
    neighbours(world, room, key, pod)
}

/// What there is not enough of.
fn shortages(room: &Room<'_>, pod: &PodView) -> Vec<Reason> {
    let short = pod.requests.iter().filter_map(|(resource, wanted)| {
        let has = room.node.allocatable.get(resource).copied().unwrap_or(0);
        let used = room.used.get(resource).copied().unwrap_or(0);
        (*wanted > 0 && used + wanted > has).then(|| Reason {
            text: match resource.as_str() {
                "pods" => "Too many pods".to_owned(),
                resource => format!("Insufficient {resource}"),
            },
            is_lasting: *wanted > has,
        })
    });
    short.collect()
}

fn neighbours(world: &World<'_>, room: &Room<'_>, key: &Key, pod: &PodView) -> Vec<Reason> {
    let wishes = &pod.wishes;
    let is_near = |term| world.has_neighbour(room, term, &key.0);
    if !wishes.near.iter().all(is_near) {
        // The first of a group that wants to be together has nobody to join.
        let is_first = wishes.near.iter().all(|term| {
            room.node.labels.contains_key(&term.topology)
                && world.selects(term, &key.0, key, pod)
                && !world.has_any(term, &key.0)
        });
        if !is_first {
            return lasting("node(s) didn't match pod affinity rules");
        }
    }
    if wishes.far.iter().any(is_near) {
        return passing("node(s) didn't match pod anti-affinity rules");
    }
    if world.is_shunned(room, key, pod) {
        return passing("node(s) didn't satisfy existing pods anti-affinity rules");
    }
    Vec::new()
}

/// Whether one of the tolerations is for a taint.
pub(super) fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let is_for = |own: &Option<String>, other: &str| {
            own.as_deref()
                .is_none_or(|own| own.is_empty() || own == other)
        };
        let is_equal = || {
            toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default()
        };
        is_for(&toleration.key, &taint.key)
            && is_for(&toleration.effect, &taint.effect)
            && (toleration.operator.as_deref() == Some("Exists") || is_equal())
    })
}
