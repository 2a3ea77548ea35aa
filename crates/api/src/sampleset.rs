//! SampleSet: a remote data set, cached next to the training.

mod mount_options;
mod status;

use k8s_openapi::api::core::v1::{NodeAffinity, ResourceRequirements, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use mount_options::JuiceFsMountOptions;
pub use status::{
    AttemptStatus, CacheStatus, JobsName, OperationStatus, PartitionStatus, RuntimeStatus,
    SampleSetPhase, SampleSetStatus, VolumeStatus,
};

use crate::core_schema::{core, undescribed};
use crate::{Sampler, SecretReference, WarmupStrategy};

/// Where the data comes from, and how it is cached.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::duplicated_attributes,
    reason = "each printcolumn has a type of its own"
)]
#[kube(
    group = "batch.paddlepaddle.org",
    version = "v1alpha1",
    kind = "SampleSet",
    plural = "samplesets",
    namespaced,
    status = "SampleSetStatus",
    derive = "PartialEq",
    doc = "SampleSet is a remote data set that is synced into JuiceFS and cached on nodes, one partition per node.",
    printcolumn(
        name = "TOTAL SIZE",
        type_ = "string",
        json_path = ".status.cacheStatus.totalSize"
    ),
    printcolumn(
        name = "CACHED SIZE",
        type_ = "string",
        json_path = ".status.cacheStatus.cachedSize"
    ),
    printcolumn(
        name = "AVAIL SPACE",
        type_ = "string",
        json_path = ".status.cacheStatus.diskAvail"
    ),
    printcolumn(
        name = "Runtime",
        type_ = "string",
        json_path = ".status.runtimeStatus.runtimeReady"
    ),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SampleSetSpec {
    /// Number of partitions; each is cached on a node of its own. It may be
    /// changed at any time. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub partitions: Option<i32>,

    /// The remote data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SampleSource>,

    /// The Secret that describes the JuiceFS volume: keys `name`, `storage`,
    /// `bucket` and `metaurl`, and where the storage asks for them `access-key`
    /// and `secret-key`. In local mode a set without it gets a volume on the
    /// machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,

    /// Whether the volume already holds the data, so that nothing is to be
    /// copied from `source`. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_sync: Option<bool>,

    /// The CSI driver that mounts the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi: Option<Csi>,

    /// Where nodes keep cached data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,

    /// The nodes that may hold a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "core::<NodeAffinity>")]
    pub node_affinity: Option<NodeAffinity>,

    /// Taints that the cache runtime servers tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "core::<Vec<Toleration>>")]
    pub tolerations: Option<Vec<Toleration>>,

    /// How data is cached after every successful sync. The `warmupOptions` of
    /// SampleJobs default to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Warmup>,

    /// The cache runtime servers, one per partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
}

/// The remote data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleSource {
    /// A folder, as `NAME://BUCKET[.ENDPOINT][/PREFIX]`, for example
    /// `bos://paddleflow-public.hkg.bcebos.com/imagenet/demo`. Everything below
    /// it is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 10))]
    pub uri: Option<String>,

    /// The Secret with `access-key` and `secret-key` of the source. Default:
    /// `spec.secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// The CSI driver that mounts the volume. Changes are ignored once the volume
/// is bound; a condition says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Csi {
    /// Name of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "juicefs"))]
    pub driver: Option<CsiDriver>,

    /// Options of `juicefs mount`.
    #[serde(
        default,
        rename = "juiceFSMountOptions",
        skip_serializing_if = "Option::is_none"
    )]
    pub juicefs_mount_options: Option<JuiceFsMountOptions>,
}

/// A CSI driver that the operator knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = undescribed)]
pub enum CsiDriver {
    /// `csi.juicefs.com`.
    #[default]
    Juicefs,
}

/// Where nodes keep cached data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// Directories on each node. JuiceFS spreads blocks over all of them: they
    /// are not tiers. Default: one on SSD below `/var/lib/juicefs`. Changes are
    /// ignored once the volume is bound; a condition says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub levels: Vec<CacheLevel>,
}

/// A directory, or several, for cached data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheLevel {
    /// What the directory is on: `MEM`, `SSD` or `HDD`. `MEM` defaults `path`
    /// to `/dev/shm`, and its size counts as memory of the mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium_type: Option<MediumType>,

    /// The directory, or several with `:` between them. They must lie below one
    /// of the manager's `--cache-path-prefixes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub path: Option<String>,

    /// Size in MiB. Unset: as much as `free-space-ratio` leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<i64>,
}

/// What a cache directory is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(transform = undescribed)]
pub enum MediumType {
    /// Memory.
    Mem,
    /// Solid state disk.
    Ssd,
    /// Hard disk.
    Hdd,
}

/// How data is cached after a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warmup {
    /// Whether data is cached after every successful sync. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// How files are shared out to partitions: `sequence` or `random`, as the
    /// sampler of the training does it without or with shuffle. Default
    /// `sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_name: Option<WarmupStrategy>,

    /// The sampler of the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,

    /// Paths to cache, relative to the root of the data. Default: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,

    /// A list of files, relative to the root of the data; the paths in it start
    /// at its own directory. The list itself is cached on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,

    /// Files that one node reads at once. Default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub threads: Option<i32>,
}

/// The cache runtime servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// CPU and memory of each server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "core::<ResourceRequirements>")]
    pub resources: Option<ResourceRequirements>,
}
