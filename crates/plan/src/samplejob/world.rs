//! What the controller sees of the world of a SampleJob.

use std::sync::Arc;

use api::{ConditionStatus, SampleJob, SampleJobPhase, SampleSet};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::condition::WAITING;
use super::schedule::is_scheduled;
use super::turn::TURN;
use crate::operation::Answers;
use crate::sampleset::{RuntimePod, SecretSeen};

/// How the operator was started, as far as decisions depend on it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sources may be folders of the machine.
    pub allow_local_paths: bool,
    /// The time zone of schedules that name none.
    pub time_zone: TimeZone,
}

/// Everything that a pass may base its decisions on, besides the job itself.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The SampleSet that the job names, in the job's namespace.
    pub set: Option<Arc<SampleSet>>,
    /// The other SampleJobs of that set that have no schedule and have not ended.
    pub rivals: Vec<Rival>,
    /// The pods of the runtime servers of that set.
    pub pods: Vec<RuntimePod>,
    /// What each runtime server answered to [`asks`](super::asks).
    pub answers: Answers,
    /// The Secret of the volume; `None` when it was not read, see
    /// [`secrets_needed`](super::secrets_needed).
    pub volume_secret: Option<SecretSeen>,
    /// The Secret with the keys of the source, if it is another one.
    pub source_secret: Option<SecretSeen>,
    /// The SampleJobs that this one made by its schedule.
    pub runs: Vec<Run>,
}

/// Another SampleJob of the same set that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its `spec.terminate`.
    pub terminates: bool,
    /// It waits for something that is missing, and lets others go first.
    pub is_blocked: bool,
}

impl Rival {
    /// What is to be known of a SampleJob; `None` when it has ended, is being
    /// deleted, or has a schedule.
    pub fn of(job: &SampleJob) -> Option<Rival> {
        let status = job.status.as_ref();
        let phase = status.and_then(|status| status.phase);
        let is_over = phase.is_some_and(SampleJobPhase::is_terminal);
        if is_over || is_scheduled(job) || job.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let mut told = status.into_iter().flat_map(|status| &status.conditions);
        let told = told.find(|told| told.type_ == WAITING);
        let told = told.filter(|told| told.status == ConditionStatus::True);
        Some(Rival {
            name: job.metadata.name.clone()?,
            uid: job.metadata.uid.clone()?,
            created: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
            terminates: job.spec.terminate == Some(true),
            is_blocked: told.is_some_and(|told| told.reason != TURN),
        })
    }
}

/// A SampleJob that a schedule made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was due: its annotation
    /// [`SCHEDULED_AT`](api::labels::SCHEDULED_AT).
    pub due: Option<Timestamp>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its phase.
    pub phase: Option<SampleJobPhase>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// It is being deleted.
    pub is_going: bool,
}
