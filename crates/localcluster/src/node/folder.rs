//! The folder of a pod in the state directory: what shims and the agent know of it.
//!
//! `pods/<uid>/address.json`, `hosts`, `volumes/…`, and for each start of a container
//! `containers/<name>/<n>/` with its records, its log and its root.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::container::LAST_WORDS;
use super::lifecycle::{ContainerSeen, End, State, Trouble, containers};
use crate::process::Process;
use crate::shim::{
    self, EXIT, Exited, LOG, RUN, Run, SANDBOX_PROCESS, STARTED, Started, read, write,
};

/// Longer last words are cut, from their beginning.
const LAST_WORDS_LENGTH: u64 = 4096;
/// Of a log, so much counts as last words.
const LAST_LINES_LENGTH: u64 = 2048;

const ADDRESS: &str = "address.json";
const DOOM: &str = "doom.json";

/// The folder.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Of a pod.
    pub fn of(state: &Path, uid: &str) -> Folder {
        Folder(Folder::all(state).join(uid))
    }

    /// Where all of them are.
    pub fn all(state: &Path) -> PathBuf {
        state.join("pods")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where volumes are that are the pod's own.
    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// Makes it, unless it is there from an earlier life of this program.
    ///
    /// # Errors
    /// When it can't be.
    pub fn adopt(&self, pod: &Pod) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        // A start that this program did not live to see is none.
        for container in containers(pod) {
            if let Some(attempt) = self.attempts(&container.name).last() {
                let is_there = |name: &str| attempt.join(name).exists();
                if !is_there(STARTED) && !is_there(EXIT) {
                    remove_all(attempt)?;
                }
            }
        }
        Ok(())
    }

    /// Its address, or the one that it had.
    pub fn address(&self) -> Option<Ipv4Addr> {
        read(&self.0.join(ADDRESS)).ok()?
    }

    /// Gives it an address.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn set_address(&self, address: Ipv4Addr) -> io::Result<()> {
        write(&self.0.join(ADDRESS), &address)
    }

    /// Its sandbox, if it lives.
    pub fn sandbox(&self) -> Option<Process> {
        let process: Process = read(&self.0.join(SANDBOX_PROCESS)).ok()??;
        process.open().map(|_| process)
    }

    /// It has a sandbox, or had one of which something may be left.
    pub fn had_sandbox(&self) -> bool {
        self.0.join(SANDBOX_PROCESS).exists()
    }

    /// Why it was ended, if it was.
    pub fn doom(&self) -> Option<Trouble> {
        let (reason, message): (String, String) = read(&self.0.join(DOOM)).ok()??;
        Some(Trouble { reason, message })
    }

    /// It is ended for this reason.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_doom(&self, doom: &Trouble) -> io::Result<()> {
        write(&self.0.join(DOOM), &(&doom.reason, &doom.message))
    }

    /// The folders of all starts of a container, in their order.
    pub fn attempts(&self, container: &str) -> Vec<PathBuf> {
        let starts = self.0.join("containers").join(container);
        let numbers = fs::read_dir(&starts).into_iter().flatten();
        let numbers =
            numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|n| starts.join(n.to_string()))
            .collect()
    }

    /// The folder of the next start of a container.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn new_attempt(&self, container: &str) -> io::Result<PathBuf> {
        let attempts = self.attempts(container);
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let last = attempts.last();
        // One that came to nothing is used again.
        if let Some(last) = last.filter(|last| !last.join(RUN).exists()) {
            return Ok(last.clone());
        }
        let next = last.and_then(number).map_or(0, |n| n + 1);
        let path = self
            .0
            .join("containers")
            .join(container)
            .join(next.to_string());
        fs::create_dir_all(&path)?;
        fs::write(path.join(LAST_WORDS), "")?;
        use std::os::unix::fs::PermissionsExt;
        let all = fs::Permissions::from_mode(0o666);
        fs::set_permissions(path.join(LAST_WORDS), all)?;
        // Of those before, the last is still shown.
        for old in attempts.iter().rev().skip(1) {
            remove_all(old)?;
        }
        Ok(path)
    }

    /// Starts a container in the folder of a start.
    ///
    /// # Errors
    /// When its shim can't be started.
    pub async fn start(&self, attempt: &Path, run: &Run) -> io::Result<()> {
        let file = attempt.join(RUN);
        write(&file, run)?;
        let mut command = tokio::process::Command::from(shim::command("container", &file));
        let errors = fs::File::create(attempt.join("shim.log"))?;
        command.stdout(std::process::Stdio::piped()).stderr(errors);
        let mut shim = command.spawn()?;
        // A word when it runs, or the end of the shim.
        if let Some(out) = shim.stdout.take() {
            let _ = BufReader::new(out).lines().next_line().await;
        }
        Ok(())
    }

    /// How a container was started the last time.
    pub fn started(&self, container: &str) -> Option<Started> {
        read(&self.attempts(container).last()?.join(STARTED)).ok()?
    }

    /// What a container does.
    pub fn look(&self, container: &Container) -> ContainerSeen {
        let attempts = self.attempts(&container.name);
        let mut seen = attempts
            .iter()
            .rev()
            .map(|attempt| state(attempt, container))
            .filter(|state| *state != State::Absent);
        let current = seen.next().unwrap_or_default();
        let last = seen.next().and_then(|state| match state {
            State::Ended(end) => Some(end),
            _ => None,
        });
        let started = attempts
            .iter()
            .rev()
            .find(|attempt| attempt.join(RUN).exists());
        let number = started.and_then(|path| path.file_name()?.to_str()?.parse().ok());
        ContainerSeen {
            restarts: number.unwrap_or(0),
            state: current,
            last,
            ..ContainerSeen::default()
        }
    }

    /// The roots of containers that ended are of no use to anybody.
    pub fn forget_roots(&self) {
        let containers = fs::read_dir(self.0.join("containers"))
            .into_iter()
            .flatten();
        let names = containers.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for attempt in names.flat_map(|name| self.attempts(&name)) {
            if let Err(error) = remove_all(&attempt.join("own")) {
                tracing::debug!(%error, "the root of a container stays");
            }
        }
    }

    /// Ends all that runs, whatever the pod was.
    pub fn kill(&self) {
        let containers = fs::read_dir(self.0.join("containers"))
            .into_iter()
            .flatten();
        for name in containers.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            if let Some(started) = self.started(&name) {
                started.first.signal(Signal::KILL);
                started.shim.signal(Signal::KILL);
            }
        }
    }

    /// Removes all of it.
    ///
    /// # Errors
    /// When something stays.
    pub fn remove(&self) -> io::Result<()> {
        remove_all(&self.0)
    }
}

/// What became of a start.
fn state(attempt: &Path, container: &Container) -> State {
    if !attempt.join(RUN).exists() {
        return State::Absent;
    }
    let started: Option<Started> = read(&attempt.join(STARTED)).ok().flatten();
    let exited: Option<Exited> = read(&attempt.join(EXIT)).ok().flatten();
    match (started, exited) {
        (started, Some(exited)) => State::Ended(end(attempt, container, started, exited)),
        (Some(started), None) if started.shim.open().is_some() => State::Running(started.at),
        // The shim may have written it between our two looks.
        (started, None) => match read(&attempt.join(EXIT)).ok().flatten() {
            Some(exited) => State::Ended(end(attempt, container, started, exited)),
            None => State::Ended(lost(attempt, started)),
        },
    }
}

/// The end of a container that nobody saw: its shim is gone, and so must it be.
fn lost(attempt: &Path, started: Option<Started>) -> End {
    if let Some(started) = started {
        started.first.signal(Signal::KILL);
    }
    End {
        code: 137,
        signal: None,
        reason: "ContainerStatusUnknown".to_owned(),
        message: Some("The container went with the machine, or its shim was killed.".into()),
        started: started.map(|started| started.at),
        at: modified(&attempt.join(LOG)).unwrap_or_else(Timestamp::now),
    }
}

fn modified(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    Timestamp::try_from(time).ok()
}

fn end(attempt: &Path, container: &Container, started: Option<Started>, exited: Exited) -> End {
    let reason = match (&exited.failure, exited.code) {
        (Some(_), _) => "StartError",
        (None, 0) => "Completed",
        (None, _) => "Error",
    };
    End {
        code: match exited.failure {
            Some(_) => 128,
            None => exited.code,
        },
        signal: exited.signal,
        reason: reason.to_owned(),
        message: exited
            .failure
            .or_else(|| last_words(attempt, container, exited.code)),
        started: started.map(|started| started.at),
        at: exited.at,
    }
}

/// What a container wrote for this purpose, or the end of its log.
fn last_words(attempt: &Path, container: &Container, code: i32) -> Option<String> {
    let written = tail(&attempt.join(LAST_WORDS), LAST_WORDS_LENGTH)?;
    if !written.is_empty() {
        return Some(written);
    }
    let policy = container.termination_message_policy.as_deref();
    if code == 0 || policy != Some("FallbackToLogsOnError") {
        return None;
    }
    let recent = tail(&attempt.join(LOG), 4 * LAST_LINES_LENGTH)?;
    // The time, the stream and the mark are not its words.
    let words = recent.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    let words: String = words.flat_map(|line| [line, "\n"]).collect();
    let length = usize::try_from(LAST_LINES_LENGTH).unwrap_or(usize::MAX);
    let start = words.ceil_char_boundary(words.len().saturating_sub(length));
    let words = words.get(start..).unwrap_or_default();
    Some(words.to_owned()).filter(|words| !words.is_empty())
}

/// The end of a file, which may be as long as a container likes.
fn tail(path: &Path, length: u64) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(length);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Removes a directory with all in it. What an overlay works in can't be read, not
/// even by its owner, unless he is root.
pub(super) fn remove_all(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mut directories = vec![path.to_owned()];
            while let Some(directory) = directories.pop() {
                let all = fs::Permissions::from_mode(0o700);
                fs::set_permissions(&directory, all)?;
                for entry in fs::read_dir(&directory)? {
                    let entry = entry?;
                    if entry.file_type()?.is_dir() {
                        directories.push(entry.path());
                    }
                }
            }
            fs::remove_dir_all(path)
        }
        done => done,
    }
}
