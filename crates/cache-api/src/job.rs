//! Jobs: one data operation on one server.

use serde::{Deserialize, Serialize};

use crate::Credentials;

/// A job that is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewJob {
    /// Chosen by the caller: letters, digits, `-` and `.`, at most 128.
    pub id: String,
    /// The uid of the object that it is done for.
    pub owner: String,
    /// What is to be done.
    pub task: Task,
    /// What a sync needs to reach its source and the volume. They are not kept:
    /// after a restart the server asks for them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Task {
    /// Copies from a source into the volume.
    Sync(Sync),
    /// Caches this node's share of the data.
    Warmup(Warmup),
    /// Drops what is cached.
    Clear(Clear),
    /// Drops what is cached of some paths, then removes them from the volume.
    Rmr(Rmr),
    /// Counts this node's share again, because data was removed by another server.
    Recount,
}

impl Task {
    /// The operation as it stands in YAML and in messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Task::Sync(_) => "sync",
            Task::Warmup(_) => "warmup",
            Task::Clear(_) => "clear",
            Task::Rmr(_) => "rmr",
            Task::Recount => "recount",
        }
    }
}

/// Options of a sync; they are those of `juicefs sync`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Sync {
    /// The folder to copy from, without keys: `s3://bucket.endpoint/prefix`.
    pub source: String,
    /// The folder to copy to, relative to the root of the data.
    pub destination: String,
    /// The first name to copy.
    pub start: Option<String>,
    /// The last name to copy.
    pub end: Option<String>,
    /// Leaves out names that match.
    pub exclude: Option<String>,
    /// Copies names that match, even if `exclude` matches too.
    pub include: Option<String>,
    /// Files that are copied at once.
    pub threads: Option<u32>,
    /// Limit of the bandwidth in Mbps.
    pub bwlimit: Option<u32>,
    /// Also copies files that are there already and older.
    pub update: bool,
    /// Also copies files that are there already.
    pub force_update: bool,
    /// Keeps permissions.
    pub perms: bool,
    /// Also copies directories, even empty ones.
    pub dirs: bool,
    /// Copies nothing, and only counts what would be copied.
    pub dry: bool,
    /// Deletes files from the source when they have been copied.
    pub delete_src: bool,
    /// Deletes files that the source does not have.
    pub delete_dst: bool,
    /// Reaches the source by HTTP instead of HTTPS.
    pub no_https: bool,
}

/// Options of a warmup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Warmup {
    /// The partition that this node holds, from 0.
    pub partition: u32,
    /// The sampler that the training will use.
    pub sampler: Sampler,
    /// Paths to cache, relative to the root of the data. None: everything.
    pub paths: Vec<String>,
    /// The list of files, relative to the root of the data; itself cached on
    /// every node.
    pub file: Option<String>,
    /// Files that are read at once.
    pub threads: Option<u32>,
    /// Drops what is cached and not this partition's, because partitions have
    /// moved.
    pub evict_others: bool,
}

/// The sampler of the training: which rank reads which file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sampler {
    /// Training processes on the node of one partition.
    pub ranks_per_partition: u32,
    /// All training processes of the job.
    pub replicas: u32,
    /// Files per batch.
    pub batch_size: u32,
    /// The epoch whose permutation is used.
    pub epoch: u32,
    /// Whether the files are shuffled.
    pub shuffle: bool,
    /// Whether a short last batch is left out.
    pub drop_last: bool,
    /// What counts as a sample, and in which order.
    pub order: Order,
}

/// What counts as a sample, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Every regular file, by the bytes of its path.
    #[default]
    All,
    /// The lines of the list file.
    List,
    /// As `paddle.vision.datasets.DatasetFolder`.
    Folder,
    /// As `paddle.vision.datasets.ImageFolder`.
    Image,
}

/// Options of a clear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Clear {
    /// Paths whose cached data is dropped, relative to the root of the data.
    /// None: everything.
    pub paths: Vec<String>,
}

/// Options of an rmr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Rmr {
    /// Paths to remove, relative to the root of the data.
    pub paths: Vec<String>,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// The id that the caller chose.
    pub id: String,
    /// sync, warmup, clear, rmr or recount.
    #[serde(rename = "type")]
    pub type_: String,
    /// The uid of the object that it is done for.
    pub owner: String,
    /// Changes whenever another field does.
    pub revision: u64,
    /// Whether it waits, runs or has ended.
    #[serde(flatten)]
    pub state: JobState,
    /// What has been done of it.
    #[serde(default)]
    pub progress: Progress,
}

/// Whether a job waits, runs or has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "result", rename_all = "kebab-case")]
pub enum JobState {
    /// It waits for its turn.
    Queued,
    /// The server was restarted and has no keys any more: post the job again.
    /// It holds no place in the queue.
    NeedsCredentials,
    /// It is under way.
    Running,
    /// It is done.
    Succeeded(Outcome),
    /// It could not be done.
    Failed(Failure),
    /// It was ended on request.
    Cancelled,
}

impl JobState {
    /// Whether the job has ended.
    pub const fn has_ended(&self) -> bool {
        matches!(
            self,
            JobState::Succeeded(_) | JobState::Failed(_) | JobState::Cancelled
        )
    }
}

/// What has been done of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// Files that are to be done, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_files: Option<u64>,
    /// Bytes that are done.
    pub bytes: u64,
    /// Bytes that are to be done, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
}

/// What a job that is done has found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outcome {
    /// Of a warmup: the list of all files, which must be the same on every
    /// server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Listing>,
    /// Of a warmup: bytes of the files that were chosen for this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// Of a warmup: how much of that is cached, as checked afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
}

/// A list of files, told from others by its length and checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Number of files.
    pub files: u64,
    /// CRC-32 of their paths.
    pub crc32: u32,
}

/// Why a job could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// One word that programs may rely on, such as `EmptySource`.
    pub reason: String,
    /// What was found, and what would help. Never a key.
    pub message: String,
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn jobs_are_plain_on_the_wire() {
        let job = NewJob {
            id: "a-1".to_owned(),
            owner: "uid".to_owned(),
            task: Task::Clear(Clear {
                paths: vec!["x".to_owned()],
            }),
            credentials: None,
        };
        let wire = serde_json::to_value(&job).unwrap();
        let expected =
            json!({"id": "a-1", "owner": "uid", "task": {"type": "clear", "paths": ["x"]}});
        assert_eq!(wire, expected);
        assert_eq!(serde_json::from_value::<NewJob>(wire).unwrap(), job);
    }

    #[test]
    fn states_are_words() {
        let of = |state: JobState| {
            let job = Job {
                id: "a".to_owned(),
                type_: "sync".to_owned(),
                owner: "uid".to_owned(),
                revision: 3,
                state,
                progress: Progress::default(),
            };
            let wire = serde_json::to_value(&job).unwrap();
            assert_eq!(serde_json::from_value::<Job>(wire.clone()).unwrap(), job);
            (wire["state"].clone(), wire["result"].clone())
        };
        assert_eq!(of(JobState::Queued).0, "queued");
        assert_eq!(
            of(JobState::NeedsCredentials),
            (json!("needs-credentials"), Value::Null)
        );
        let failed = JobState::Failed(Failure {
            reason: "EmptySource".to_owned(),
            message: "no".to_owned(),
        });
        assert_eq!(of(failed).1["reason"], "EmptySource");
    }

    #[test]
    fn an_option_that_is_not_known_is_refused() {
        let task = json!({"type": "rmr", "path": ["x"]});
        assert!(serde_json::from_value::<Task>(task).is_err());
    }
}
