//! When a pod is lost or fails: what starts again, and what ends the job.
//!
//! A pod that failed counts against `backoffLimit`. A pod that was deleted,
//! evicted, preempted or lost with its node does not: workers of a PS job are
//! then replaced alone, everything else starts again whole, because the peers
//! hold the address of the pod that is gone.

use api::{PaddleJob, Role};

use super::Verdict;
use super::mode::Mode;
use super::roster::{Member, Roster, State};

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
    Mode::of(&job.spec) == Mode::Ps && role == Role::Worker
}

/// What happened to a pod that was taken away.
pub fn fate(member: &Member<'_>) -> String {
    match member.pod {
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
