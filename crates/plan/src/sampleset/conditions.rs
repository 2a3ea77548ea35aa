//! What the conditions of a set are about, and how soon a status is written.

use api::{CacheStatus, SampleSet, SampleSetStatus, set_condition};
use jiff::Timestamp;

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
/// The set is being deleted.
pub(super) const DELETING: &str = "Deleting";

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
}

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing changed.
    Never,
    /// Figures or words: at most every second.
    Eventually,
    /// The phase, a condition, the lock: at once.
    Now,
}

/// How soon the new status has to be written.
pub fn urgency(old: Option<&SampleSetStatus>, new: &SampleSetStatus) -> Urgency {
    let none = SampleSetStatus::default();
    let old = old.unwrap_or(&none);
    if old == new {
        Urgency::Never
    } else if essence(old) == essence(new) {
        Urgency::Eventually
    } else {
        Urgency::Now
    }
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
