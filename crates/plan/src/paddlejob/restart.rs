//! When a pod is lost or fails: what starts again, and what ends the job.
//!
//! A pod that failed counts against `backoffLimit`. A pod that was deleted,
//! evicted, preempted, lost with its node or given another address does not:
//! workers of a PS job and of an elastic job are then replaced alone, everything else starts again
//! whole, because the peers hold the address of the pod that is gone.
//!
//! A node may turn away every pod that is made for it, and a program may fail as
//! soon as it starts: an attempt that ends early is followed by a rest, and each
//! rest is twice as long as the one before.

use api::{PaddleJob, Phase, Role};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::mode::Mode;
use super::roster::{Member, Roster, State};
use super::status::{condition, set};
use super::world::PodView;
use super::{Plan, Verdict, elastic, heter};

/// The longest rest, in seconds, as kubelets have it for containers that crash.
const LONGEST_REST: i64 = 300;
/// A pod that is replaced alone was made so long ago at least: nothing on record
/// tells how often it was replaced before.
const REPLACED_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// The reason of the condition Scheduled while the job rests.
const RESTS: &str = "BackOff";

/// The verdict on pods that failed by their own doing.
pub fn after_failure(job: &PaddleJob, roster: &Roster<'_>) -> Option<Verdict> {
    let failed = roster.first(State::Failed)?;
    let why = format!("pod {} failed: {}", failed.name, trouble(failed));
    let restarts = job
        .status
        .as_ref()
        .and_then(|status| status.restarts)
        .unwrap_or(0);
    let limit = job.spec.backoff_limit.unwrap_or(0);
    if restarts < limit {
        let message = format!("{why}; restart {} of at most {limit}", restarts + 1);
        return Some(Verdict::Restart {
            reason: "PodFailed",
            message,
            counts: true,
        });
    }
    let reason = if limit == 0 {
        "PodFailed"
    } else {
        "BackoffLimitExceeded"
    };
    let message = if limit == 0 {
        why
    } else {
        format!("{why}; backoffLimit is {limit}")
    };
    Some(Verdict::Fail { reason, message })
}

/// The verdict on pods that were taken away.
pub fn after_disruption(job: &PaddleJob, roster: &Roster<'_>) -> Option<Verdict> {
    let gone = roster.members.iter().find(|member| {
        matches!(member.state(), State::Disrupted | State::Lost)
            && !is_replaced_alone(job, member.role)
    })?;
    let message = format!(
        "pod {} {}; its peers start again with it",
        gone.name,
        fate(gone)
    );
    Some(Verdict::Restart {
        reason: "PodLost",
        message,
        counts: false,
    })
}

/// Whether a pod of this role can be replaced while its peers go on.
pub fn is_replaced_alone(job: &PaddleJob, role: Role) -> bool {
    // Heter trainers hold the addresses of all workers.
    let is_ps = Mode::of(&job.spec) == Mode::Ps && !heter::is_heter(&job.spec);
    role == Role::Worker && (is_ps || elastic::is_elastic(&job.spec))
}

/// Lets the job rest before its next attempt, unless the last one was longer
/// than the rest would be.
pub fn rest(plan: &mut Plan, job: &PaddleJob, roster: &Roster<'_>, now: Timestamp) {
    let length = rest_before(roster.attempt.saturating_add(1));
    let begun = roster.present().filter_map(|pod| pod.created).min();
    let is_early = begun.is_none_or(|begun| now.duration_since(begun) < length);
    let Some(until) = now.checked_add(length).ok().filter(|_| is_early) else {
        return;
    };
    let message = format!("the last attempt ended early; the next one begins at {until}");
    let status = &mut plan.status;
    set(
        status,
        job,
        condition::SCHEDULED,
        false,
        RESTS,
        message,
        now,
    );
    // This rest begins now, although one before it may have left the same word.
    let mut told = status.conditions.iter_mut();
    if let Some(told) = told.find(|c| c.type_ == condition::SCHEDULED) {
        told.last_transition_time = Time(now);
    }
}

/// Until when the job rests, if it does. What the user asks for, another size or
/// the end of a suspension, is never put off: the phase is another one then.
pub fn rests_until(job: &PaddleJob, now: Timestamp) -> Option<Timestamp> {
    let status = job.status.as_ref();
    let status = status.filter(|status| status.phase == Some(Phase::Restarting))?;
    let told = { status.conditions.iter() }
        .find(|c| c.type_ == condition::SCHEDULED && c.reason == RESTS)?;
    let length = rest_before(status.attempt.unwrap_or(0));
    let until = told.last_transition_time.0.checked_add(length).ok()?;
    (until > now).then_some(until)
}

/// How long the job rests before an attempt: 1 s before the first that is a
/// restart, and twice as long before each that follows.
fn rest_before(attempt: i32) -> SignedDuration {
    let seconds = 1_i64 << (attempt.clamp(1, 10) - 1);
    SignedDuration::from_secs(seconds.min(LONGEST_REST))
}

/// When a pod that was evicted makes room for the one that replaces it alone.
pub fn replaced_at(pod: &PodView) -> Option<Timestamp> {
    pod.created?.checked_add(REPLACED_AFTER).ok()
}

/// What happened to a pod that was taken away.
pub fn fate(member: &Member<'_>) -> String {
    match member.pod {
        Some(_) if member.moved => "has another address than before".to_owned(),
        Some(_) if member.counts == Some(false) => "ended and has not trained: etcd knows of no complete training (is its program started by python -m paddle.distributed.launch?)".to_owned(),
        Some(pod) if pod.deleted_at.is_none() => format!("was evicted: {}", trouble(member)),
        Some(_) => "is being deleted".to_owned(),
        None => "is gone".to_owned(),
    }
}

fn trouble(member: &Member<'_>) -> String {
    match member.pod.and_then(|pod| pod.trouble.as_ref()) {
        Some(trouble) => trouble.to_string(),
        None => "no reason was given".to_owned(),
    }
}
