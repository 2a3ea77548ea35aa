//! The shim of a container: starts it, writes its log, and how it ended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};

use jiff::Timestamp;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::setsid;
use std::os::unix::process::ExitStatusExt;

use super::record::{EXIT, Exited, LOG, Run, STARTED, Started, read, write};
use super::{code, command, log};
use crate::process::Process;

/// `file` is the record of what to run; all others lie beside it.
pub(super) fn main(file: &Path) -> io::Result<ExitCode> {
    let beside = |name: &str| file.with_file_name(name);
    let run: Run = read(file)?.ok_or_else(|| io::Error::other("there is no such container"))?;
    setsid()?;
    let exited = match start(&run, file) {
        Ok(exited) => exited,
        Err(error) => Exited {
            code: i32::from(super::CANNOT_START),
            signal: None,
            failure: Some(error.to_string()),
            at: Timestamp::now(),
        },
    };
    write(&beside(EXIT), &exited)?;
    Ok(ExitCode::SUCCESS)
}

fn start(run: &Run, file: &Path) -> io::Result<Exited> {
    let beside = |name: &str| file.with_file_name(name);
    for (name, kind) in [
        ("net", CloneFlags::CLONE_NEWNET),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
    ] {
        let namespace = File::open(format!("/proc/{}/ns/{name}", run.within.pid))?;
        setns(namespace, kind)?;
    }
    // For the child: its death ends all that it started.
    unshare(CloneFlags::CLONE_NEWPID)?;
    let (mut heard, said) = io::pipe()?;
    let mut child = command("enter", file)
        .stdin(said)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Before the program is there, what is at its place is still outside the container,
    // and nobody may join it.
    let mut failure = String::new();
    heard.read_to_string(&mut failure)?;
    let started = Started {
        shim: Process::own()?,
        first: Process::of(child.id())?,
        at: Timestamp::now(),
    };
    if failure.is_empty() {
        write(&beside(STARTED), &started)?;
        // The agent reads on.
        writeln!(io::stdout(), "started")?;
    }
    if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
        log::copy(&beside(LOG), out, err)?;
    }
    let status = child.wait()?;
    Ok(Exited {
        code: code(status),
        signal: status.signal(),
        failure: Some(failure).filter(|failure| !failure.is_empty()),
        at: Timestamp::now(),
    })
}
