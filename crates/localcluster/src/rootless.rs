//! An ordinary user has a machine of his own in a user namespace: there he is root,
//! makes networks and mounts, and nothing outside can be harmed.
//!
//! The namespaces are held by a process, the anchor, so that pods keep their network
//! when the main process dies, and the next one finds them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};

use caps::{CapSet, Capability};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid, pause, setsid};
use rustix::process::Signal;

use crate::process::Process;
use crate::shim::{self, read, say, write};
use crate::tools::ip;

const ANCHOR: &str = "anchor.json";

/// Why an ordinary user can't have it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No namespace.
    #[error(
        "ordinary users can't make namespaces on this machine ({0}): run this as root, or ask \
         for the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and \
         kernel.apparmor_restrict_unprivileged_userns to be set so that they can"
    )]
    Namespaces(io::Error),
    /// Something else.
    #[error("a namespace of our own: {0}")]
    Other(#[from] io::Error),
}

/// Whether this process must be moved to a namespace of its own before it can run pods.
pub fn is_needed() -> bool {
    !caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).unwrap_or(false)
}

/// Moves this process, which must have no second thread yet, to namespaces in which it
/// is root: those of an earlier life, or new ones. Sockets that it has stay where they
/// are.
///
/// # Errors
/// When the machine does not allow it.
pub fn enter(dir: &Path) -> Result<(), Error> {
    let anchor: Option<Process> = read(&dir.join(ANCHOR))?;
    if let Some(anchor) = anchor.filter(|anchor| anchor.open().is_some()) {
        return Ok(join(anchor)?);
    }
    let (uid, gid) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| Error::Namespaces(error.into()))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
        .map_err(|error| Error::Namespaces(error.into()))?;
    ip("link set lo up\n")?;
    let mut anchor = shim::command("anchor", &dir.join(ANCHOR));
    let mut anchor = anchor.stdout(Stdio::piped()).spawn()?;
    let said = anchor.stdout.take().map(BufReader::new);
    match said.map(|mut said| said.read_line(&mut String::new())) {
        Some(Ok(1..)) => Ok(()),
        _ => Err(io::Error::other("the process that holds it ended").into()),
    }
}

fn join(anchor: Process) -> io::Result<()> {
    let namespaces = [
        ("user", CloneFlags::CLONE_NEWUSER),
        ("mnt", CloneFlags::CLONE_NEWNS),
        ("net", CloneFlags::CLONE_NEWNET),
    ];
    let here = std::env::current_dir()?;
    for (name, kind) in namespaces {
        setns(File::open(format!("/proc/{}/ns/{name}", anchor.pid))?, kind)?;
    }
    // The mounts took us to their root.
    std::env::set_current_dir(here)
}

/// The anchor: stays until somebody ends it.
pub(crate) fn anchor(file: &Path) -> io::Result<ExitCode> {
    setsid()?;
    write(file, &Process::own()?)?;
    say("there")?;
    loop {
        pause();
    }
}

/// Lets go of the namespaces, if they are our own and nothing is left in them.
pub fn leave(dir: &Path) {
    if let Ok(Some(anchor)) = read::<Process>(&dir.join(ANCHOR)) {
        anchor.signal(Signal::KILL);
        let _: io::Result<()> = fs::remove_file(dir.join(ANCHOR));
    }
}

/// Whether a user is one of those that there are in our namespace.
pub(crate) fn has_user(id: u32) -> bool {
    is_mapped("/proc/self/uid_map", id)
}

/// Whether a group is.
pub(crate) fn has_group(id: u32) -> bool {
    is_mapped("/proc/self/gid_map", id)
}

fn is_mapped(map: &str, id: u32) -> bool {
    let map = fs::read_to_string(map).unwrap_or_default();
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        matches!(numbers.as_slice(), [first, _, count] if (*first..first + count).contains(&u64::from(id)))
    })
}
