//! What the status says: phase, counts, and conditions that say why.

use api::{
    PaddleJob, PaddleJobStatus, Phase, PodReference, Role, RoleStatus, labels, set_condition,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::mode::{Intranet, Mode, replicas};
use super::roster::{Roster, State};
use super::world::{Address, PodPhase, PodView, Trouble};
use super::{Event, Plan, scaling, validity};

/// Names of conditions.
mod condition {
    pub(super) const SCHEDULED: &str = "Scheduled";
    pub(super) const RUNNING: &str = "Running";
    pub(super) const SUSPENDED: &str = "Suspended";
    pub(super) const COMPLETE: &str = "Complete";
    pub(super) const FAILED: &str = "Failed";
}

/// Why a job can't be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// One word: the reason of the condition and of the event.
    pub reason: &'static str,
    /// What was found and what would be right.
    pub message: String,
}

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing changed.
    Never,
    /// Counts or words: now and then.
    Eventually,
    /// A step on the way that the next one may overtake: in a moment.
    Soon,
    /// The phase, a condition, or something that others wait for.
    Now,
}

/// How soon the status of a plan has to be written.
pub fn urgency(old: Option<&PaddleJobStatus>, plan: &Plan) -> Urgency {
    let new = &plan.status;
    let Some(old) = old else {
        let is_new = *new != PaddleJobStatus::default();
        return if is_new { Urgency::Now } else { Urgency::Never };
    };
    let is_step = new.phase == Some(Phase::Starting) && old.phase == Some(Phase::Pending);
    if old == new {
        Urgency::Never
    } else if plan.is_urgent {
        Urgency::Now
    } else if is_step {
        Urgency::Soon
    } else if essence(old) == essence(new) {
        Urgency::Eventually
    } else {
        Urgency::Now
    }
}

/// A status without counts and wording.
fn essence(status: &PaddleJobStatus) -> PaddleJobStatus {
    let mut status = status.clone();
    for role in Role::ALL {
        let wanted = status.role(role).map(|role| role.replicas);
        *status.role_mut(role) = wanted.map(|replicas| RoleStatus {
            replicas,
            ..RoleStatus::default()
        });
    }
    for condition in &mut status.conditions {
        condition.message.clear();
        condition.observed_generation = None;
    }
    status
}

/// What in the job itself keeps it from being started.
pub(super) fn fault(job: &PaddleJob) -> Option<Refusal> {
    let faults = validity::faults(job);
    if !faults.is_empty() {
        return Some(Refusal {
            reason: "InvalidSpec",
            message: faults.join("; "),
        });
    }
    validity::unsupported(job).map(|message| Refusal {
        reason: "NotSupported",
        message,
    })
}

/// Says why nothing is started; what runs already goes on. It is also how the
/// controller tells that the API server refused a child.
pub fn refuse(plan: &mut Plan, job: &PaddleJob, refusal: Refusal, now: Timestamp) {
    let Refusal { reason, message } = refusal;
    let status = &mut plan.status;
    status.phase.get_or_insert(Phase::Pending);
    status.observed_generation = job.metadata.generation;
    // What the plan meant to say of this condition never became true.
    status
        .conditions
        .retain(|c| c.type_ != condition::SCHEDULED);
    let told = job.status.iter().flat_map(|status| &status.conditions);
    let told = { told }.find(|c| c.type_ == condition::SCHEDULED);
    if told.is_none_or(|c| c.reason != reason || c.message != message) {
        plan.events.push(Event::warning(reason, message.clone()));
    }
    status.conditions.splice(0..0, told.cloned());
    set(
        status,
        job,
        condition::SCHEDULED,
        false,
        reason,
        message,
        now,
    );
}

/// The status of a job that can't be read at all.
pub fn unreadable(
    old: Option<PaddleJobStatus>,
    generation: Option<i64>,
    error: &str,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan {
        status: old.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let mut job = PaddleJob::new("", api::PaddleJobSpec::default());
    job.metadata.generation = generation;
    job.status = old;
    let message = format!("the object does not fit its schema: {error}");
    refuse(
        &mut plan,
        &job,
        Refusal {
            reason: "InvalidSpec",
            message,
        },
        now,
    );
    plan
}

/// The workers succeeded. Parameter servers never end by themselves: they are
/// stopped now, and count as succeeded.
pub(super) fn complete(plan: &mut Plan, job: &PaddleJob, roster: &Roster<'_>, now: Timestamp) {
    observe(&mut plan.status, job, roster);
    if let Some(ps) = &mut plan.status.ps {
        ps.succeeded += ps.pending + ps.starting + ps.running + ps.unknown;
        (ps.pending, ps.starting, ps.running, ps.unknown) = (0, 0, 0, 0);
    }
    let message = "every worker succeeded";
    finish(
        plan,
        job,
        Phase::Completed,
        condition::COMPLETE,
        "Completed",
        message.to_owned(),
        now,
    );
    plan.events.push(Event::normal("Completed", message));
}

/// The job has failed, for the reason given.
pub(super) fn fail(
    plan: &mut Plan,
    job: &PaddleJob,
    roster: &Roster<'_>,
    reason: &'static str,
    message: String,
    now: Timestamp,
) {
    observe(&mut plan.status, job, roster);
    finish(
        plan,
        job,
        Phase::Failed,
        condition::FAILED,
        reason,
        message.clone(),
        now,
    );
    plan.events.push(Event::warning(reason, message));
}

fn finish(
    plan: &mut Plan,
    job: &PaddleJob,
    phase: Phase,
    type_: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let status = &mut plan.status;
    status.phase = Some(phase);
    status.start_time.get_or_insert(Time(now));
    status.completion_time = Some(Time(now));
    set(
        status,
        job,
        condition::RUNNING,
        false,
        reason,
        format!("the job is {phase}"),
        now,
    );
    set(status, job, type_, true, reason, message, now);
}

/// The whole job starts again: a new attempt, whose pods come when those of
/// the old one are gone.
pub(super) fn restart(
    plan: &mut Plan,
    job: &PaddleJob,
    reason: &'static str,
    message: String,
    counts: bool,
    now: Timestamp,
) {
    if counts {
        *plan.status.restarts.get_or_insert(0) += 1;
    }
    next_attempt(plan, job);
    plan.status.phase = Some(Phase::Restarting);
    set(
        &mut plan.status,
        job,
        condition::RUNNING,
        false,
        reason,
        message.clone(),
        now,
    );
    plan.events.push(Event::warning("Restarting", message));
}

/// The whole job starts again at another size.
pub(super) fn resize(plan: &mut Plan, job: &PaddleJob, message: String, now: Timestamp) {
    next_attempt(plan, job);
    plan.status.phase = Some(Phase::Scaling);
    set(
        &mut plan.status,
        job,
        condition::RUNNING,
        false,
        "Scaling",
        message.clone(),
        now,
    );
    plan.events.push(Event::normal("Scaling", message));
}

/// The job is suspended: its pods belong to an attempt that is over.
pub(super) fn suspend(plan: &mut Plan, job: &PaddleJob, roster: &Roster<'_>, now: Timestamp) {
    let begun = plan.status.start_time.is_some()
        || roster
            .members
            .iter()
            .any(|member| member.state() != State::Missing);
    if begun {
        next_attempt(plan, job);
    } else {
        summarise(&mut plan.status, job);
    }
    let status = &mut plan.status;
    status.phase = Some(Phase::Suspended);
    status.start_time = None;
    let message = "spec.suspend is true; the job starts again when it is false";
    set(
        status,
        job,
        condition::SUSPENDED,
        true,
        "Suspended",
        message,
        now,
    );
    set(
        status,
        job,
        condition::RUNNING,
        false,
        "Suspended",
        message,
        now,
    );
    plan.events.push(Event::normal("Suspended", message));
}

/// A suspended job stays so; its status follows the spec.
pub(super) fn keep_suspended(plan: &mut Plan, job: &PaddleJob) {
    summarise(&mut plan.status, job);
}

fn next_attempt(plan: &mut Plan, job: &PaddleJob) {
    let status = &mut plan.status;
    summarise(status, job);
    let attempt = status.attempt.get_or_insert(0);
    *attempt = attempt.saturating_add(1);
    for role in Role::ALL {
        if let Some(seen) = status.role_mut(role) {
            *seen = RoleStatus {
                replicas: seen.replicas,
                ..RoleStatus::default()
            };
        }
    }
}

/// The status of a job on its way.
pub(super) fn proceed(plan: &mut Plan, job: &PaddleJob, roster: &Roster<'_>, now: Timestamp) {
    let old_phase = plan.status.phase;
    let phase = phase(job, roster);
    let resized = scaling::resized(job)
        .map(|(role, from, to)| format!("{role} goes from {from} to {to} replicas"));
    let resized: Vec<String> = resized.collect();
    if old_phase.is_none() {
        let misspelt = validity::misspelt(job).into_iter();
        plan.events
            .extend(misspelt.map(|told| Event::warning("Misspelt", told)));
    } else if !resized.is_empty() {
        plan.events
            .push(Event::normal("Scaling", resized.join(", ")));
    }
    let status = &mut plan.status;
    observe(status, job, roster);
    status.phase = Some(phase);
    if old_phase == Some(Phase::Suspended) {
        set(
            status,
            job,
            condition::SUSPENDED,
            false,
            "Resumed",
            "spec.suspend is not true",
            now,
        );
    }
    status.start_time.get_or_insert(Time(now));
    describe(status, job, roster, phase, now);
}

/// A job that has ended stays as it is.
pub(super) fn keep_ended(plan: &mut Plan, now: Timestamp) {
    // The Go operator wrote the time two passes after the phase.
    plan.status.completion_time.get_or_insert(Time(now));
}

fn phase(job: &PaddleJob, roster: &Roster<'_>) -> Phase {
    let old = job.status.as_ref().and_then(|status| status.phase);
    let ready = roster.members.iter().all(super::roster::Member::is_ready);
    let scheduled = roster
        .members
        .iter()
        .all(super::roster::Member::is_scheduled);
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

/// Conditions of a job on its way: the first pod in trouble speaks for all.
fn describe(
    status: &mut PaddleJobStatus,
    job: &PaddleJob,
    roster: &Roster<'_>,
    phase: Phase,
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
    let scheduled = roster
        .members
        .iter()
        .all(super::roster::Member::is_scheduled);
    match unschedulable {
        _ if scheduled => set(
            status,
            job,
            condition::SCHEDULED,
            true,
            "AllScheduled",
            "every pod has a node",
            now,
        ),
        Some(told) => set(
            status,
            job,
            condition::SCHEDULED,
            false,
            "Unschedulable",
            tell(told),
            now,
        ),
        None => set(
            status,
            job,
            condition::SCHEDULED,
            false,
            "WaitingForNodes",
            "not every pod has a node yet",
            now,
        ),
    }
    let v6 = roster
        .present()
        .find(|pod| pod.address == Some(Address::V6Only));
    match (v6, waiting) {
        (Some(pod), _) if Intranet::of(&job.spec) != Intranet::Service => {
            let message = format!(
                "pod {} has only an IPv6 address, and Paddle splits endpoints at ':'; use intranet: Service",
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
        (_, Some(told)) => set(
            status,
            job,
            condition::RUNNING,
            false,
            "ContainerWaiting",
            tell(told),
            now,
        ),
        // What a verdict said of these phases stays.
        _ if matches!(phase, Phase::Restarting | Phase::Scaling) => {}
        _ => {
            let message = if phase == Phase::Starting {
                "every pod has a node; not every container is ready yet"
            } else {
                "not every pod has a node yet"
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

fn set(
    status: &mut PaddleJobStatus,
    job: &PaddleJob,
    type_: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) {
    set_condition(
        &mut status.conditions,
        type_,
        holds,
        reason,
        message,
        job.metadata.generation,
        now,
    );
}

/// What the status says of every job, whatever became of it.
fn summarise(status: &mut PaddleJobStatus, job: &PaddleJob) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    status.mode = Some(Mode::of(&job.spec).as_str().to_owned());
    status.selector = Some(format!(
        "{}={name},{}={}",
        labels::JOB_NAME,
        labels::ROLE,
        Role::Worker
    ));
    status.observed_generation = job.metadata.generation;
    status.restarts.get_or_insert(0);
    status.attempt.get_or_insert(0);
    for role in Role::ALL {
        let wanted = job.spec.role(role).map(|_| replicas(&job.spec, role));
        match (wanted, status.role_mut(role)) {
            (Some(replicas), seen) => seen.get_or_insert_default().replicas = replicas,
            (None, seen) => *seen = None,
        }
    }
}

/// Counts what is there, and records it.
fn observe(status: &mut PaddleJobStatus, job: &PaddleJob, roster: &Roster<'_>) {
    summarise(status, job);
    for role in Role::ALL {
        let Some(seen) = status.role_mut(role) else {
            continue;
        };
        let mut counted = RoleStatus {
            replicas: seen.replicas,
            ..RoleStatus::default()
        };
        for member in roster.role(role) {
            match (member.pod, member.state()) {
                (_, State::Done) => counted.succeeded += 1,
                (None, _) => {}
                (Some(pod), _) => match pod.phase {
                    PodPhase::Pending if !pod.is_scheduled() => counted.pending += 1,
                    PodPhase::Running if pod.ready => counted.running += 1,
                    PodPhase::Pending | PodPhase::Running => counted.starting += 1,
                    PodPhase::Succeeded => counted.succeeded += 1,
                    PodPhase::Failed => counted.failed += 1,
                    PodPhase::Unknown => counted.unknown += 1,
                },
            }
            counted.refs.extend(record(job, member));
        }
        *seen = counted;
    }
}

/// What goes on record of a member: the pod that is there, else the one that was.
fn record(job: &PaddleJob, member: &super::roster::Member<'_>) -> Option<PodReference> {
    let Some(pod) = member.pod else {
        let mut record = member.record.cloned()?;
        record.succeeded = member.state() == State::Done;
        return Some(record);
    };
    Some(PodReference {
        kind: Some("Pod".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        succeeded: pod.phase == PodPhase::Succeeded,
    })
}
