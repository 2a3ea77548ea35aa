//! The last step into a container: from here on the program is the user's.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgid, setgroups, setsid, setuid};

use super::record::{Run, read};
use super::{capabilities, mounts, seccomp};
use crate::rootless;

/// Becomes the program; returns only when it can't.
pub(super) fn main(file: &Path) -> ExitCode {
    // Until it is the user's program, nobody in the container may look into this one.
    let _ = prctl::set_dumpable(false);
    super::disinherit();
    let run: Run = match read(file) {
        Ok(Some(run)) => run,
        _ => return ExitCode::from(super::CANNOT_START),
    };
    let shim = run.root.is_some().then(pipe_to_shim);
    let Err(error) = enter(&run);
    let _: io::Result<()> = match shim {
        Some(shim) => shim.and_then(|mut shim| write!(shim, "{error}")),
        // Who runs one more process in a container reads why it can't be.
        None => writeln!(io::stderr(), "{error}"),
    };
    match error.kind() {
        io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(super::CANNOT_START),
    }
}

/// The shim waits at the other end of our standard input, which the program does not
/// get: it is closed when the program takes the place of this one, and so tells the
/// shim that it has.
fn pipe_to_shim() -> io::Result<File> {
    let pipe = io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(File::from(pipe))
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
    let user = Identity::of(run);
    let wanted = capabilities::bound(user.capabilities)?;
    // An ordinary user who is root only in a namespace of his own has no groups to give.
    match setgroups(&user.groups) {
        Err(error) if !user.groups.is_empty() => return Err(error.into()),
        _ => {}
    }
    setgid(user.gid)?;
    setuid(user.uid)?;
    if user.uid.is_root() {
        capabilities::keep(&wanted)?;
    }
    if run.no_new_privileges {
        prctl::set_no_new_privs()?;
    }
    // After the user, since to become another clears it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if !run.unconfined {
        seccomp::confine()?;
    }
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

/// As whom the program runs in the end.
struct Identity<'a> {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    capabilities: &'a [String],
}

impl Identity<'_> {
    /// An ordinary user has only himself: who shall be somebody else is he, and may
    /// then do no more than he may.
    fn of(run: &Run) -> Identity<'_> {
        let user = &run.user;
        let groups = user
            .groups
            .iter()
            .copied()
            .filter(|group| rootless::has_group(*group));
        let is_himself = user.uid != 0 && !rootless::has_user(user.uid);
        Identity {
            uid: Uid::from_raw(if is_himself { 0 } else { user.uid }),
            gid: Gid::from_raw(
                Some(user.gid)
                    .filter(|gid| rootless::has_group(*gid))
                    .unwrap_or(0),
            ),
            groups: groups.map(Gid::from_raw).collect(),
            capabilities: if is_himself { &[] } else { &run.capabilities },
        }
    }
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
