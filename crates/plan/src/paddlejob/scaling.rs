//! When the number of pods in the spec changes.
//!
//! Workers of a PS job come and go one by one, and the ConfigMap follows; so do those of an
//! elastic job, within its range. The
//! world of a Collective job has one size from its start to its end, and the
//! parameters of a PS job are spread over its servers, so these start again
//! whole.

use api::{PaddleJob, Role};

use super::Verdict;
use super::elastic;
use super::mode::replicas;
use super::rendezvous;
use super::restart::is_replaced_alone;
use super::roster::Roster;
use super::world::Seen;

/// The verdict when a role that can't change its size while it runs shall do so.
pub fn verdict(job: &PaddleJob, roster: &Roster<'_>, seen: &Seen) -> Option<Verdict> {
    if let Some((former, now)) = elastic::former_range(&job.spec, roster) {
        let message = format!(
            "requests:limits goes from {former} to {now}, and workers learn it at their start; the job starts again"
        );
        return Some(Verdict::Resize { message });
    }
    // Lists that were published before a status could be written also count:
    // a container may have started with them.
    let (role, from, to) = resized(job)
        .chain(outgrown(job, roster.attempt, seen))
        .find(|(role, ..)| !is_replaced_alone(job, *role))?;
    let message =
        format!("{role} goes from {from} to {to} replicas; the job starts again at the new size");
    Some(Verdict::Resize { message })
}

/// The roles whose number of pods differs from the one in the status: role, from, to.
pub fn resized(job: &PaddleJob) -> impl Iterator<Item = (Role, i32, i32)> + '_ {
    let status = job
        .status
        .as_ref()
        .filter(|status| status.start_time.is_some());
    Role::ALL.into_iter().filter_map(move |role| {
        let status = status?;
        let from = status.role(role).map_or(0, |role| role.replicas);
        let to = replicas(&job.spec, role);
        // The Go operators did not write replicas down, nor an attempt.
        let is_known = from != 0 || status.attempt.is_some();
        (from != to && is_known).then_some((role, from, to))
    })
}

/// The roles whose number of pods differs from the one in the lists of this attempt.
fn outgrown(job: &PaddleJob, attempt: i32, seen: &Seen) -> impl Iterator<Item = (Role, i32, i32)> {
    Role::ALL.into_iter().filter_map(move |role| {
        let from = rendezvous::published_size(job, attempt, seen, role)?;
        let to = replicas(&job.spec, role);
        (from != to).then_some((role, from, to))
    })
}
