//! The processes that stand between the node agent and containers.
//!
//! They are this program itself, started again, and outlive the agent: a sandbox
//! holds the namespaces of a pod, and a container's shim writes its log and how it
//! ended. Between them and the agent there are only files, so an agent that comes
//! back finds all that happened meanwhile.
//!
//! Nothing here forks: each step that needs another process starts the program
//! anew, since what may be done between a fork and an exec can't be checked.

mod capabilities;
mod container;
mod enter;
mod exec;
mod log;
mod mounts;
mod record;
mod sandbox;
mod seccomp;

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};

use nix::sys::stat::{Mode, umask};

pub use capabilities::{
    DEFAULT as DEFAULT_CAPABILITIES, all as all_capabilities, parse as parse_capability,
};
pub use log::KEPT as LOGS_ASIDE;
pub(crate) use mounts::{bind, read_only};
pub use record::{
    EXIT, Exited, LOG, Mount, MountKind, RUN, Root, Run, STARTED, Started, User, read, write,
};
pub(crate) use sandbox::say;
pub use sandbox::{Plug, SANDBOX, SANDBOX_PROCESS, Sandbox};

/// The first argument of a process of this module.
pub const COMMAND: &str = "shim";

/// Where this program finds others.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The code of a container that could not be started, as container runtimes have it.
const CANNOT_START: u8 = 128;

/// Plays one of the roles.
pub fn main(role: &OsStr, file: &Path) -> ExitCode {
    let played = match role.to_str() {
        Some("sandbox") => sandbox::main(file),
        Some("container") => container::main(file),
        Some("exec") => exec::main(file),
        Some("anchor") => crate::rootless::anchor(file),
        Some("enter") => return enter::main(file),
        _ => Err(std::io::Error::other(format!("{role:?} is no role"))),
    };
    match played {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(role = %role.display(), file = %file.display(), %error, "shim");
            ExitCode::from(CANNOT_START)
        }
    }
}

/// This program in another role.
pub fn command(role: &str, file: &Path) -> std::process::Command {
    // Not by its path: the file may have been replaced by a newer one.
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("paddle-operator");
    // Of the environment of this process nothing is a container's business.
    command.env_clear().env("PATH", PATH);
    command.arg(COMMAND).arg(role).arg(file).current_dir("/");
    // Whoever reads what this process says must not wait for those that outlive it.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What whoever started this process left open, and how he had files made, is not
/// handed on to containers.
pub fn disinherit() {
    close_fds::set_fds_cloexec(3, &[]);
    umask(Mode::from_bits_truncate(0o022));
}

/// How a shell would put it: 128 and the signal for those that a signal ended.
fn code(status: ExitStatus) -> i32 {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(by_signal).unwrap_or(255)
}
