//! What agent and shims write for each other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// The file that says what a container is to be.
pub const RUN: &str = "run.json";
/// The file that says that it was started.
pub const STARTED: &str = "started.json";
/// The file that says how it ended.
pub const EXIT: &str = "exit.json";
/// The file with what it wrote.
pub const LOG: &str = "log";

/// A process that is to be started in a container.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Run {
    /// The sandbox of the pod for a new container; for one more process, the first
    /// of the container.
    pub within: Process,
    /// The root of a new container; none: that of the process above.
    pub root: Option<Root>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// All of its environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: PathBuf,
    /// As whom.
    pub user: User,
    /// What it may do beyond what its user may.
    pub capabilities: Vec<String>,
    /// It never gains more, whatever it runs.
    pub no_new_privileges: bool,
    /// It may ask anything of the kernel.
    pub unconfined: bool,
    /// Its standard input is a terminal.
    pub terminal: bool,
}

/// As whom a process runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// More groups.
    pub groups: Vec<u32>,
}

/// What a container sees of the world.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Root {
    /// The image: a directory that is not changed.
    pub lower: PathBuf,
    /// A directory of the container's own, with `upper`, `work` and `root`.
    pub own: PathBuf,
    /// It can't be written.
    pub read_only: bool,
    /// Directories of the machine that are hidden.
    pub hidden: Vec<PathBuf>,
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
}

/// Something that is mounted in a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Where from.
    pub source: PathBuf,
    /// Where to, in the container.
    pub target: PathBuf,
    /// How.
    pub kind: MountKind,
}

/// How something is mounted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum MountKind {
    /// The very directory or file, to read and write.
    Writable,
    /// The very directory or file, to read.
    ReadOnly,
    /// The directory, and changes stay in the container.
    CopyOnWrite,
}

/// A container that was started.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Started {
    /// The shim, which lives as long as the container.
    pub shim: Process,
    /// The first process of the container.
    pub first: Process,
    /// When.
    pub at: Timestamp,
}

/// A container that ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Exited {
    /// Its exit code; 128 and the signal, if one ended it.
    pub code: i32,
    /// The signal.
    pub signal: Option<i32>,
    /// Why it could not be started, if so.
    pub failure: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Reads a record; none when it was not written.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        // One that a crash of the machine left half-written was not written.
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a record so that it is there as a whole or not at all.
pub fn write(path: &Path, record: &impl Serialize) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}
