//! The options of each data operation.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Sampler, WarmupStrategy};

/// Options of a sync; they are those of `juicefs sync`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("!has(self.manager) || self.manager == ''")
    .message("manager is not supported: a sync runs in the runtime server of partition 0; remove the field")
    .field_path(".manager")
    .reason(Reason::FieldValueForbidden))]
#[x_kube(validation = Rule::new("!has(self.worker) || self.worker == ''")
    .message("worker is not supported: a sync runs in the runtime server of partition 0; remove the field")
    .field_path(".worker")
    .reason(Reason::FieldValueForbidden))]
#[serde(rename_all = "kebab-case")]
pub struct SyncOptions {
    /// The folder to copy from, as in `spec.source.uri` of a SampleSet, which
    /// is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The folder to copy to, relative to the root of the data. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The first name to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The last name to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Leaves out names that match this pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// Copies names that match this pattern, even if `exclude` matches too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// Not supported, and refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// Not supported, and refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Files that are copied at once. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
    /// JuiceFS no longer has this option; a condition says that it is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_port: Option<i64>,
    /// Limit of the bandwidth in Mbps. Default 0, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bwlimit: Option<i64>,
    /// Copies files that are there already when they are older than in the source; by default,
    /// when their size differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<bool>,
    /// Copies every file again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_update: Option<bool>,
    /// Keeps permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perms: Option<bool>,
    /// Also copies directories, even empty ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirs: Option<bool>,
    /// Copies nothing, and only says what would be copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry: Option<bool>,
    /// Deletes files from the source when they have been copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_src: Option<bool>,
    /// Deletes files that the source does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_dst: Option<bool>,
    /// Reaches the source by HTTP instead of HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_https: Option<bool>,
}

/// Options of a warmup. What is unset is taken from `spec.warmup` of the
/// SampleSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmupOptions {
    /// Paths to cache, relative to the root of the data. Default: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
    /// Ignored: the number of partitions is that of the SampleSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub partitions: Option<i32>,
    /// How files are shared out to partitions: `sequence` or `random`, as the
    /// sampler of the training does it without or with shuffle. Default: that
    /// of the SampleSet, else `sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_name: Option<WarmupStrategy>,
    /// The sampler of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,
    /// A list of files, relative to the root of the data; the paths in it start
    /// at its own directory. The list itself is cached on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Files that one node reads at once. Default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
}

/// Options of an rmr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RmrOptions {
    /// Paths to remove, relative to the root of the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
}

/// Options of a clear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearOptions {
    /// Paths whose cached data is dropped, relative to the root of the data.
    /// Default: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
}
