//! How files are shared out to the partitions of a SampleSet. The names are
//! Paddle's, because a warmup is only of use if it agrees with the sampler
//! that the training uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core_schema::undescribed;

/// The order in which the training reads its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = undescribed)]
pub enum WarmupStrategy {
    /// As `paddle.io.DistributedBatchSampler` without shuffle.
    #[default]
    Sequence,
    /// As `paddle.io.DistributedBatchSampler` with shuffle: the same permutation.
    Random,
}

/// The sampler that the training uses, so that every node caches the files
/// that its worker reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sampler {
    /// Training processes on the node of one partition, usually the number of
    /// its GPUs. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub ranks_per_partition: Option<i32>,

    /// `num_replicas` of the sampler: all training processes of the job.
    /// Default: `partitions` × `ranksPerPartition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,

    /// `batch_size` of the sampler. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub batch_size: Option<i32>,

    /// The epoch whose permutation is used with strategy `random`. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub epoch: Option<i32>,

    /// `drop_last` of the sampler. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_last: Option<bool>,

    /// What counts as a sample, and in which order: `all` (every file, by the
    /// bytes of its path), `list` (the lines of `file`), `folder` (as
    /// `paddle.vision.datasets.DatasetFolder`) or `image` (as
    /// `paddle.vision.datasets.ImageFolder`). Default: `list` when `file` is
    /// set, else `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<SampleOrder>,
}

/// What counts as a sample, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = undescribed)]
pub enum SampleOrder {
    /// Every regular file, by the bytes of its path.
    All,
    /// The lines of the list file.
    List,
    /// As `paddle.vision.datasets.DatasetFolder`.
    Folder,
    /// As `paddle.vision.datasets.ImageFolder`.
    Image,
}
