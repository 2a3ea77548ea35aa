//! What is to be done for a SampleJob.

use std::collections::BTreeSet;

use api::{OperationStatus, SampleJob, SampleJobStatus, SampleSet};
use jiff::Timestamp;
use serde_json::Value;

mod world;

pub use world::{Rival, Run, Seen, Settings};

use crate::Event;
use crate::operation::{Cancel, Post};
use crate::sampleset::SecretsNeeded;

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

/// The ids of operations that every runtime server of the set is asked for
/// before planning.
pub fn asks(job: &SampleJob, set: Option<&SampleSet>) -> BTreeSet<String> {
    let _ = (job, set);
    BTreeSet::new()
}

/// The Secrets that are read before planning.
pub fn secrets_needed(job: &SampleJob, set: Option<&SampleSet>) -> SecretsNeeded {
    let _ = (job, set);
    SecretsNeeded::default()
}

/// Decides what is to be done for `job`.
pub fn plan(job: &SampleJob, seen: &Seen, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let _ = (seen, settings);
    plan.wake_at(now);
    plan
}
