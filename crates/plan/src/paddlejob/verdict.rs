//! Verdicts: what changes the course of the whole job. A verdict is written
//! down, and what follows from it is done in a later pass, when the cached job
//! says the same: until then everything can still be undone.

use api::{PaddleJob, Phase, Role, RoleStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::mode::finishing_role;
use super::roster::{Roster, State};
use super::status::{condition, observe, set, summarise};
use super::{Event, Plan};

/// The workers succeeded. Parameter servers and heter trainers never end by themselves:
/// they are stopped now, and count as succeeded.
pub(super) fn complete(plan: &mut Plan, job: &PaddleJob, roster: &Roster<'_>, now: Timestamp) {
    observe(&mut plan.status, job, roster);
    for role in Role::ALL {
        if let Some(role) = plan.status.role_mut(role) {
            role.succeeded += settle(role);
        }
    }
    let message = match finishing_role(&job.spec) {
        Role::Worker => "every worker succeeded",
        Role::Heter => "every heter trainer succeeded",
        Role::Ps => "every parameter server succeeded",
    };
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

/// The job has failed, for the reason given. Pods that still run are stopped or
/// deleted now, and count as failed.
pub(super) fn fail(
    plan: &mut Plan,
    job: &PaddleJob,
    roster: &Roster<'_>,
    reason: &'static str,
    message: String,
    now: Timestamp,
) {
    observe(&mut plan.status, job, roster);
    for role in Role::ALL {
        if let Some(role) = plan.status.role_mut(role) {
            role.failed += settle(role);
        }
    }
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

/// Takes those that have not ended out of the counts.
fn settle(role: &mut RoleStatus) -> i32 {
    let unsettled = role.pending + role.starting + role.running + role.unknown;
    (role.pending, role.starting, role.running, role.unknown) = (0, 0, 0, 0);
    unsettled
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
