//! The shim of a container: starts it, writes its log, and how it ended.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::thread;

use jiff::Timestamp;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::setsid;
use std::os::unix::process::ExitStatusExt;

use super::log::{Log, Stream};
use super::record::{EXIT, Exited, FAILURE, LOG, Run, STARTED, Started, read, write};
use super::{code, command};
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
    let outside = File::open("/proc/self/ns/pid")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut child = command("enter", file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // A process whose children are to be elsewhere gets no threads.
    setns(outside, CloneFlags::CLONE_NEWPID)?;
    let started = Started {
        shim: Process::own()?,
        first: Process::of(child.id())?,
        at: Timestamp::now(),
    };
    let log = Log::open(&beside(LOG))?;
    let copies = [
        child.stdout.take().map(|out| log.copy(out, Stream::Out)),
        child.stderr.take().map(|err| log.copy(err, Stream::Err)),
    ];
    write(&beside(STARTED), &started)?;
    // The agent reads on.
    writeln!(io::stdout(), "started")?;
    let status = child.wait()?;
    for copy in copies.into_iter().flatten() {
        let _: thread::Result<()> = copy.join();
    }
    let failure = std::fs::read_to_string(beside(FAILURE)).unwrap_or_default();
    Ok(Exited {
        code: code(status),
        signal: status.signal(),
        failure: Some(failure).filter(|failure| !failure.is_empty()),
        at: Timestamp::now(),
    })
}
