//! What the status says of every job: counts, records, and when to write it.

use api::{
    Condition, PaddleJob, PaddleJobStatus, Phase, PodReference, Role, RoleStatus, labels,
    set_condition,
};
use jiff::Timestamp;

use super::Plan;
use super::mode::{Mode, replicas};
use super::roster::{Member, Roster, State};
use super::world::PodPhase;
use crate::Urgency;

/// Names of conditions.
pub(super) mod condition {
    pub(in crate::paddlejob) const SCHEDULED: &str = "Scheduled";
    pub(in crate::paddlejob) const RUNNING: &str = "Running";
    pub(in crate::paddlejob) const SUSPENDED: &str = "Suspended";
    pub(in crate::paddlejob) const COMPLETE: &str = "Complete";
    pub(in crate::paddlejob) const FAILED: &str = "Failed";
    pub(in crate::paddlejob) const DATA_READY: &str = "DataReady";
    pub(in crate::paddlejob) const CACHE_MATCH: &str = "CacheMatch";
}

/// Reasons of conditions that say what is in a job's way.
pub(super) mod trouble {
    pub(in crate::paddlejob) const UNSCHEDULABLE: &str = "Unschedulable";
    pub(in crate::paddlejob) const WAITING: &str = "ContainerWaiting";
}

/// How soon the status of a plan has to be written.
pub fn urgency(old: Option<&PaddleJobStatus>, plan: &Plan) -> Urgency {
    let new = &plan.status;
    let Some(old) = old else {
        // That a job waits is no news, unless it is known what is in its way.
        let troubles = [trouble::UNSCHEDULABLE, trouble::WAITING];
        let is_in_trouble = |c: &Condition| troubles.contains(&&*c.reason);
        let waits = new.phase == Some(Phase::Pending)
            && plan.events.is_empty()
            && !new.conditions.iter().any(is_in_trouble);
        return if *new == PaddleJobStatus::default() {
            Urgency::Never
        } else if waits && !plan.is_urgent {
            Urgency::Eventually
        } else {
            Urgency::Now
        };
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

pub(super) fn set(
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
pub(super) fn summarise(status: &mut PaddleJobStatus, job: &PaddleJob) {
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
pub(super) fn observe(status: &mut PaddleJobStatus, job: &PaddleJob, roster: &Roster<'_>) {
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
fn record(job: &PaddleJob, member: &Member<'_>) -> Option<PodReference> {
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
        succeeded: member.state() == State::Done,
    })
}
