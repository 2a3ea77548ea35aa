//! What the API is told of a pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::lifecycle::{
    ContainerSeen, End, Phase, Seen, State, Trouble, is_initialized, pause, phase, restarts,
    resumes, runs_along,
};

/// The status of a pod. What it holds of times stays as it was while the rest does.
pub fn status(pod: &Pod, seen: &Seen, host: &str, now: Timestamp) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let Some(spec) = &pod.spec else { return old };
    let phase = phase(pod, spec, seen);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let about = About {
        pod,
        seen,
        now,
        is_initialized: is_initialized(spec, seen),
    };
    let address = seen.address.map(|address| address.to_string());
    let trouble = seen.doom.as_ref();
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: trouble
            .map(|trouble| trouble.reason.clone())
            .or(old.reason.clone()),
        message: trouble
            .map(|trouble| trouble.message.clone())
            .or(old.message.clone()),
        start_time: old.start_time.clone().or(Some(Time(now))),
        host_ip: Some(host.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: host.to_owned(),
        }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        init_container_statuses: (!init.is_empty()).then(|| {
            init.iter()
                .map(|container| about.container(container, true))
                .collect()
        }),
        container_statuses: Some(
            spec.containers
                .iter()
                .map(|container| about.container(container, false))
                .collect(),
        ),
        conditions: Some(conditions(spec, seen, phase, &old, now)),
        ..old
    }
}

/// What statuses of containers are made of.
struct About<'a> {
    pod: &'a Pod,
    seen: &'a Seen,
    now: Timestamp,
    is_initialized: bool,
}

impl About<'_> {
    fn container(&self, container: &Container, is_init: bool) -> ContainerStatus {
        let absent = ContainerSeen::default();
        let seen = self.seen.containers.get(&container.name).unwrap_or(&absent);
        let image = container.image.clone().unwrap_or_default();
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let is_running = matches!(seen.state, State::Running(_));
        let is_ready = match (&seen.state, is_init && !runs_along(container)) {
            (State::Ended(end), true) => end.code == 0,
            (_, true) => false,
            (_, false) => is_running && seen.is_ready,
        };
        let (mut state, last) = self.states(container, seen, is_init);
        // Why none of them is made yet is said on each.
        if let (Some(waiting), Some(trouble)) = (&mut state.waiting, &self.seen.trouble) {
            waiting.message = Some(trouble.message.clone());
        }
        ContainerStatus {
            name: container.name.clone(),
            image_id: image.clone(),
            image,
            container_id: (seen.state != State::Absent)
                .then(|| format!("local://{uid}/{}/{}", container.name, seen.restarts)),
            ready: is_ready,
            started: Some(is_running && seen.has_started),
            restart_count: seen.restarts,
            state: Some(state),
            last_state: Some(last.map(terminated).unwrap_or_default()),
            ..ContainerStatus::default()
        }
    }

    fn states(
        &self,
        container: &Container,
        seen: &ContainerSeen,
        is_init: bool,
    ) -> (ContainerState, Option<End>) {
        if let (Some(trouble), State::Absent | State::Ended(_)) = (&seen.trouble, &seen.state) {
            let last = match &seen.state {
                State::Ended(end) => Some(end.clone()),
                _ => seen.last.clone(),
            };
            return (
                waiting(&trouble.reason, Some(trouble.message.clone())),
                last,
            );
        }
        match &seen.state {
            State::Absent => {
                let reason = match self.is_initialized || is_init {
                    true => "ContainerCreating",
                    false => "PodInitializing",
                };
                let reason = match (is_init, self.seen.has_sandbox) {
                    (true, true) => "PodInitializing",
                    _ => reason,
                };
                (waiting(reason, None), seen.last.clone())
            }
            State::Running(since) => {
                let running = ContainerState {
                    running: Some(ContainerStateRunning {
                        started_at: Some(seconds(*since)),
                    }),
                    ..ContainerState::default()
                };
                (running, seen.last.clone())
            }
            State::Ended(end) => match self.back_off(container, seen, end, is_init) {
                Some(state) => (state, Some(end.clone())),
                None => (terminated(end.clone()), seen.last.clone()),
            },
        }
    }

    /// A container that will be started again, but not yet.
    fn back_off(
        &self,
        container: &Container,
        seen: &ContainerSeen,
        end: &End,
        is_init: bool,
    ) -> Option<ContainerState> {
        let spec = self.pod.spec.as_ref()?;
        let restarts = restarts(spec, container, is_init, end.code);
        let is_over = self.seen.doom.is_some() || self.pod.metadata.deletion_timestamp.is_some();
        if !restarts || is_over || resumes(end, seen.restarts) <= self.now {
            return None;
        }
        let meta = &self.pod.metadata;
        let message = format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            pause(end, seen.restarts).as_secs(),
            container.name,
            meta.name.as_deref().unwrap_or_default(),
            meta.namespace.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default(),
        );
        Some(waiting("CrashLoopBackOff", Some(message)))
    }
}

/// As the API has times; what it answers is else never what it was told.
fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message,
        }),
        ..ContainerState::default()
    }
}

fn terminated(end: End) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: end.code,
            signal: end.signal,
            reason: Some(end.reason),
            message: end.message,
            started_at: end.started.map(seconds),
            finished_at: Some(seconds(end.at)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

fn conditions(
    spec: &PodSpec,
    seen: &Seen,
    phase: Phase,
    old: &PodStatus,
    now: Timestamp,
) -> Vec<PodCondition> {
    let unready = |container: &&Container| {
        let seen = seen.containers.get(&container.name);
        !seen.is_some_and(|seen| matches!(seen.state, State::Running(_)) && seen.is_ready)
    };
    let names: Vec<&str> = spec
        .containers
        .iter()
        .filter(unready)
        .map(|container| container.name.as_str())
        .collect();
    let ready = match (phase, names.is_empty()) {
        (Phase::Succeeded, _) => Err(Trouble::new("PodCompleted", "")),
        (Phase::Failed, _) => Err(Trouble::new("PodFailed", "")),
        (_, true) => Ok(()),
        (_, false) => {
            let message = format!("containers with unready status: [{}]", names.join(" "));
            Err(Trouble::new("ContainersNotReady", message))
        }
    };
    let initialized = match (phase, is_initialized(spec, seen)) {
        (Phase::Succeeded, _) | (_, true) => Ok(()),
        (_, false) => {
            let init = spec.init_containers.iter().flatten();
            let names: Vec<&str> = init
                .filter(|container| {
                    let seen = seen.containers.get(&container.name);
                    !seen.is_some_and(
                        |seen| matches!(&seen.state, State::Ended(end) if end.code == 0),
                    )
                })
                .map(|container| container.name.as_str())
                .collect();
            let message = format!("containers with incomplete status: [{}]", names.join(" "));
            Err(Trouble::new("ContainersNotInitialized", message))
        }
    };
    let sandbox = match seen.has_sandbox {
        true => Ok(()),
        false => Err(Trouble::new("", "")),
    };
    let own = BTreeMap::from([
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
    ]);
    let kept = old.conditions.iter().flatten();
    let kept = kept.filter(|condition| !own.contains_key(condition.type_.as_str()));
    let mut conditions: Vec<PodCondition> = kept.cloned().collect();
    for (type_, state) in own {
        conditions.push(condition(type_, state, old, now));
    }
    conditions
}

fn condition(
    type_: &str,
    state: Result<(), Trouble>,
    old: &PodStatus,
    now: Timestamp,
) -> PodCondition {
    let mut olds = old.conditions.iter().flatten();
    let before = olds.find(|condition| condition.type_ == type_);
    let status = match state {
        Ok(()) => "True",
        Err(_) => "False",
    };
    let same = before.filter(|before| before.status == status);
    let since = same.and_then(|before| before.last_transition_time.clone());
    let trouble = state.err();
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: since.or(Some(Time(now))),
        reason: trouble.clone().and_then(|trouble| some(trouble.reason)),
        message: trouble.and_then(|trouble| some(trouble.message)),
        ..PodCondition::default()
    }
}
