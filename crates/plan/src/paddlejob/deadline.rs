//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.

use api::PaddleJob;
use jiff::{SignedDuration, Timestamp};

use super::Verdict;

/// When the job has run too long; `None` when it may run for ever.
pub fn active_until(job: &PaddleJob) -> Option<Timestamp> {
    let start = job.status.as_ref()?.start_time.as_ref()?.0;
    // One that is no deadline is refused, and ends nothing.
    let seconds = job
        .spec
        .active_deadline_seconds
        .filter(|seconds| *seconds > 0);
    after(start, seconds?)
}

/// The verdict on a job that runs.
pub fn verdict(job: &PaddleJob, now: Timestamp) -> Option<Verdict> {
    let until = active_until(job)?;
    (until <= now).then(|| Verdict::Fail {
        reason: "DeadlineExceeded",
        message: format!(
            "the job ran longer than activeDeadlineSeconds ({} s)",
            job.spec.active_deadline_seconds.unwrap_or_default()
        ),
    })
}

/// When a finished job is deleted; `None` when it stays.
pub fn kept_until(job: &PaddleJob) -> Option<Timestamp> {
    let end = job.status.as_ref()?.completion_time.as_ref()?.0;
    after(end, job.spec.ttl_seconds_after_finished?.into())
}

/// A time that lies beyond what a timestamp can hold never comes.
fn after(start: Timestamp, seconds: i64) -> Option<Timestamp> {
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}
