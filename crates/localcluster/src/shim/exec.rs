//! One more process in a container.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use nix::sched::{CloneFlags, setns};

use super::record::{Run, read};
use super::{code, command};

/// Only children of a process come into another pid namespace: this one starts a
/// child there, which has its standard streams, and ends as it does.
pub(super) fn main(file: &Path) -> io::Result<ExitCode> {
    let run: Run = read(file)?.ok_or_else(|| io::Error::other("there is no such process"))?;
    let namespace = File::open(format!("/proc/{}/ns/pid", run.within.pid))?;
    setns(namespace, CloneFlags::CLONE_NEWPID)?;
    let status = command("enter", file)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .status()?;
    Ok(ExitCode::from(u8::try_from(code(status)).unwrap_or(255)))
}
