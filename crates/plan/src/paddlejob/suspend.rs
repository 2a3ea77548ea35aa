//! `spec.suspend`: all pods go, and the job starts again when it is unset.

use api::PaddleJob;

use super::Verdict;

/// The verdict while the job is suspended.
pub fn verdict(job: &PaddleJob) -> Option<Verdict> {
    (job.spec.suspend == Some(true)).then_some(Verdict::Suspend)
}
