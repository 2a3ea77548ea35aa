//! What is to be done for a SampleJob.

use std::collections::BTreeSet;

use api::{
    Condition, Operation, OperationStatus, SampleJob, SampleJobPhase, SampleJobStatus, SampleSet,
    labels, set_condition,
};
use jiff::Timestamp;
use serde_json::Value;

mod lock;
mod once;
mod schedule;
mod turn;
mod validity;
mod world;

pub use schedule::refuse;
pub use world::{Rival, Run, Seen, Settings};

use crate::operation::{self, Cancel, LOOK_AGAIN, Post, State};
use crate::sampleset::SecretsNeeded;
use crate::{Event, Urgency};

/// What is to be done, and what the status says then. It is carried out in the
/// order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What `metadata.finalizers` should be, when it is something else: that of
    /// the Go operator goes.
    pub finalizers: Option<Vec<String>>,
    /// What `status.operation` of the SampleSet should be, by a patch of its
    /// status with the resourceVersion of the set that was seen. A conflict: look
    /// again.
    pub lock: Option<Lock>,
    /// Operations to cancel on servers.
    pub cancelled: Vec<Cancel>,
    /// Operations to post to servers.
    pub posted: Vec<Post>,
    /// SampleJobs to create; one that is already there is fine.
    pub runs_created: Vec<Value>,
    /// SampleJobs to delete, with a uid precondition.
    pub runs_deleted: Vec<Named>,
    /// The job itself goes: its time to live is over.
    pub deletes_job: bool,
    /// What the status should be. The patch carries the resourceVersion of the
    /// job that was planned for.
    pub status: SampleJobStatus,
    /// What to tell once the status has landed.
    pub events: Vec<Event>,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<Timestamp>,
}

/// What becomes of the lock of a SampleSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Taken, kept for the follow-up, or `None`: emptied.
    pub operation: Option<OperationStatus>,
}

/// A SampleJob by name and uid: another one of the same name stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Plan {
    fn wake_at(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn look_again(&mut self, now: Timestamp) {
        self.wake_at(now.checked_add(LOOK_AGAIN).unwrap_or(now));
    }

    /// Whether nothing is to be done; the status may still have changed.
    pub fn is_idle(&self) -> bool {
        let rest = Plan {
            status: SampleJobStatus::default(),
            events: Vec::new(),
            wake_at: None,
            ..self.clone()
        };
        rest == Plan::default()
    }
}

/// Whether a job sees to an operation that it started on `set`, and gives the lock back
/// when it has ended. One that by now names another set, or has a schedule, or is being
/// deleted does not.
pub fn sees_to(job: &SampleJob, set: &SampleSet) -> bool {
    let named = job.spec.sample_set_ref.as_ref();
    let named = named.and_then(|named| named.name.as_ref());
    named == set.metadata.name.as_ref()
        && !schedule::is_scheduled(job)
        && job.metadata.deletion_timestamp.is_none()
}

/// The ids of operations that every runtime server of the set is asked for
/// before planning.
pub fn asks(job: &SampleJob, set: Option<&SampleSet>) -> BTreeSet<String> {
    let status = job.status.as_ref();
    if status
        .and_then(|status| status.phase)
        .is_some_and(SampleJobPhase::is_terminal)
    {
        return BTreeSet::new();
    }
    let lock = set.and_then(|set| set.status.as_ref()?.operation.as_ref());
    let uid = job.metadata.uid.as_deref();
    let ours = lock.filter(|lock| Some(lock.owner.as_str()) == uid);
    // One that goes before all others cancels what is under way.
    let asked = match job.spec.terminate {
        Some(true) => lock,
        _ => ours,
    };
    asked.map_or_else(BTreeSet::new, |lock| operation::ids(&lock.id, lock.type_))
}

/// The Secrets that are read before planning, given all that is seen besides:
/// for every try of a sync.
pub fn secrets_needed(job: &SampleJob, seen: &Seen) -> SecretsNeeded {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let phase = job.status.as_ref().and_then(|status| status.phase);
    let is_over = phase.is_some_and(SampleJobPhase::is_terminal);
    let posts = match operation::state(&seen.answers, 0, uid) {
        State::NotFound | State::NeedsCredentials => true,
        _ => phase != Some(SampleJobPhase::Running),
    };
    let is_sync = job.spec.type_ == Some(Operation::Sync) && !schedule::is_scheduled(job);
    let set = seen.set.as_deref().filter(|_| is_sync && posts && !is_over);
    let credentials = set.and_then(|set| once::credentials(job, set));
    credentials.map_or_else(SecretsNeeded::default, |credentials| SecretsNeeded {
        source: credentials
            .source
            .filter(|source| *source != credentials.volume),
        volume: Some(credentials.volume),
    })
}

/// Decides what is to be done for `job`.
pub fn plan(job: &SampleJob, seen: &Seen, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let finalizers = job.metadata.finalizers.as_deref().unwrap_or_default();
    let is_go = |finalizer: &&String| finalizer.starts_with(labels::GO_SAMPLE_JOB_FINALIZER);
    if finalizers.iter().any(|finalizer| is_go(&finalizer)) {
        let others = finalizers.iter().filter(|finalizer| !is_go(finalizer));
        plan.finalizers = Some(others.cloned().collect());
    }
    if job.metadata.deletion_timestamp.is_some() {
        // Whoever finds the owner of the lock gone cancels its operation.
        return plan;
    }
    if schedule::is_scheduled(job) {
        schedule::plan(&mut plan, job, seen, settings, now);
    } else {
        once::plan(&mut plan, job, seen, settings, now);
    }
    if !plan.posted.is_empty() || !plan.cancelled.is_empty() {
        // A request may be lost, and a server that did not get it has nothing to tell.
        plan.look_again(now);
    }
    plan
}

/// How soon the new status has to be written.
pub fn urgency(old: Option<&SampleJobStatus>, new: &SampleJobStatus) -> Urgency {
    // All but how far it is, in figures and words.
    let essence = |status: &SampleJobStatus| SampleJobStatus {
        progress: None,
        message: None,
        ..status.clone()
    };
    Urgency::by(essence, old, new)
}

/// What the conditions are about.
pub(crate) mod condition {
    /// The job waits, and for what.
    pub(crate) const WAITING: &str = "Waiting";
    /// The operation succeeded.
    pub(crate) const COMPLETE: &str = "Complete";
    /// The operation failed.
    pub(crate) const FAILED: &str = "Failed";
    /// Options have no effect.
    pub(crate) const IGNORED: &str = "OptionsIgnored";
    /// Runs are made when they are due.
    pub(crate) const SCHEDULED: &str = "Scheduled";
}

impl Plan {
    fn say(
        &mut self,
        job: &SampleJob,
        (type_, holds): (&str, bool),
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        let conditions = &mut self.status.conditions;
        let generation = job.metadata.generation;
        set_condition(conditions, type_, holds, reason, message, generation, now);
    }

    fn told(&self, type_: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|told| told.type_ == type_)
    }
}
