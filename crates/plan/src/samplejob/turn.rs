//! Whose turn it is: one operation per SampleSet at a time, in order of
//! creation, and those that terminate others first.

use api::{OperationStatus, SampleJob, SampleSet};
use jiff::Timestamp;

use super::world::{Rival, Seen};

/// The reason of jobs that wait for nothing but their turn.
pub(super) const TURN: &str = "Turn";

/// The one that goes before this job, if it is not this job's turn. Whoever has the lock is
/// no such one for a job that terminates: it is what is terminated.
pub(super) fn before<'a>(
    job: &SampleJob,
    lock: Option<&OperationStatus>,
    seen: &'a Seen,
) -> Option<&'a Rival> {
    let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let terminates = job.spec.terminate == Some(true);
    let own = rank(terminates, created, name);
    let running = lock.filter(|_| terminates).map(|lock| &lock.owner);
    let others = seen.rivals.iter().filter(|rival| !rival.is_blocked);
    let others = others.filter(|rival| {
        Some(&rival.uid) != job.metadata.uid.as_ref() && Some(&rival.uid) != running
    });
    let first = others.min_by_key(|rival| rank_of(rival));
    first.filter(|rival| rank_of(rival) < own)
}

fn rank_of(rival: &Rival) -> (bool, Option<Timestamp>, &str) {
    rank(rival.terminates, rival.created, &rival.name)
}

fn rank(
    terminates: bool,
    created: Option<Timestamp>,
    name: &str,
) -> (bool, Option<Timestamp>, &str) {
    (!terminates, created, name)
}

/// Who holds the lock, in words.
pub(super) fn holder(set: &SampleSet, lock: &OperationStatus, seen: &Seen) -> String {
    let rival = seen.rivals.iter().find(|rival| rival.uid == lock.owner);
    let name = set.metadata.name.as_deref().unwrap_or_default();
    match rival {
        Some(rival) => rival.name.clone(),
        None if lock.follow_up.is_some() || set.metadata.uid.as_deref() == Some(&*lock.owner) => {
            let type_ = lock.follow_up.unwrap_or(lock.type_);
            format!("the {type_} of SampleSet {name}")
        }
        None => format!("a {} on SampleSet {name}", lock.type_),
    }
}
