//! Data operations on the runtime servers of a SampleSet: what is asked of
//! them, what they answer, and what follows from all answers together. SampleSet
//! and SampleJob share it.

use std::collections::BTreeMap;

use api::{Operation, Progress, SampleOrder, SyncOptions, WarmupStrategy};
use jiff::SignedDuration;

mod course;
pub mod paths;
pub mod source;
mod tasks;

pub(crate) use course::percent;
pub use course::{Course, Ending, Order, Outcome, end, follow, ids};
pub(crate) use tasks::gone_options;
pub use tasks::{clear, rmr, sync, warmup};

/// How long it takes to look again for what no watch tells: a server that does not
/// answer, a Secret that is missing.
pub(crate) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// An operation for one runtime server: `POST /v1/jobs`.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// The partition whose server is asked.
    pub partition: i32,
    /// Id of the operation; posting it again is harmless.
    pub id: String,
    /// The uid of the SampleSet or SampleJob that wants it.
    pub owner: String,
    /// What is to be done.
    pub task: Task,
    /// Where its keys are. The controller reads them for this request and
    /// forgets them.
    pub credentials: Option<Credentials>,
}

/// An operation that a server is to end, whether it runs or waits:
/// `DELETE /v1/jobs/{id}`. From then on the server says [`State::Cancelled`] of
/// it, so that whoever owns it learns of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cancel {
    /// The partition whose server is asked.
    pub partition: i32,
    /// Id of the operation.
    pub id: String,
}

/// What a server is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Copy from the source into the volume, past the cache of the node.
    Sync(Box<SyncTask>),
    /// Cache the files of the partition.
    Warmup(WarmupTask),
    /// Drop cached blocks: all of them, or those of files under the paths.
    Clear {
        /// Relative to the root of the data; none: everything.
        paths: Vec<String>,
    },
    /// Drop the cached blocks of files under the paths, then remove these files.
    Rmr {
        /// Relative to the root of the data.
        paths: Vec<String>,
    },
    /// Count the files of the partition again, because another server removed some.
    Recount,
}

impl Task {
    /// The operation that it is.
    pub const fn operation(&self) -> Operation {
        match self {
            Task::Sync(_) => Operation::Sync,
            Task::Warmup(_) => Operation::Warmup,
            Task::Clear { .. } => Operation::Clear,
            Task::Rmr { .. } | Task::Recount => Operation::Rmr,
        }
    }
}

/// A copy from a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncTask {
    /// The folder to copy from; it ends with `/` and holds no key.
    pub source: String,
    /// The folder to copy to, relative to the root of the data; empty or ending
    /// with `/`.
    pub destination: String,
    /// The rest: its `source` and `destination` and all that JuiceFS no longer
    /// has are unset.
    pub options: SyncOptions,
}

/// The caching of one partition, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmupTask {
    /// The partition.
    pub partition: i32,
    /// All partitions.
    pub partitions: i32,
    /// Without or with shuffle.
    pub strategy: WarmupStrategy,
    /// Training processes per partition.
    pub ranks_per_partition: i32,
    /// All training processes.
    pub replicas: i32,
    /// Samples per batch.
    pub batch_size: i32,
    /// The epoch whose permutation is used.
    pub epoch: i32,
    /// Whether a short last batch is left out.
    pub drop_last: bool,
    /// What counts as a sample.
    pub order: SampleOrder,
    /// Paths to cache; none: everything.
    pub paths: Vec<String>,
    /// The list of files.
    pub file: Option<String>,
    /// Files that are read at once.
    pub threads: i64,
    /// First drop what is cached of files that are not this partition's.
    pub evict_others: bool,
}

/// The Secrets that hold the keys of a sync, in the namespace of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The Secret of the volume, for its `metaurl`.
    pub volume: String,
    /// The Secret with `access-key` and `secret-key` of the source, if there is
    /// one.
    pub source: Option<String>,
}

impl Credentials {
    /// Of a source without a Secret of its own: that of the volume.
    pub(crate) fn new(volume: String, source: Option<String>) -> Credentials {
        Credentials {
            source: Some(source.unwrap_or_else(|| volume.clone())),
            volume,
        }
    }
}

/// What a server says of the operation with some id.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has never heard of it.
    NotFound,
    /// It waits for its turn.
    Queued,
    /// It was interrupted and needs to be posted again, with its keys.
    NeedsCredentials,
    /// It is under way.
    Running(Progress),
    /// It is done.
    Succeeded(Done),
    /// It failed.
    Failed {
        /// One word.
        reason: String,
        /// What a person wants to know; it holds no key.
        message: String,
    },
    /// It was ended by a [`Cancel`].
    Cancelled,
    /// The server does not answer, or has not yet.
    Unreachable {
        /// Why; `None`: it has not been heard yet.
        message: Option<String>,
    },
}

/// What an operation did on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// A warmup: how many samples its listing of all data had, and their CRC-32.
    pub listing: Option<Listing>,
    /// Files that were copied, cached or removed.
    pub files: i64,
    /// Their size.
    pub bytes: i64,
    /// A warmup: what of these bytes is cached afterwards.
    pub cached_bytes: i64,
}

/// What a server found in the volume; it is the same on all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// How many samples.
    pub count: i64,
    /// CRC-32 of their paths in order.
    pub crc: u32,
}

/// What the server of one partition answered last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// `GET /v1/cache`.
    pub cache: Option<CacheFigures>,
    /// Why the server does not answer, if it does not.
    pub error: Option<String>,
    /// The operations that it was asked for, by id.
    pub operations: BTreeMap<String, State>,
}

/// What is cached on the node of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// All data in the volume, once it has been counted.
    pub total: Option<Total>,
    /// What is cached on this node.
    pub cached_bytes: u64,
    /// Size of the disks that hold the cache.
    pub disk_size: u64,
    /// What is used of them.
    pub disk_used: u64,
    /// What is free on them.
    pub disk_avail: u64,
    /// Size of the partition's own share, as its last warmup found it.
    pub share_bytes: Option<u64>,
    /// Why a figure is missing.
    pub error: Option<String>,
}

/// All data in a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Its size.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
}

/// The answers of all servers, by partition.
pub type Answers = BTreeMap<i32, Answer>;

/// What the server of `partition` says of the operation `id`.
pub fn state(answers: &Answers, partition: i32, id: &str) -> State {
    let unheard = State::Unreachable { message: None };
    let Some(answer) = answers.get(&partition) else {
        return unheard;
    };
    match (answer.operations.get(id), &answer.error) {
        (_, Some(error)) => State::Unreachable {
            message: Some(error.clone()),
        },
        (Some(state), None) => state.clone(),
        (None, None) => unheard,
    }
}
