//! Processes that may have been started by an earlier life of this program.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;

/// A process, told from a later one that got the same number by its time of birth.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it began, in ticks since the machine did.
    pub born: u64,
}

impl Process {
    /// The process that has a number now.
    pub fn of(pid: u32) -> io::Result<Process> {
        let pid = i32::try_from(pid).map_err(io::Error::other)?;
        Ok(Process {
            pid,
            born: born(pid)?,
        })
    }

    /// This very process.
    pub fn own() -> io::Result<Process> {
        Process::of(std::process::id())
    }

    /// A handle by which no other process can be meant; none when it is gone.
    pub fn open(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The number was this process's before and after it was opened.
        (born(self.pid).ok()? == self.born).then_some(handle)
    }

    /// Until it ends.
    pub async fn end(self) {
        if let Some(Ok(handle)) = self.open().map(asynchronous) {
            let _ = handle.readable().await;
        }
    }

    /// Kills it and all others of the group that it leads, if it is still there.
    pub fn kill_group(self) {
        // While the handle is open, the number is not another's.
        if let (Some(_handle), Some(pid)) = (self.open(), Pid::from_raw(self.pid))
            && let Err(error) = kill_process_group(pid, Signal::KILL)
        {
            tracing::debug!(pid = self.pid, %error, "kill of a group");
        }
    }

    /// Sends a signal, if the process is still there.
    pub fn signal(self, signal: Signal) {
        if let Some(handle) = self.open()
            && let Err(error) = pidfd_send_signal(handle, signal)
        {
            tracing::debug!(pid = self.pid, %error, "signal");
        }
    }
}

/// Field 22 of `/proc/<pid>/stat`. The name before it may hold anything, but no
/// field behind it a parenthesis.
fn born(pid: i32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    let field = behind_name.and_then(|rest| rest.split_whitespace().nth(19));
    let born = field.and_then(|field| field.parse().ok());
    born.ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat can't be read")))
}

/// A handle that can be waited for.
#[expect(
    deprecated,
    reason = "an OwnedFd stays the same and open, which is all that the new form asks for; but \
              that is unsafe code, of which there is none here"
)]
pub(crate) fn asynchronous(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(handle)
}
