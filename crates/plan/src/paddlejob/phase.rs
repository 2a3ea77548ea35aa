//! The phase of a job on its way, and the conditions that say why it is there.

use api::{PaddleJob, PaddleJobStatus, Phase, Role};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::mode::Intranet;
use super::pods::WAIT_CONTAINER;
use super::roster::{Member, Roster, State};
use super::status::{condition, observe, set, trouble};
use super::world::{Address, PodPhase, PodView, Trouble};
use super::{Event, Plan, gang, restart, scaling};

/// The status of a job on its way.
pub(super) fn proceed(
    plan: &mut Plan,
    job: &PaddleJob,
    roster: &Roster<'_>,
    gang_waits: Option<String>,
    now: Timestamp,
) {
    let old_phase = plan.status.phase;
    let phase = phase(job, roster);
    let resized = scaling::resized(job)
        .map(|(role, from, to)| format!("{role} goes from {from} to {to} replicas"));
    let resized: Vec<String> = resized.collect();
    if !resized.is_empty() {
        plan.events
            .push(Event::normal("Scaling", resized.join(", ")));
    }
    let status = &mut plan.status;
    observe(status, job, roster);
    status.phase = Some(phase);
    resume(status, job, old_phase, now);
    status.start_time.get_or_insert(Time(now));
    describe(status, job, roster, phase, gang_waits, now);
}

/// Says that a job is no longer suspended.
pub(super) fn resume(
    status: &mut PaddleJobStatus,
    job: &PaddleJob,
    before: Option<Phase>,
    now: Timestamp,
) {
    if before == Some(Phase::Suspended) {
        let message = "spec.suspend is not true";
        set(
            status,
            job,
            condition::SUSPENDED,
            false,
            "Resumed",
            message,
            now,
        );
    }
}

/// A job that has ended stays as it is.
pub(super) fn keep_ended(plan: &mut Plan, job: &PaddleJob, now: Timestamp) {
    // The Go operator wrote the time two passes after the phase.
    plan.status.completion_time.get_or_insert(Time(now));
    // It did not write the generation, and what it left is not written anew.
    if plan.status.observed_generation.is_some() {
        plan.status.observed_generation = job.metadata.generation;
    }
}

fn phase(job: &PaddleJob, roster: &Roster<'_>) -> Phase {
    let old = job.status.as_ref().and_then(|status| status.phase);
    let ready = roster.members.iter().all(Member::is_ready);
    let scheduled = roster.members.iter().all(Member::is_scheduled);
    let settled = roster.old.is_empty() && roster.surplus.is_empty();
    match old {
        _ if ready && settled => Phase::Running,
        Some(Phase::Running | Phase::Scaling) if scaling::resized(job).next().is_some() => {
            Phase::Scaling
        }
        Some(phase @ (Phase::Running | Phase::Scaling | Phase::Restarting)) => phase,
        _ if scheduled => Phase::Starting,
        _ => Phase::Pending,
    }
}

/// Whether this is why the job does not run.
fn says(status: &PaddleJobStatus, reason: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::RUNNING && c.reason == reason)
}

/// Workers wait for servers, and for ever for one that has ended.
fn starts(roster: &Roster<'_>) -> String {
    let mut servers = roster.role(Role::Ps);
    let ended = servers.find(|server| server.state() == State::Done);
    let waits = |worker: &Member<'_>| worker.pod.is_some_and(|pod| !pod.started);
    match ended {
        Some(server) if roster.role(Role::Worker).any(waits) => format!(
            "pod {} has ended, and workers wait for it: a parameter server has to serve until they end",
            server.name
        ),
        _ => {
            let waits = roster.present().find(|pod| pod.waits);
            let log = waits.map(|pod| {
                let name = &pod.name;
                format!(": kubectl logs {name} -c {WAIT_CONTAINER} says what that pod waits for")
            });
            let log = log.unwrap_or_default();
            format!("every pod has a node; not every container is ready yet{log}")
        }
    }
}

/// An elastic worker that has to be made again speaks for all.
fn not_trained(roster: &Roster<'_>) -> Option<String> {
    let ended =
        |member: &&Member<'_>| member.counts == Some(false) && member.state() == State::Disrupted;
    let member = roster.members.iter().find(ended)?;
    let pod = member.pod.filter(|pod| pod.phase == PodPhase::Succeeded)?;
    Some(format!("pod {} {}", pod.name, restart::fate(member)))
}

/// A scheduler that is not there says nothing: its name does.
fn waits_for_nodes(job: &PaddleJob) -> String {
    let schedulers = Vec::from_iter(gang::schedulers(job)).join(" and ");
    match schedulers.as_str() {
        "" => "not every pod has a node yet".to_owned(),
        named => format!("not every pod has a node yet: the scheduler {named} has to find one"),
    }
}

/// Conditions of a job on its way: the first pod in trouble speaks for all.
fn describe(
    status: &mut PaddleJobStatus,
    job: &PaddleJob,
    roster: &Roster<'_>,
    phase: Phase,
    gang_waits: Option<String>,
    now: Timestamp,
) {
    let troubles = || {
        roster
            .present()
            .filter_map(|pod| Some((pod, pod.trouble.as_deref()?)))
    };
    let unschedulable =
        troubles().find(|(_, trouble)| matches!(trouble, Trouble::Unschedulable(_)));
    let waiting = troubles().find(|(_, trouble)| matches!(trouble, Trouble::Waiting(..)));
    let tell = |(pod, trouble): (&PodView, &Trouble)| format!("pod {}: {trouble}", pod.name);
    let scheduled = roster.members.iter().all(Member::is_scheduled);
    match (unschedulable, gang_waits) {
        // It says until when.
        _ if restart::rests_until(job, now).is_some() => {}
        _ if scheduled => set(
            status,
            job,
            condition::SCHEDULED,
            true,
            "AllScheduled",
            "every pod has a node",
            now,
        ),
        // Pods that are not made yet have no trouble to tell of.
        (_, Some(message)) => set(
            status,
            job,
            condition::SCHEDULED,
            false,
            "WaitingForGang",
            message,
            now,
        ),
        (Some(told), None) => set(
            status,
            job,
            condition::SCHEDULED,
            false,
            trouble::UNSCHEDULABLE,
            tell(told),
            now,
        ),
        (None, None) => set(
            status,
            job,
            condition::SCHEDULED,
            false,
            "WaitingForNodes",
            waits_for_nodes(job),
            now,
        ),
    }
    let v6 = roster
        .present()
        .find(|pod| pod.address == Some(Address::V6Only));
    match (v6, waiting) {
        (Some(pod), _) if Intranet::of(&job.spec) != Intranet::Service => {
            let message = format!(
                "the first address of pod {} is IPv6, and Paddle splits endpoints at ':'; use intranet: Service",
                pod.name
            );
            set(
                status,
                job,
                condition::RUNNING,
                false,
                "IPv6Only",
                message,
                now,
            );
        }
        _ if let Some(message) = not_trained(roster) => set(
            status,
            job,
            condition::RUNNING,
            false,
            "NotTrained",
            message,
            now,
        ),
        // The phase stays: a container that crashes is started again, and trains on.
        (_, Some(told)) => set(
            status,
            job,
            condition::RUNNING,
            false,
            trouble::WAITING,
            tell(told),
            now,
        ),
        _ if phase == Phase::Running => {
            set(
                status,
                job,
                condition::RUNNING,
                true,
                "AllReady",
                "every container is, or was, ready",
                now,
            );
        }
        // Workers of a PS job come and go without a verdict.
        _ if phase == Phase::Scaling && !says(status, "Scaling") => set(
            status,
            job,
            condition::RUNNING,
            false,
            "Scaling",
            "the number of pods is being changed",
            now,
        ),
        // What a verdict said of these phases stays.
        _ if matches!(phase, Phase::Restarting | Phase::Scaling) => {}
        _ => {
            let message = match phase {
                Phase::Starting => starts(roster),
                _ => "not every pod has a node yet".to_owned(),
            };
            set(
                status,
                job,
                condition::RUNNING,
                false,
                &phase.to_string(),
                message,
                now,
            );
        }
    }
}
