//! Runs commands, and ends those that nobody waits for.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cache_api::reason;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::log::Log;
use crate::{Error, Redactor};

/// The most that is read of what a command prints.
const MAX_OUTPUT: u64 = 1 << 20;

/// Where juicefs itself finds what it runs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Juicefs {
    program: PathBuf,
    /// Where it is noted which commands run.
    notes: Option<PathBuf>,
}

/// There is no such program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("juicefs is neither in {0:?} nor on PATH; `make examples` installs it")]
pub struct Missing(PathBuf);

/// A command that has ended by itself.
pub(crate) struct Finished {
    pub(crate) success: bool,
    pub(crate) output: String,
    pub(crate) log: Log,
}

impl Juicefs {
    /// The program at a path, or of that name on PATH.
    pub fn new(program: impl Into<PathBuf>) -> Juicefs {
        let program = program.into();
        // Looked for here: commands have a PATH of their own.
        let is_name = program.components().count() == 1 && program.is_relative();
        let found = is_name.then(|| on_path(&program)).flatten();
        Juicefs {
            program: found.unwrap_or(program),
            notes: None,
        }
    }

    /// The one that was installed for the project, or else that of the machine.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(cache: &Path) -> Result<Juicefs, Missing> {
        let program = Juicefs::expected(cache);
        match program.is_file() {
            true => Ok(Juicefs::new(program)),
            false => Err(Missing(program)),
        }
    }

    /// Where that one is, or would be were it installed.
    pub fn expected(cache: &Path) -> PathBuf {
        let installed = cache.join("juicefs/juicefs");
        match installed.is_file() {
            true => installed,
            false => on_path(Path::new("juicefs")).unwrap_or(installed),
        }
    }

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Notes in a directory which commands run, and first ends those that an
    /// earlier life of this program, itself killed, has left behind.
    ///
    /// # Errors
    /// When the directory can't be made or read.
    pub fn noting(mut self, dir: PathBuf) -> io::Result<Juicefs> {
        fs::create_dir_all(&dir)?;
        for note in fs::read_dir(&dir)? {
            if let Ok(note) = fs::read_to_string(note?.path()) {
                end_leftover(&note);
            }
        }
        self.notes = Some(dir);
        Ok(self)
    }

    /// A command of it. It knows nothing of the environment of this process: a key
    /// there could be taken for one of the volume's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/")
            // Else each client waits for a server that only machines of Amazon have.
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // No port for profiles.
            .arg("--no-agent");
        command
    }

    /// A command of it, by its name.
    pub(crate) fn subcommand(&self, name: &str) -> Command {
        let mut command = self.command();
        command.arg(name);
        command
    }

    /// Runs a command to its end. When the future is dropped, the command is
    /// killed with all that it has started.
    pub(crate) async fn run(
        &self,
        mut command: Command,
        redactor: &Redactor,
        mut on_line: impl FnMut(&str),
    ) -> Result<Finished, Error> {
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let name = command
            .as_std()
            .get_args()
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let broken = |error: io::Error| {
            let program = self.program.display();
            Error::new(
                reason::COMMAND_FAILED,
                format!("{program} can't be run: {error}"),
            )
        };
        let mut child = command.spawn().map_err(broken)?;
        let group = Group::of(&child);
        self.note(&child, &name);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut log = Log::default();
        let say = |line: &str| {
            on_line(line);
            let line = redactor.redact(line);
            tracing::debug!("{line}");
            log.add(&line);
        };
        let (output, (), status) = tokio::join!(read(stdout), lines(stderr, say), child.wait());
        let status = status.map_err(broken)?;
        group.has_ended();
        Ok(Finished {
            success: status.success(),
            output,
            log,
        })
    }

    /// Not worth a failure: it only serves one who is killed. A file for each kind
    /// of command, since figures are asked for while a long one runs.
    fn note(&self, child: &Child, name: &OsStr) {
        let process = child.id().and_then(|pid| Some((pid, born(pid)?)));
        if let (Some(dir), Some((pid, born))) = (&self.notes, process) {
            let _ = fs::write(dir.join(name), format!("{pid} {born}"));
        }
    }
}

/// A child and all that it starts. They are killed unless they have ended.
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn of(child: &Child) -> Group {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Group(pid.map(Pid::from_raw))
    }

    /// From now on its number may be another's.
    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Gone already is as good.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Ends the group of a process, unless its number is another's by now.
fn end_leftover(note: &str) {
    let mut fields = note.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(birth))) = (fields.next(), fields.next()) else {
        return;
    };
    if let (Ok(group), Ok(pid)) = (i32::try_from(pid), u32::try_from(pid))
        && born(pid) == Some(birth)
    {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// When a process began, in ticks since the machine did: field 22 of its `stat`.
/// The name before it may hold anything, but no field behind it a parenthesis.
fn born(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut output = Vec::new();
    if let Some(mut stream) = stream {
        // What is cut off, or can't be read, is missing from what is understood.
        let _ = (&mut stream)
            .take(MAX_OUTPUT)
            .read_to_end(&mut output)
            .await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&output).into_owned()
}

async fn lines(stream: Option<impl AsyncRead + Unpin>, mut say: impl FnMut(&str)) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => say(String::from_utf8_lossy(&line).trim_end()),
        }
    }
}

/// A program of this name on the PATH of this process.
fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(name));
    places.find(|program| program.is_file())
}

/// Why a command failed, from what it wrote: the first line that it calls fatal, since
/// those behind it only say that it gives up; else its last.
pub(crate) fn reason(said: &str) -> String {
    let fatal = said.lines().find_map(|line| line.split_once("<FATAL>: "));
    let words = match fatal {
        Some((_, words)) => words,
        None => said
            .lines()
            .rev()
            .find(|line| !line.is_empty())
            .unwrap_or("it said nothing"),
    };
    let words = words.trim();
    // The place in its source is no use to anybody.
    let place = words
        .rsplit_once(" [")
        .filter(|(_, place)| place.ends_with(']') && place.contains(".go:"));
    place.map_or(words, |(words, _)| words).to_owned()
}

/// `--name=value` when there is a value.
pub(crate) fn option(command: &mut Command, name: &str, value: Option<impl AsRef<OsStr>>) {
    if let Some(value) = value {
        let mut argument = std::ffi::OsString::from(format!("--{name}="));
        argument.push(value);
        command.arg(argument);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The second argument is the name of a juicefs command.
    fn sleeping() -> Command {
        let mut command = Command::new("sleep");
        command.args(["1000", "1000"]);
        command
    }

    fn is_running(pid: u64) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn noted(file: &std::path::Path) -> u64 {
        loop {
            if let Ok(note) = fs::read_to_string(file)
                && let Some(Ok(pid)) = note.split_whitespace().next().map(str::parse)
            {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ends(pid: u64) {
        while is_running(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_command_that_nobody_waits_for_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("1000");
        let juicefs = Juicefs::new("sleep").noting(dir.path().to_owned()).unwrap();
        let redactor = Redactor::default();
        let pid = tokio::select! {
            _ = juicefs.run(sleeping(), &redactor, |_| ()) => unreachable!("it sleeps"),
            pid = noted(&note) => pid,
        };
        ends(pid).await;
    }

    #[tokio::test]
    async fn what_an_earlier_life_left_behind_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("note");
        let mut child = sleeping().process_group(0).spawn().unwrap();
        let pid = child.id().unwrap();
        fs::write(&note, format!("{pid} {}", born(pid).unwrap() + 1)).unwrap();
        Juicefs::new("sleep").noting(dir.path().to_owned()).unwrap();
        assert!(is_running(pid.into()), "another process has the number");
        fs::write(&note, format!("{pid} {}", born(pid).unwrap())).unwrap();
        Juicefs::new("sleep").noting(dir.path().to_owned()).unwrap();
        child.wait().await.unwrap();
    }

    #[tokio::test]
    async fn keys_are_not_in_what_is_kept_of_its_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '<FATAL>: bad SECRET [a@b]' >&2; exit 1"]);
        let redactor = Redactor::new(["SECRET"]);
        let finished = Juicefs::new("sh")
            .run(command, &redactor, |_| ())
            .await
            .unwrap();
        assert!(!finished.success);
        assert_eq!(finished.log.error("x").message, "x: bad ***");
    }

    #[tokio::test]
    async fn a_missing_binary_is_told() {
        let juicefs = Juicefs::new("/no/juicefs");
        let command = juicefs.subcommand("info");
        let error = juicefs
            .run(command, &Redactor::default(), |_| ())
            .await
            .err()
            .unwrap();
        assert!(error.message.contains("/no/juicefs"), "{error}");
    }

    #[test]
    fn the_reason_is_the_first_fatal_line_without_its_place() {
        let said = "2026/11/16 07:06:11.1 juicefs[1] <INFO>: Meta address: x [NewClient@interface.go:645]\n\
                    2026/11/16 07:06:14.4 juicefs[2] <FATAL>: fuse: not installed [mountMain@mount_unix.go:1168]\n\
                    ..2026/11/16 07:06:15.4 juicefs[1] <FATAL>: fail 3 times, give up [main@main.go:31]\n";
        assert_eq!(reason(said), "fuse: not installed");
        assert_eq!(reason("a\nflag [x] is bad\n\n"), "flag [x] is bad");
        assert_eq!(reason(""), "it said nothing");
    }

    #[test]
    fn the_installed_one_goes_before_that_of_the_machine() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join("juicefs/juicefs");
        std::fs::create_dir_all(cache.path().join("juicefs")).unwrap();
        std::fs::write(&program, "").unwrap();
        assert_eq!(Juicefs::find(cache.path()), Ok(Juicefs::new(program)));
    }
}
