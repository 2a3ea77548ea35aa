//! What is to be done next for a pod, and what is said of it. Pure: what was seen
//! goes in, a decision comes out.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// The longest pause between two starts of a container.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(300);
/// The first, which doubles.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// Who ran for so long starts anew without a pause.
const LONG_RUN: SignedDuration = SignedDuration::from_mins(10);

/// What is known of a pod beside its object.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its sandbox lives.
    pub has_sandbox: bool,
    /// The address that it has, or had.
    pub address: Option<Ipv4Addr>,
    /// What keeps it from being made ready for containers.
    pub trouble: Option<Trouble>,
    /// Its containers by name.
    pub containers: BTreeMap<String, ContainerSeen>,
    /// The node goes down.
    pub is_node_stopping: bool,
    /// It was killed for this reason.
    pub doom: Option<Trouble>,
}

/// A reason and its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Trouble {
    /// A trouble.
    pub fn new(reason: &str, message: impl Into<String>) -> Trouble {
        Trouble {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// What is known of a container.
#[derive(Clone, Debug, Default)]
pub struct ContainerSeen {
    /// How often it was started again.
    pub restarts: i32,
    /// What it does.
    pub state: State,
    /// How it ended the time before.
    pub last: Option<End>,
    /// What keeps it from being started.
    pub trouble: Option<Trouble>,
    /// Its probe says that it takes requests.
    pub is_ready: bool,
    /// Its probe says that it has started.
    pub has_started: bool,
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// It was never started.
    #[default]
    Absent,
    /// It runs since.
    Running(Timestamp),
    /// It ended.
    Ended(End),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit code.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Completed, Error, StartError.
    pub reason: String,
    /// Its last words.
    pub message: Option<String>,
    /// When it had been started.
    pub started: Option<Timestamp>,
    /// When.
    pub at: Timestamp,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, before something changes or this time comes.
    Wait(Option<Timestamp>),
    /// The volumes and the sandbox.
    Prepare,
    /// A container.
    Start(String),
    /// All of its containers end; by this time at the latest.
    Stop {
        /// The time.
        until: Timestamp,
        /// Why, if it is not because somebody deleted it.
        doom: Option<Trouble>,
    },
    /// The sandbox goes; the pod and its logs stay.
    Finish,
    /// All of it goes.
    Remove,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all of it has been started.
    Pending,
    /// It runs, or will again.
    Running,
    /// All of it ended well.
    Succeeded,
    /// It ended otherwise.
    Failed,
}

impl Phase {
    /// As the API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }

    /// It does not change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// Decides.
pub fn next(pod: &Pod, seen: &Seen, now: Timestamp) -> Step {
    let Some(spec) = &pod.spec else {
        return Step::Wait(None);
    };
    let is_running = |container: &ContainerSeen| matches!(container.state, State::Running(_));
    let runs = seen.containers.values().any(is_running);
    let deletion = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    if let Some(until) = deletion {
        return match runs {
            true => Step::Stop { until, doom: None },
            false => Step::Remove,
        };
    }
    if phase(pod, spec, seen).is_final() {
        return match (runs, seen.has_sandbox) {
            // What runs along with the others.
            (true, _) => stop(spec, None, now),
            (false, true) => Step::Finish,
            (false, false) => Step::Wait(None),
        };
    }
    let overdue = deadline(pod).filter(|at| *at <= now);
    let doom = if let Some(doom) = &seen.doom {
        Some(doom.clone())
    } else if seen.is_node_stopping {
        Some(Trouble::new(
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
        ))
    } else {
        overdue.map(|_| {
            let message = "Pod was active on the node longer than the specified deadline";
            Trouble::new("DeadlineExceeded", message)
        })
    };
    if doom.is_some() {
        return stop(spec, doom, now);
    }
    let wait = match advance(spec, seen, now) {
        Step::Wait(until) => until,
        step => return step,
    };
    Step::Wait(wait.into_iter().chain(deadline(pod)).min())
}

fn stop(spec: &PodSpec, doom: Option<Trouble>, now: Timestamp) -> Step {
    let grace = spec.termination_grace_period_seconds.unwrap_or(30);
    let until = now.saturating_add(SignedDuration::from_secs(grace));
    Step::Stop {
        until: until.unwrap_or(Timestamp::MAX),
        doom,
    }
}

/// The next step of a pod that shall run.
fn advance(spec: &PodSpec, seen: &Seen, now: Timestamp) -> Step {
    if !seen.has_sandbox {
        let runs = |container: &ContainerSeen| matches!(container.state, State::Running(_));
        return match (seen.containers.values().any(runs), &seen.trouble) {
            // Without their sandbox they have lost the network: all start anew.
            (true, _) => Step::Stop {
                until: now,
                doom: None,
            },
            (false, Some(_)) => Step::Wait(None),
            (false, None) => Step::Prepare,
        };
    }
    let mut wait = None;
    for container in spec.init_containers.iter().flatten() {
        match turn(container, seen, policy_of_init(spec, container), now) {
            Turn::Start => return Step::Start(container.name.clone()),
            Turn::Pause(until) => return Step::Wait(Some(until)),
            Turn::Done => {}
            Turn::Runs if runs_along(container) && has_started(container, seen) => {}
            Turn::Runs | Turn::Stuck => return Step::Wait(None),
        }
    }
    for container in &spec.containers {
        match turn(container, seen, policy(spec), now) {
            Turn::Start => return Step::Start(container.name.clone()),
            Turn::Pause(until) => wait = wait.into_iter().chain([until]).min(),
            Turn::Done | Turn::Runs | Turn::Stuck => {}
        }
    }
    Step::Wait(wait)
}

/// What it is a container's turn to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Start,
    /// It will be started then.
    Pause(Timestamp),
    Runs,
    Done,
    /// Something is missing that it needs.
    Stuck,
}

fn turn(container: &Container, seen: &Seen, policy: Policy, now: Timestamp) -> Turn {
    let Some(seen) = seen.containers.get(&container.name) else {
        return Turn::Start;
    };
    if seen.trouble.is_some() {
        return Turn::Stuck;
    }
    match &seen.state {
        State::Absent => Turn::Start,
        State::Running(_) => Turn::Runs,
        State::Ended(end) if !policy.restarts(end.code) => Turn::Done,
        State::Ended(end) => match resumes(end, seen.restarts) {
            until if until <= now => Turn::Start,
            until => Turn::Pause(until),
        },
    }
}

/// When a container that ended is started again.
pub fn resumes(end: &End, restarts: i32) -> Timestamp {
    end.at
        .saturating_add(pause(end, restarts))
        .unwrap_or(end.at)
}

/// How long a container rests that has been started again so often.
pub fn pause(end: &End, restarts: i32) -> SignedDuration {
    let ran = end.started.map(|started| end.at.duration_since(started));
    if restarts == 0 || ran.is_some_and(|ran| ran >= LONG_RUN) {
        return SignedDuration::ZERO;
    }
    let doubled = PAUSE.checked_mul(1 << (restarts - 1).clamp(0, 10));
    doubled.map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
}

/// Whether containers that end are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    fn restarts(self, code: i32) -> bool {
        match self {
            Policy::Always => true,
            Policy::OnFailure => code != 0,
            Policy::Never => false,
        }
    }
}

/// Whether a container that ended so is started again.
pub fn restarts(spec: &PodSpec, container: &Container, is_init: bool, code: i32) -> bool {
    match is_init {
        true => policy_of_init(spec, container).restarts(code),
        false => policy(spec).restarts(code),
    }
}

fn policy(spec: &PodSpec) -> Policy {
    match spec.restart_policy.as_deref() {
        Some("Never") => Policy::Never,
        Some("OnFailure") => Policy::OnFailure,
        _ => Policy::Always,
    }
}

fn policy_of_init(spec: &PodSpec, container: &Container) -> Policy {
    match (runs_along(container), policy(spec)) {
        (true, _) => Policy::Always,
        (false, Policy::Never) => Policy::Never,
        (false, _) => Policy::OnFailure,
    }
}

/// All containers of a pod, in the order in which they start.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    })
}

/// An init container that goes on while the others run.
pub fn runs_along(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn has_started(container: &Container, seen: &Seen) -> bool {
    let seen = seen.containers.get(&container.name);
    seen.is_some_and(|seen| seen.has_started)
}

/// Whether all init containers are through.
pub fn is_initialized(spec: &PodSpec, seen: &Seen) -> bool {
    spec.init_containers.iter().flatten().all(|container| {
        let found = seen.containers.get(&container.name);
        found.is_some_and(|found| match &found.state {
            State::Ended(end) => end.code == 0 && !runs_along(container),
            State::Running(_) => runs_along(container) && found.has_started,
            State::Absent => false,
        })
    })
}

/// When a pod has had its time.
fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let start = pod.status.as_ref()?.start_time.as_ref()?.0;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Where a pod is in its life. What was final stays so.
pub fn phase(pod: &Pod, spec: &PodSpec, seen: &Seen) -> Phase {
    match pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
    {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => unsettled(spec, seen),
    }
}

fn unsettled(spec: &PodSpec, seen: &Seen) -> Phase {
    let ended = |container: &Container| match &seen.containers.get(&container.name)?.state {
        State::Ended(end) => Some(end.clone()),
        _ => None,
    };
    let is_over = |container: &Container, policy: Policy| {
        ended(container).filter(|end| !policy.restarts(end.code))
    };
    let mut all = seen.containers.values();
    if seen.doom.is_some() && !all.any(|seen| matches!(seen.state, State::Running(_))) {
        return Phase::Failed;
    }
    let mut init = spec.init_containers.iter().flatten();
    if init.any(|container| {
        is_over(container, policy_of_init(spec, container)).is_some_and(|end| end.code != 0)
    }) {
        return Phase::Failed;
    }
    let ends: Option<Vec<End>> = spec
        .containers
        .iter()
        .map(|container| is_over(container, policy(spec)))
        .collect();
    if let Some(ends) = ends {
        return match ends.iter().all(|end| end.code == 0) {
            true => Phase::Succeeded,
            false => Phase::Failed,
        };
    }
    let was_started = |container: &Container| {
        let found = seen.containers.get(&container.name);
        found.is_some_and(|found| found.state != State::Absent)
    };
    match spec.containers.iter().all(was_started) {
        true => Phase::Running,
        false => Phase::Pending,
    }
}

#[cfg(test)]
mod tests;
