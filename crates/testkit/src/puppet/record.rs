//! What the puppet knows of a pod, and how it tells it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Stage;

/// A pod, as its kubelet remembers it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) stage: Stage,
    /// No other pod, of this or any other test, has or had the same.
    pub(super) ip: IpAddr,
    pub(super) started_at: Option<(Timestamp, Instant)>,
    pub(super) inits: Vec<ContainerState>,
    pub(super) containers: Vec<ContainerState>,
    /// The annotations with which a container could not start: it is tried
    /// again when they are others.
    pub(super) blocked: Option<BTreeMap<String, String>>,
    /// What ended the whole pod, such as an eviction: reason and message.
    pub(super) killed: Option<(String, String)>,
    /// Its deletion was confirmed.
    pub(super) gone: bool,
}

/// A container of a pod.
#[derive(Debug)]
pub(super) struct ContainerState {
    pub(super) name: String,
    image: String,
    pub(super) state: State,
    pub(super) restarts: i32,
}

/// What a container does.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It has not started: reason and message.
    Waiting(String, String),
    /// It runs.
    Running,
    /// It has ended.
    Terminated(Ending),
}

/// How a container ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    code: i32,
    reason: String,
    message: String,
}

impl Ending {
    pub(super) fn new(code: i32, reason: &str, message: &str) -> Ending {
        Ending {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// What the kill signal leaves behind.
    fn killed() -> Ending {
        Ending::new(137, "Error", "")
    }
}

impl ContainerState {
    fn new(container: &Container) -> ContainerState {
        ContainerState {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            state: State::Waiting("ContainerCreating".to_owned(), String::new()),
            restarts: 0,
        }
    }

    pub(super) fn failed(&self) -> bool {
        matches!(&self.state, State::Terminated(ending) if ending.code != 0)
    }

    fn status(&self, ready: bool, at: Timestamp) -> Value {
        let state = match &self.state {
            State::Waiting(reason, message) => {
                json!({"waiting": {"reason": reason, "message": message}})
            }
            State::Running => json!({"running": {"startedAt": at.to_string()}}),
            State::Terminated(Ending {
                code,
                reason,
                message,
            }) => {
                let message = (!message.is_empty()).then_some(message);
                json!({"terminated": {"exitCode": code, "reason": reason, "message": message}})
            }
        };
        json!({
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": ready,
            "started": matches!(self.state, State::Running),
            "restartCount": self.restarts,
            "state": state,
        })
    }
}

impl Record {
    /// A pod that was just placed on a node.
    pub(super) fn new(pod: &Pod, node: &str) -> Record {
        let spec = pod.spec.clone().unwrap_or_default();
        Record {
            name: pod.name_any(),
            node: node.to_owned(),
            stage: Stage::Created,
            ip: next_ip().into(),
            started_at: None,
            inits: spec
                .init_containers
                .iter()
                .flatten()
                .map(ContainerState::new)
                .collect(),
            containers: spec.containers.iter().map(ContainerState::new).collect(),
            blocked: None,
            killed: None,
            gone: false,
        }
    }

    /// A pod that somebody else has brought to life, as its status says.
    pub(super) fn adopt(pod: &Pod, node: &str) -> Record {
        let status = pod.status.clone().unwrap_or_default();
        let mut record = Record::new(pod, node);
        record.stage = Stage::of(pod);
        if let Some(ip) = status.pod_ip.and_then(|ip| ip.parse().ok()) {
            record.ip = ip;
            record.started_at = Some((whole_seconds(), Instant::now()));
        }
        if record.stage >= Stage::Started {
            let ended = || State::Terminated(Ending::new(0, "Completed", ""));
            record.inits.iter_mut().for_each(|c| c.state = ended());
            let state = match status.phase.as_deref() {
                Some("Succeeded") => ended(),
                Some("Failed") => State::Terminated(Ending::killed()),
                _ => State::Running,
            };
            for container in &mut record.containers {
                container.state = state.clone();
            }
        }
        record
    }

    /// Takes an IPv6 address instead.
    pub(super) fn use_ipv6(&mut self) {
        if let IpAddr::V4(ip) = self.ip {
            let [a, b, c, d] = ip.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            self.ip = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low).into();
        }
    }

    /// When `spec.activeDeadlineSeconds` is over, if it still matters.
    pub(super) fn deadline(&self, pod: &Pod) -> Option<Instant> {
        let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
        let (_, since) = self.started_at.filter(|_| !self.has_ended(pod))?;
        since.checked_add(Duration::from_secs(seconds.try_into().ok()?))
    }

    /// Ends the pod's containers: the one that trains as `ending` says, the
    /// others well.
    pub(super) fn end_containers(&mut self, pod: &Pod, ending: &Ending) {
        let paddle = paddle_container(pod);
        for container in &mut self.containers {
            container.state = State::Terminated(if container.name == paddle {
                ending.clone()
            } else {
                Ending::new(0, "Completed", "")
            });
        }
    }

    /// Ends the pod from outside.
    pub(super) fn kill(&mut self, pod: &Pod, reason: &str, message: &str) {
        self.stop(pod);
        self.killed = Some((reason.to_owned(), message.to_owned()));
    }

    /// Ends what still runs, as for a deletion.
    pub(super) fn stop(&mut self, pod: &Pod) {
        if self.has_ended(pod) {
            return;
        }
        let begun = |state: &State| !matches!(state, State::Terminated(_));
        let all = self.inits.iter_mut().chain(&mut self.containers);
        for container in all.filter(|container| begun(&container.state)) {
            container.state = State::Terminated(Ending::killed());
        }
    }

    /// Whether the pod runs nothing and never will.
    pub(super) fn has_ended(&self, pod: &Pod) -> bool {
        matches!(self.phase(pod), "Succeeded" | "Failed")
    }

    fn phase(&self, pod: &Pod) -> &'static str {
        let never = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref())
            == Some("Never");
        let is = |wanted: fn(&State) -> bool| move |c: &ContainerState| wanted(&c.state);
        let mut containers = self.containers.iter();
        if self.killed.is_some() || never && self.inits.iter().any(ContainerState::failed) {
            "Failed"
        } else if containers
            .clone()
            .any(is(|state| matches!(state, State::Waiting(..))))
        {
            "Pending"
        } else if containers
            .clone()
            .any(is(|state| matches!(state, State::Running)))
        {
            "Running"
        } else if containers.any(ContainerState::failed) {
            "Failed"
        } else {
            "Succeeded"
        }
    }

    /// The status of the pod, complete.
    pub(super) fn status(&self, pod: &Pod) -> Value {
        let phase = self.phase(pod);
        let ready = phase == "Running" && self.stage >= Stage::Ready;
        let initialized = self.stage >= Stage::Initialized;
        let condition = |type_: &str, holds: bool| {
            let status = if holds { "True" } else { "False" };
            json!({"type": type_, "status": status})
        };
        let at = self.started_at.map_or_else(whole_seconds, |(at, _)| at);
        let inits = self.inits.iter().map(|c| {
            let done = matches!(&c.state, State::Terminated(ending) if ending.code == 0);
            c.status(done, at)
        });
        let containers = self.containers.iter().map(|c| {
            let running = matches!(c.state, State::Running);
            c.status(running && ready, at)
        });
        let mut status = json!({
            "phase": phase,
            "conditions": [
                condition("PodScheduled", true),
                condition("Initialized", initialized),
                condition("ContainersReady", ready),
                condition("Ready", ready),
            ],
            "initContainerStatuses": inits.collect::<Vec<_>>(),
            "containerStatuses": containers.collect::<Vec<_>>(),
        });
        if let (Some((at, _)), Value::Object(status)) = (self.started_at, &mut status) {
            let ip = self.ip.to_string();
            status.insert("startTime".into(), at.to_string().into());
            status.insert("podIPs".into(), json!([{"ip": ip}]));
            status.insert("podIP".into(), ip.into());
        }
        if let (Some((reason, message)), Value::Object(status)) = (&self.killed, &mut status) {
            status.insert("reason".into(), reason.as_str().into());
            status.insert("message".into(), message.as_str().into());
        }
        status
    }
}

/// The container that trains: the one called `paddle`, or else the first.
pub(super) fn paddle_container(pod: &Pod) -> String {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice());
    let containers = containers.unwrap_or_default();
    let paddle = containers.iter().find(|c| c.name == "paddle");
    paddle
        .or(containers.first())
        .map(|c| c.name.clone())
        .unwrap_or_default()
}

/// An address out of 10.64.0.0/10 that nobody had before.
fn next_ip() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 0)) + number)
}

/// The API keeps whole seconds.
fn whole_seconds() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}
