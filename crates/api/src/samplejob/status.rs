//! What the operator says of a SampleJob.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;
use crate::meta::empty_as_none;

/// What became of the SampleJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleJobStatus {
    /// Pending, Running, Succeeded or Failed; Scheduled for a job with a
    /// schedule.
    #[serde(
        default,
        deserialize_with = "empty_as_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<SampleJobPhase>,
    /// Id of the operation on the cache runtime servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// It was started with `terminate: true`, and went before all that waited:
    /// setting it later cancels the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminates: Option<bool>,
    /// How far the operation is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When the operation started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// What the job waits for, does, or failed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The runs of a job with a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron_job_status: Option<CronJobStatus>,
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why the job is in its phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The phase of a SampleJob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum SampleJobPhase {
    /// It waits for its turn, or for the SampleSet.
    Pending,
    /// The operation is under way.
    Running,
    /// The operation succeeded.
    Succeeded,
    /// The operation failed; the condition Failed says why.
    Failed,
    /// It has a schedule and makes a SampleJob for each run.
    Scheduled,
    /// A phase that this version does not know.
    #[serde(other)]
    Unknown,
}

impl SampleJobPhase {
    /// Whether the job has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, SampleJobPhase::Succeeded | SampleJobPhase::Failed)
    }
}

impl std::fmt::Display for SampleJobPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// How far an operation is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Files that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<i64>,
    /// Files that are to be done, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_files: Option<i64>,
    /// Bytes that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Bytes that are to be done, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// What is done, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
}

/// The runs of a job with a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The runs that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<SampleJobReference>,
    /// When a run was last made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the next run is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
}

/// A SampleJob that a schedule made.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SampleJobReference {
    /// Name of the SampleJob.
    #[serde(default)]
    pub name: String,
    /// Its uid: another SampleJob of the same name is another one.
    #[serde(default)]
    pub uid: String,
}
