//! More processes in a container.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::pty::{ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

use super::folder::Folder;
use crate::process::asynchronous;
use crate::shim::{self, RUN, Run, Started, read, write};

/// What is to be run, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Exec {
    pub(super) command: Vec<String>,
    pub(super) stdin: bool,
    pub(super) terminal: bool,
}

/// A process that was started.
pub(super) struct Session {
    pub(super) child: Child,
    /// The other end of its terminal, if it has one.
    pub(super) terminal: Option<Terminal>,
    record: PathBuf,
}

impl Session {
    /// Starts it beside the first process of a container.
    pub(super) async fn start(
        folder: &Folder,
        container: &str,
        exec: &Exec,
    ) -> io::Result<Session> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the container does not run");
        let started: Started = folder.started(container).ok_or_else(missing)?;
        if started.first.open().is_none() {
            return Err(missing());
        }
        let attempt = folder.attempts(container).pop().ok_or_else(missing)?;
        let run: Run = read(&attempt.join(RUN))?.ok_or_else(missing)?;
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let record = attempt.join(format!("exec-{}-{n}.json", std::process::id()));
        let mut environment = run.environment;
        if exec.terminal {
            environment
                .entry("TERM".to_owned())
                .or_insert("xterm".to_owned());
        }
        write(
            &record,
            &Run {
                within: started.first,
                root: None,
                command: exec.command.clone(),
                environment,
                terminal: exec.terminal,
                ..run
            },
        )?;
        let mut command = Command::from(shim::command("exec", &record));
        command.kill_on_drop(true);
        let terminal = match exec.terminal {
            false => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                if exec.stdin {
                    command.stdin(Stdio::piped());
                }
                None
            }
            true => {
                let (ours, theirs) = terminal_in(started.first.pid)?;
                command.stdin(theirs.try_clone()?);
                command.stdout(theirs.try_clone()?);
                command.stderr(theirs);
                Some(Terminal::new(ours)?)
            }
        };
        let child = command.spawn()?;
        Ok(Session {
            child,
            terminal,
            record,
        })
    }

    /// Its end, and all that it said.
    pub(super) async fn output(mut self) -> io::Result<(i32, String)> {
        use tokio::io::AsyncReadExt;
        let mut said = Vec::new();
        let mut errors = Vec::new();
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let read_out = async {
            match out {
                Some(mut out) => out.read_to_end(&mut said).await.map(drop),
                None => Ok(()),
            }
        };
        let read_err = async {
            match err {
                Some(mut err) => err.read_to_end(&mut errors).await.map(drop),
                None => Ok(()),
            }
        };
        tokio::try_join!(read_out, read_err)?;
        let status = self.child.wait().await?;
        said.extend(errors);
        Ok((
            status.code().unwrap_or(255),
            String::from_utf8_lossy(&said).into_owned(),
        ))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _: io::Result<()> = std::fs::remove_file(&self.record);
    }
}

/// Our end of a terminal.
pub(super) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    fn new(fd: OwnedFd) -> io::Result<Terminal> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Terminal(asynchronous(fd)?))
    }

    /// What was written on it; nothing when nobody has it any more.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> usize {
        loop {
            let Ok(mut ready) = self.0.readable().await else {
                return 0;
            };
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd, &mut *buffer)?));
            match read {
                Ok(Ok(length)) => return length,
                Ok(Err(_)) => return 0,
                Err(_) => {}
            }
        }
    }

    /// Types.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            if let Ok(written) = ready.try_io(|fd| Ok(rustix::io::write(fd, bytes)?)) {
                bytes = bytes.get(written?..).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Its size has changed.
    pub(super) fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(self.0.get_ref(), size)?)
    }
}

/// Both ends of a new terminal of the container, so that it has a name there.
fn terminal_in(pid: i32) -> io::Result<(OwnedFd, File)> {
    let root = File::open(format!("/proc/{pid}/root"))?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Links that the container made lead nowhere but into it.
    let open = |path: &Path| {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&root, path, flags, Mode::empty(), resolve)
    };
    let terminals = Path::new("dev/pts");
    let ours = open(&terminals.join("ptmx"))?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let name = name.to_str().map_err(io::Error::other)?;
    let number = Path::new(name).file_name().unwrap_or_default();
    let theirs = open(&terminals.join(number))?;
    Ok((ours, File::from(theirs)))
}
