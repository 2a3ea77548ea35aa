//! The parts of a Pod that are read from the wire; serde passes over the rest.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::pods::WAIT_CONTAINER;
use super::world::{Address, PodPhase, Trouble};

/// The last words of a container are cut to so many bytes, from their end.
const LAST_WORDS: usize = 512;

/// How a kubelet says that a key is missing which the operator will add.
const MISSING_KEY: &str = "couldn't find key PADDLE_OPERATOR_";

/// Reasons by which the cluster, not the program, ends a pod.
const DISRUPTIONS: [&str; 9] = [
    "Evicted",
    "Preempting",
    "Preempted",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "NodeAffinity",
    "UnexpectedAdmissionError",
];

/// `spec` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node.
    pub node_name: Option<String>,
    /// How long the pod may run.
    pub active_deadline_seconds: Option<i64>,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// A container of the spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Its name.
    pub name: String,
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    container_port: i32,
    host_port: i32,
}

impl Container {
    /// The first of a block of ports of its node: others may be the user's own.
    pub(super) fn host_port(&self) -> Option<u16> {
        let last = self.ports.last()?;
        let port = u16::try_from(last.host_port).ok()?;
        (port > 0 && last.container_port == last.host_port).then_some(port)
    }
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    conditions: Vec<Condition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    name: String,
    restart_count: i32,
    state: State,
    last_state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<Empty>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Empty {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    finished_at: Option<Time>,
    exit_code: i32,
    reason: String,
    message: String,
}

impl ContainerStatus {
    /// Whether the container runs or has run.
    pub(super) fn has_started(&self) -> bool {
        self.state.running.is_some() || self.state.terminated.is_some() || self.restart_count > 0
    }

    /// When it ended, if it has.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        Some(self.state.terminated.as_ref()?.finished_at.as_ref()?.0)
    }
}

impl PodStatus {
    pub(super) fn phase(&self) -> PodPhase {
        match self.phase.as_str() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Unknown" => PodPhase::Unknown,
            _ => PodPhase::Pending,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }

    pub(super) fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.container_statuses.iter().find(|c| c.name == name)
    }

    /// Whether the init container runs that waits for others.
    pub(super) fn waits(&self) -> bool {
        let mut init = self.init_container_statuses.iter();
        init.any(|c| c.name == WAIT_CONTAINER && c.state.running.is_some())
    }

    /// The address that `POD_IP` has in the pod: the downward API gives the
    /// primary one, so a second IPv4 address would be of no use.
    pub(super) fn address(&self) -> Option<Address> {
        Some(match self.pod_ip.parse().ok()? {
            IpAddr::V4(ip) if ip != Ipv4Addr::UNSPECIFIED => Address::V4(ip),
            IpAddr::V4(_) => return None,
            IpAddr::V6(_) => Address::V6Only,
        })
    }

    /// What is wrong with a pod of the job with this name. A pod whose container
    /// crashes again and again runs, and is not ready.
    pub(super) fn trouble(&self, job: &str) -> Option<Trouble> {
        match self.phase() {
            PodPhase::Failed => Some(self.failure()),
            PodPhase::Pending => self.obstacle(job),
            PodPhase::Running if !self.is_ready() => self.obstacle(job),
            _ => None,
        }
    }

    fn failure(&self) -> Trouble {
        let told = |reason: &str, message: &str| match (reason, message) {
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        let target = self
            .conditions
            .iter()
            .find(|c| c.type_ == "DisruptionTarget" && c.status == "True");
        if let Some(condition) = target {
            return Trouble::Disrupted(told(&condition.reason, &condition.message));
        }
        if DISRUPTIONS.contains(&self.reason.as_str()) || self.reason.starts_with("OutOf") {
            return Trouble::Disrupted(told(&self.reason, &self.message));
        }
        let ended = self
            .init_container_statuses
            .iter()
            .chain(&self.container_statuses);
        let bad = ended
            .filter_map(|c| c.state.terminated.as_ref().map(|t| (c, t)))
            .find(|(_, t)| t.exit_code != 0);
        match bad {
            Some((container, end)) => Trouble::Exited {
                container: container.name.clone(),
                code: end.exit_code,
                reason: end.reason.clone(),
                message: last_words(&end.message),
            },
            None => Trouble::Other(told(&self.reason, &self.message)),
        }
    }

    fn obstacle(&self, job: &str) -> Option<Trouble> {
        let unscheduled = self.conditions.iter().find(|c| {
            c.type_ == "PodScheduled" && c.status == "False" && c.reason != "SchedulingGated"
        });
        if let Some(condition) = unscheduled {
            return Some(Trouble::Unschedulable(condition.message.clone()));
        }
        let all = self
            .init_container_statuses
            .iter()
            .chain(&self.container_statuses);
        all.filter_map(|c| c.state.waiting.as_ref().map(|w| (c, w)))
            .find(|(_, waiting)| !waiting.is_normal(job))
            .map(|(c, w)| {
                // Why it ended says more than how long its kubelet backs off.
                let message = match &c.last_state.terminated {
                    Some(end) => end.to_string(),
                    None => last_words(&w.message),
                };
                Trouble::Waiting(c.name.clone(), w.reason.clone(), message)
            })
    }
}

impl Waiting {
    /// Creating and initialising are no trouble, and by what is missing in the
    /// job's own ConfigMap pods wait for each other.
    fn is_normal(&self, job: &str) -> bool {
        match self.reason.as_str() {
            "" | "ContainerCreating" | "PodInitializing" => true,
            "CreateContainerConfigError" => {
                let missing = format!("configmap \"{job}\" not found");
                self.message.contains(&missing) || self.message.contains(MISSING_KEY)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Terminated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "it exited with code {} ({})",
            self.exit_code, self.reason
        )?;
        match last_words(&self.message).as_str() {
            "" => Ok(()),
            words => write!(f, ": {words}"),
        }
    }
}

fn last_words(message: &str) -> String {
    let message = message.trim();
    let from = message.ceil_char_boundary(message.len().saturating_sub(LAST_WORDS));
    message.get(from..).unwrap_or_default().to_owned()
}
