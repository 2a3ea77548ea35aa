//! What the controller sees of the world: slim views of the children of a job.
//!
//! A `Pod` of k8s-openapi takes kilobytes before its first container; a
//! manager that holds thousands of pods keeps only what the plan reads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::{Role, SampleSet, SampleSetPhase, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::elastic::{EtcdWrite, Training};
use super::gang::PodGroupView;
use super::host::PortHolder;
use super::wire;
use crate::{names, operation, sampleset};

/// Everything that a pass may base its decisions on, besides the job itself.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The pods that the job controls, as the watch cache shows them.
    pub pods: Vec<Arc<PodView>>,
    /// Names of pods that this manager has created and the cache does not show
    /// yet. They are not missing; nothing else is known of them.
    pub creating: BTreeSet<String>,
    /// Uids of pods that are gone and had succeeded, as far as this manager saw
    /// them go: the status may not say so yet.
    pub succeeded: BTreeSet<String>,
    /// The ConfigMap of the job.
    pub config_map: Option<Arc<ConfigMapView>>,
    /// The Services that the job controls.
    pub services: BTreeSet<String>,
    /// Of the nodes of pods that are overdue to be gone: those that no longer
    /// exist or can't be reached.
    pub lost_nodes: BTreeSet<String>,
    /// The SampleSet that the job names, if there is one in its namespace.
    pub sample_set: Option<SampleSetView>,
    /// The PodGroup of the job.
    pub pod_group: Option<Arc<PodGroupView>>,
    /// The ports of other living jobs on the network of their nodes.
    pub port_holders: Vec<PortHolder>,
    /// What etcd says of the training, if it was asked and answered.
    pub training: Option<Training>,
    /// What this manager told etcd of the job last.
    pub told_etcd: Option<EtcdWrite>,
}

/// A SampleSet, as far as jobs that train on it need to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleSetView {
    /// Its phase.
    pub phase: Option<SampleSetPhase>,
    /// How much of its data is cached, in percent.
    pub cached_percent: Option<i32>,
    /// Its partitions.
    pub partitions: i32,
    /// The number of training processes that it is cached for.
    pub replicas: Option<i32>,
    /// It is being deleted.
    pub is_going: bool,
}

impl SampleSetView {
    /// What is to be known of `set`.
    pub fn of(set: &SampleSet) -> SampleSetView {
        let status = set.status.as_ref();
        let partitions = sampleset::partitions(set);
        let warmup = set.spec.warmup.as_ref();
        let is_cached = warmup.and_then(|warmup| warmup.enabled) != Some(false);
        let task = operation::warmup(warmup, None, partitions).ok();
        SampleSetView {
            phase: status.and_then(|status| status.phase),
            cached_percent: status
                .and_then(|status| status.cache_status.as_ref())
                .and_then(|cache| cache.cached_percent),
            partitions,
            replicas: task.filter(|_| is_cached).map(|task| task.replicas),
            is_going: set.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// A pod of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The role that its label names.
    pub role: Role,
    /// Its index within the role.
    pub rank: i32,
    /// The attempt that it was made for; `None` for a pod of the Go operators.
    pub attempt: Option<i32>,
    /// The ConfigMap key that its paddle container requires.
    pub key: Option<String>,
    /// Volcano schedules it, together with the others of its job.
    pub is_in_gang: bool,
    /// With how many workers it knows to train, if it is one of an elastic job.
    pub elastic_range: Option<String>,
    /// The port of its node that it was made to listen on.
    pub host_port: Option<u16>,
    /// The key for which it was woken.
    pub woken: Option<String>,
    /// Its phase.
    pub phase: PodPhase,
    /// The node that it was assigned to.
    pub node: Option<String>,
    /// Its address.
    pub address: Option<Address>,
    /// Running, and all its containers are ready.
    pub ready: bool,
    /// Its paddle container runs, or has run.
    pub started: bool,
    /// Its init container `coord-paddle` runs.
    pub waits: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it should be gone, if it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// `spec.activeDeadlineSeconds`: how the operator stops a pod and keeps its logs.
    pub active_deadline: Option<i64>,
    /// What keeps it from running, or what ended it.
    pub trouble: Option<Box<Trouble>>,
}

/// When somebody deleted an object that may take its time to go.
fn told_to_end(meta: &ObjectMeta) -> Option<Timestamp> {
    let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
    let until = meta.deletion_timestamp.as_ref()?.0;
    until.checked_sub(SignedDuration::from_secs(grace)).ok()
}

/// The address of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// What Paddle can use.
    V4(Ipv4Addr),
    /// Paddle splits endpoints at ':', so that an IPv6 address can't work.
    V6Only,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Accepted, not all containers started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, at least one of them badly.
    Failed,
    /// Its node does not answer.
    Unknown,
}

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The scheduler finds no node.
    Unschedulable(String),
    /// A container can't start: its name, the reason, the message.
    Waiting(String, String, String),
    /// A container ended badly.
    Exited {
        /// The container.
        container: String,
        /// Its exit code.
        code: i32,
        /// The reason, such as `OOMKilled` or `Error`.
        reason: String,
        /// Its last words.
        message: String,
    },
    /// The cluster took the pod away: evicted, preempted, or its node shut down.
    Disrupted(String),
    /// The pod failed for a reason that is no container's.
    Other(String),
}

impl PodView {
    /// Reads a pod from the parts of it that we watch; `None` when it is not
    /// one that a job made (no role in its labels, or a foreign name).
    pub fn new(
        job: &str,
        meta: &ObjectMeta,
        spec: &wire::PodSpec,
        status: &wire::PodStatus,
    ) -> Option<PodView> {
        let name = meta.name.clone()?;
        let label = |key| meta.labels.as_ref().and_then(|labels| labels.get(key));
        let annotation = |key| {
            meta.annotations
                .as_ref()
                .and_then(|all| all.get(key))
                .cloned()
        };
        let role = Role::parse(label(labels::RES_TYPE)?)?;
        let containers = spec.containers.iter();
        let at = super::pods::paddle_container(containers.map(|c| Some(c.name.as_str())));
        let paddle = spec.containers.get(at);
        let host_port = paddle.and_then(wire::Container::host_port);
        let paddle = paddle.and_then(|paddle| status.container(&paddle.name));
        let started = paddle.is_some_and(wire::ContainerStatus::has_started);
        let ended = paddle.and_then(wire::ContainerStatus::ended_at);
        let ended_when_told = ended
            .zip(told_to_end(meta))
            .is_some_and(|(ended, told)| ended >= told);
        let phase = match status.phase() {
            // Some programs exit with 0 when they are told to end, and have not done their work.
            PodPhase::Succeeded if ended_when_told => PodPhase::Failed,
            phase => phase,
        };
        Some(PodView {
            rank: names::rank(job, role, &name)?,
            name,
            uid: meta.uid.clone()?,
            role,
            attempt: annotation(labels::ATTEMPT).and_then(|text| text.parse().ok()),
            key: annotation(labels::KEY),
            // Volcano itself puts pods without a group into one each.
            is_in_gang: annotation(labels::POD_GROUP).as_deref() == Some(job),
            elastic_range: annotation(labels::ELASTIC_RANGE),
            host_port,
            woken: annotation(labels::WOKEN),
            phase,
            node: spec.node_name.clone(),
            address: status.address(),
            ready: status.phase() == PodPhase::Running && status.is_ready(),
            started,
            waits: status.waits(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleted_at: meta.deletion_timestamp.as_ref().map(|time| time.0),
            active_deadline: spec.active_deadline_seconds,
            trouble: status.trouble(job).map(Box::new),
        })
    }

    /// The attempt of the pod; pods of the Go operators are of the first.
    pub fn attempt(&self) -> i32 {
        self.attempt.unwrap_or(0)
    }

    /// Made by a Go operator: it does not wait for keys.
    pub fn is_legacy(&self) -> bool {
        self.attempt.is_none()
    }

    /// Whether the scheduler has found a node for it.
    pub fn is_scheduled(&self) -> bool {
        self.node.is_some()
    }

    /// Whether it runs, or may still run.
    pub fn is_active(&self) -> bool {
        !matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Taken away, or being taken away, before it was done.
    pub fn is_disrupted(&self) -> bool {
        match self.phase {
            PodPhase::Succeeded => false,
            PodPhase::Failed => {
                self.deleted_at.is_some()
                    || matches!(self.trouble.as_deref(), Some(Trouble::Disrupted(_)))
            }
            _ => self.deleted_at.is_some(),
        }
    }
}

/// The ConfigMap of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigMapView {
    /// Its data.
    pub data: BTreeMap<String, String>,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!(": {text}")
            }
        };
        match self {
            Trouble::Unschedulable(message) => write!(f, "not schedulable{}", colon(message)),
            Trouble::Waiting(container, reason, message) => {
                write!(f, "container {container} waits, {reason}{}", colon(message))
            }
            Trouble::Exited {
                container,
                code,
                reason,
                message,
            } => {
                write!(
                    f,
                    "container {container} exited with code {code} ({reason}){}",
                    colon(message)
                )
            }
            Trouble::Disrupted(message) | Trouble::Other(message) => f.write_str(message),
        }
    }
}
