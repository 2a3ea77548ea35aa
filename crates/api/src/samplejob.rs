//! SampleJob: one data operation on a SampleSet, once or on a schedule.

mod options;
mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use options::{ClearOptions, RmrOptions, SyncOptions, WarmupOptions};
pub use status::{CronJobStatus, Progress, SampleJobPhase, SampleJobReference, SampleJobStatus};

use crate::SecretReference;
use crate::core_schema::undescribed;

/// What is done to which SampleSet.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "batch.paddlepaddle.org",
    version = "v1alpha1",
    kind = "SampleJob",
    plural = "samplejobs",
    namespaced,
    status = "SampleJobStatus",
    derive = "PartialEq",
    doc = "SampleJob is one data operation on a SampleSet, once or on a schedule.",
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase")
)]
#[x_kube(validation = Rule::new(
    "!has(self.type) || self.type != 'rmr' || (has(self.rmrOptions) && has(self.rmrOptions.paths))")
    .message("rmrOptions.paths is missing: a job of type rmr needs at least one path to remove")
    .field_path(".rmrOptions")
    .reason(Reason::FieldValueRequired))]
#[serde(rename_all = "camelCase")]
pub struct SampleJobSpec {
    /// What is done: `sync` copies from the remote source, `warmup` caches on
    /// the nodes, `clear` drops what is cached, `rmr` removes data.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Operation>,

    /// The SampleSet, in the namespace of the SampleJob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_set_ref: Option<LocalSampleSetReference>,

    /// The Secret with the keys of the source of a `sync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,

    /// On a new job: it goes before all that wait, and the operation that is
    /// under way on the SampleSet is cancelled first. On a running job: it is
    /// cancelled. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminate: Option<bool>,

    /// Options of a `sync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_options: Option<SyncOptions>,

    /// Options of a `warmup`. Default: `spec.warmup` of the SampleSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_options: Option<WarmupOptions>,

    /// Options of an `rmr`, which needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmr_options: Option<RmrOptions>,

    /// Options of a `clear`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear_options: Option<ClearOptions>,

    /// A cron schedule, such as `0 3 * * *`. The job then runs nothing itself:
    /// it makes a SampleJob each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,

    /// The time zone of `schedule`, such as `Asia/Shanghai`. Default: that of
    /// the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,

    /// What happens when the time comes and the last run has not ended: `Allow`
    /// (the new one waits for its turn), `Forbid` (it is skipped) or `Replace`
    /// (the last one is cancelled). Default `Allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,

    /// Starts no new runs while true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// A run that could not start for so many seconds is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,

    /// How many succeeded runs are kept. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_jobs_history_limit: Option<i32>,

    /// How many failed runs are kept. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_jobs_history_limit: Option<i32>,

    /// The job is deleted so many seconds after it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A data operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = undescribed)]
pub enum Operation {
    /// Copies from the remote source.
    Sync,
    /// Caches on the nodes.
    Warmup,
    /// Drops what is cached.
    Clear,
    /// Removes data.
    Rmr,
}

impl Operation {
    /// The operation as it stands in YAML and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Sync => "sync",
            Operation::Warmup => "warmup",
            Operation::Clear => "clear",
            Operation::Rmr => "rmr",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A SampleSet in the namespace of the SampleJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSampleSetReference {
    /// Name of the SampleSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What happens when a run is due before the last one has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = undescribed)]
pub enum ConcurrencyPolicy {
    /// Both are made.
    #[default]
    Allow,
    /// The new one is skipped.
    Forbid,
    /// The last one is cancelled.
    Replace,
}
