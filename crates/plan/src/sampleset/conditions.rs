//! What the conditions of a set are about, and how soon a status is written.

use api::{CacheStatus, SampleSet, SampleSetStatus, set_condition};
use jiff::Timestamp;

use crate::Urgency;

/// The spec can work.
pub(super) const ACCEPTED: &str = "Accepted";
/// The volume is there.
pub(super) const BOUND: &str = "Bound";
/// Every runtime server is ready.
pub(super) const RUNTIME: &str = "RuntimeReady";
/// The data was copied from the source.
pub(super) const SYNCED: &str = "Synced";
/// The data was cached.
pub(super) const WARM: &str = "Warm";
/// The spec was changed in a way that has no effect.
pub(super) const IGNORED: &str = "SpecChangeIgnored";
/// An operation that nobody wants any more has not ended yet; absent otherwise.
pub(super) const CANCELLING: &str = "Cancelling";
/// The set is being deleted.
pub(super) const DELETING: &str = "Deleting";
/// The API server would not do something.
const REFUSED: &str = "Refused";

/// Says something in the status.
pub(super) struct Say<'a> {
    pub status: &'a mut SampleSetStatus,
    pub set: &'a SampleSet,
    pub now: Timestamp,
}

impl Say<'_> {
    pub(super) fn say(
        &mut self,
        type_: &str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let conditions = &mut self.status.conditions;
        let generation = self.set.metadata.generation;
        set_condition(
            conditions, type_, holds, reason, message, generation, self.now,
        );
    }

    /// Says nothing of it any more.
    pub(super) fn forget(&mut self, type_: &str) {
        let conditions = &mut self.status.conditions;
        conditions.retain(|condition| condition.type_ != type_);
    }
}

/// Says what the API server would not do, in its words, or no longer.
pub fn refuse(
    status: &mut SampleSetStatus,
    set: &SampleSet,
    refusal: Option<&str>,
    now: Timestamp,
) {
    let mut say = Say { status, set, now };
    match refusal {
        Some(why) => say.say(REFUSED, true, "ByApiServer", why),
        None => say.forget(REFUSED),
    }
}

/// How soon the new status has to be written.
pub fn urgency(old: Option<&SampleSetStatus>, new: &SampleSetStatus) -> Urgency {
    Urgency::by(essence, old, new)
}

/// A status without figures and wording.
fn essence(status: &SampleSetStatus) -> SampleSetStatus {
    let mut status = status.clone();
    let partitions = status.cache_status.take().map(|cache| cache.partitions);
    let partitions = partitions.into_iter().flatten().map(|mut partition| {
        partition.cached = None;
        partition.percent = None;
        partition
    });
    status.cache_status = Some(CacheStatus {
        partitions: partitions.collect(),
        ..CacheStatus::default()
    });
    for condition in &mut status.conditions {
        condition.message.clear();
        condition.observed_generation = None;
    }
    status
}
