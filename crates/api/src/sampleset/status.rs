//! What the operator says of a SampleSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::meta::empty_as_none;
use crate::{Cache, Condition, Csi, Operation};

/// What became of the SampleSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleSetStatus {
    /// Bound, Mount, Syncing, SyncFailed, PartialReady or Ready; none while the
    /// volume is being set up.
    #[serde(
        default,
        deserialize_with = "empty_as_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<SampleSetPhase>,
    /// How much there is, and how much of it is cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_status: Option<CacheStatus>,
    /// The cache runtime servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_status: Option<RuntimeStatus>,
    /// The data operations that the SampleSet started itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_name: Option<JobsName>,
    /// The data operation that is under way, of the SampleSet itself or of a
    /// SampleJob. While it is set no other one starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationStatus>,
    /// How many data operations the SampleSet has started itself; their ids
    /// count on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_started: Option<i64>,
    /// The last copy from the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<AttemptStatus>,
    /// The last caching by the SampleSet itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<AttemptStatus>,
    /// What the volume was made of: later changes are not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeStatus>,
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why the SampleSet is in its phase, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The phase of a SampleSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum SampleSetPhase {
    /// The volume is bound.
    Bound,
    /// The volume is mounted by a cache runtime server.
    Mount,
    /// Data is being copied from the source.
    Syncing,
    /// Data could not be copied; it is tried again from time to time.
    SyncFailed,
    /// The data is there; it is being cached, or runtime servers are missing.
    PartialReady,
    /// The data is there and has been cached.
    Ready,
    /// A phase that this version does not know.
    #[serde(other)]
    Unknown,
}

impl std::fmt::Display for SampleSetPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// How much there is, and how much of it is cached. Sizes are for people, such
/// as `58 MiB`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheStatus {
    /// Size of all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_size: Option<String>,
    /// Number of files, such as `12,800`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_files: Option<String>,
    /// Size of what is cached on all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_size: Option<String>,
    /// How much of all data is cached, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_percent: Option<i32>,
    /// Size of the disks that hold the caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<String>,
    /// What is used of these disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_used: Option<String>,
    /// What is free on these disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_avail: Option<String>,
    /// What is used of these disks, such as `12.3%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_usage_rate: Option<String>,
    /// Why figures are missing. (The name is misspelt for compatibility.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_massage: Option<String>,
    /// The partitions one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionStatus>,
    /// When these figures were last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// What is cached of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionStatus {
    /// Number of the partition, from 0.
    #[serde(default)]
    pub partition: i32,
    /// The node that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Size of what is cached there, such as `29 MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
    /// How much of the partition's own data is cached, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
    /// Size of the partition's own data in bytes, as it was last cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_bytes: Option<i64>,
    /// Fingerprint of what it was last cached as: options, number of
    /// partitions, node. When one of them changes it is cached again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmed: Option<String>,
}

/// The cache runtime servers, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatus {
    /// Ready and wanted servers, such as `1/1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ready: Option<String>,
    /// Servers that are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_replicas: Option<i32>,
    /// Servers that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
}

/// The data operations that a SampleSet started itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobsName {
    /// Id of its last sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_job_name: Option<String>,
    /// Id of its last warmup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_job_name: Option<String>,
}

/// The data operation that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// Id of the operation on the cache runtime servers.
    pub id: String,
    /// sync, warmup, clear or rmr.
    #[serde(rename = "type")]
    pub type_: Operation,
    /// The uid of the SampleSet or SampleJob that started it.
    pub owner: String,
    /// The operation that the SampleSet starts after it, before any SampleJob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<Operation>,
    /// The number of partitions that it was started for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// Fingerprint of the options that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How the last try of an operation of the SampleSet itself ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStatus {
    /// Fingerprint of what was asked for; something else is tried at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The `metadata.generation` of the last try: after any change of the spec
    /// what failed is tried again at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// How often it failed since it last succeeded or the spec changed.
    #[serde(default)]
    pub failures: i32,
    /// When the last try ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// What the volume of a SampleSet was made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Fingerprint of `csi`, `cache` and `secretRef`.
    #[serde(default)]
    pub key: String,
    /// Name of the Secret.
    #[serde(default)]
    pub secret: String,
    /// What `csi` was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi: Option<Csi>,
    /// What `cache` was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}
