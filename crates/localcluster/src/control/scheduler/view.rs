//! What the scheduler sees of objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Taint,
    Toleration,
};

use super::affinity::Wishes;
use crate::control::amounts::{Amounts, add, amounts, either};

pub(super) type Labels = BTreeMap<String, String>;

const SCHEDULER: &str = "default-scheduler";

/// A pod that has not finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodView {
    pub(super) uid: String,
    pub(super) labels: Labels,
    pub(super) node: Option<String>,
    pub(super) created: Timestamp,
    pub(super) priority: i32,
    /// Whether it is for us to place, once its gates are open.
    pub(super) is_ours: bool,
    pub(super) is_gated: bool,
    pub(super) requests: Amounts,
    pub(super) ports: Vec<HostPort>,
    /// The claims that it mounts.
    pub(super) claims: Vec<String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) wishes: Wishes,
    /// What its condition says of why it waits.
    pub(super) waits_because: Option<String>,
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
    /// Its pod is on the network of the machine, which all nodes share.
    pub(super) is_machines: bool,
}

impl HostPort {
    /// Whether two pods can't have both on one node.
    pub(super) fn collides(&self, other: &HostPort) -> bool {
        let any = |port: &HostPort| port.address == "0.0.0.0";
        (self.port, &self.protocol) == (other.port, &other.protocol)
            && (self.address == other.address || any(self) || any(other))
    }
}

impl PodView {
    pub(super) fn of(pod: Pod) -> Option<PodView> {
        let status = pod.status.unwrap_or_default();
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let spec = pod.spec.unwrap_or_default();
        let meta = pod.metadata;
        let scheduler = spec.scheduler_name.as_deref().unwrap_or_default();
        let conditions = status.conditions.into_iter().flatten();
        let waits_because = conditions
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .find_map(|condition| condition.message);
        Some(PodView {
            uid: meta.uid?,
            is_ours: matches!(scheduler, "" | SCHEDULER) && meta.deletion_timestamp.is_none(),
            labels: meta.labels.unwrap_or_default(),
            created: meta
                .creation_timestamp
                .map_or(Timestamp::MIN, |time| time.0),
            priority: spec.priority.unwrap_or(0),
            is_gated: spec
                .scheduling_gates
                .as_ref()
                .is_some_and(|gates| !gates.is_empty()),
            requests: requests(&spec),
            ports: ports(&spec),
            claims: claims(&spec),
            node: spec.node_name.filter(|node| !node.is_empty()),
            tolerations: spec.tolerations.unwrap_or_default(),
            wishes: Wishes::of(spec.node_selector, spec.affinity),
            waits_because,
        })
    }
}

/// What a pod asks for: its containers together, or more if its init containers
/// need more before them.
fn requests(spec: &PodSpec) -> Amounts {
    let own = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut together = Amounts::new();
    let mut before = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut now = together.clone();
        add(&mut now, &own(container));
        before = either(&before, &now);
        // One that restarts always stays beside the others.
        if container.restart_policy.as_deref() == Some("Always") {
            together = now;
        }
    }
    for container in &spec.containers {
        add(&mut together, &own(container));
    }
    let mut all = either(&together, &before);
    add(&mut all, &amounts(spec.overhead.as_ref()));
    add(&mut all, &Amounts::from([("pods".to_owned(), 1000)]));
    all
}

fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let ports = spec
        .containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    let is_machines = spec.host_network == Some(true);
    let ports = ports.filter_map(|port| {
        // As Kubernetes has it: on the network of its node, a container's port is the node's.
        let own = is_machines.then_some(port.container_port);
        Some(HostPort {
            is_machines,
            port: port.host_port.or(own).filter(|port| *port > 0)?,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            address: { port.host_ip.clone() }
                .filter(|address| !address.is_empty())
                .unwrap_or_else(|| "0.0.0.0".to_owned()),
        })
    });
    ports.collect()
}

fn claims(spec: &PodSpec) -> Vec<String> {
    let volumes = spec.volumes.iter().flatten();
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|claim| claim.claim_name.clone()).collect()
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeView {
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) is_unschedulable: bool,
    pub(super) allocatable: Amounts,
}

impl NodeView {
    pub(super) fn of(node: Node) -> Option<NodeView> {
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        Some(NodeView {
            labels: node.metadata.labels.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            is_unschedulable: spec.unschedulable == Some(true),
            allocatable: amounts(status.allocatable.as_ref()),
        })
    }
}

/// A claim: the volume that it is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimView {
    pub(super) volume: Option<String>,
    pub(super) is_going: bool,
}

impl ClaimView {
    pub(super) fn of(claim: PersistentVolumeClaim) -> Option<ClaimView> {
        let is_going = claim.metadata.deletion_timestamp.is_some();
        let phase = claim.status.and_then(|status| status.phase);
        let volume = claim.spec.and_then(|spec| spec.volume_name);
        Some(ClaimView {
            volume: volume.filter(|_| phase.as_deref() == Some("Bound")),
            is_going,
        })
    }
}

/// A volume: the nodes from which it can be reached, if not from all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VolumeView {
    pub(super) nodes: Option<NodeSelector>,
}

impl VolumeView {
    pub(super) fn of(volume: PersistentVolume) -> Option<VolumeView> {
        let affinity = volume.spec.and_then(|spec| spec.node_affinity);
        Some(VolumeView {
            nodes: affinity.and_then(|affinity| affinity.required),
        })
    }
}
