//! The last step into a container: from here on the program is the user's.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgid, setgroups, setsid, setuid};

use super::record::{FAILURE, Run, read};
use super::{capabilities, mounts};

/// Becomes the program; returns only when it can't.
pub(super) fn main(file: &Path) -> ExitCode {
    let run: Run = match read(file) {
        Ok(Some(run)) => run,
        _ => return ExitCode::from(super::CANNOT_START),
    };
    // Opened now, since it is out of reach later. Who runs one more process in a
    // container reads on its standard error why it can't be.
    let failure = match run.root {
        Some(_) => File::create(file.with_file_name(FAILURE)).ok(),
        None => None,
    };
    let Err(error) = enter(&run);
    let _: io::Result<()> = match failure {
        Some(mut failure) => write!(failure, "{error}"),
        None => writeln!(io::stderr(), "{error}"),
    };
    match error.kind() {
        io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(super::CANNOT_START),
    }
}

fn enter(run: &Run) -> io::Result<std::convert::Infallible> {
    setsid()?;
    if run.terminal {
        rustix::process::ioctl_tiocsctty(io::stdin())?;
    }
    match &run.root {
        Some(root) => mounts::make(root)?,
        None => join(run.within.pid)?,
    }
    let wanted = capabilities::bound(&run.capabilities)?;
    let groups: Vec<Gid> = run.user.groups.iter().copied().map(Gid::from_raw).collect();
    // An ordinary user who is root only in a namespace of his own has no groups to give.
    match setgroups(&groups) {
        Err(error) if !groups.is_empty() => return Err(error.into()),
        _ => {}
    }
    setgid(Gid::from_raw(run.user.gid))?;
    setuid(Uid::from_raw(run.user.uid))?;
    if run.user.uid == 0 {
        capabilities::keep(&wanted)?;
    }
    if run.no_new_privileges {
        prctl::set_no_new_privs()?;
    }
    // After the user, since to become another clears it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    std::env::set_current_dir(&run.directory)
        .map_err(|error| about(&format!("working directory {:?}", run.directory), &error))?;
    let Some((program, arguments)) = run.command.split_first() else {
        return Err(io::Error::other("there is no command"));
    };
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&run.environment)
        .exec();
    Err(about(&format!("exec {program:?}"), &error))
}

fn about(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Comes to where another process is.
fn join(pid: i32) -> io::Result<()> {
    let namespaces = [
        ("net", CloneFlags::CLONE_NEWNET),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    let namespaces = namespaces
        .into_iter()
        .map(|(name, kind)| Ok((File::open(format!("/proc/{pid}/ns/{name}"))?, kind)))
        // All before the first: the mounts take the paths with them.
        .collect::<io::Result<Vec<_>>>()?;
    for (namespace, kind) in namespaces {
        setns(namespace, kind)?;
    }
    Ok(())
}
