//! How every juicefs command begins, and what its last words mean.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// Where juicefs itself finds what it runs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Juicefs(PathBuf);

/// There is no such program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("juicefs is neither in {0:?} nor on PATH; `make examples` installs it")]
pub struct Missing(PathBuf);

impl Juicefs {
    /// The program at a path.
    pub fn new(program: impl Into<PathBuf>) -> Juicefs {
        Juicefs(program.into())
    }

    /// The one that was installed for the project, or else that of the machine.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(cache: &Path) -> Result<Juicefs, Missing> {
        let program = Juicefs::expected(cache);
        match program.is_file() {
            true => Ok(Juicefs(program)),
            false => Err(Missing(program)),
        }
    }

    /// Where that one is, or would be were it installed.
    pub fn expected(cache: &Path) -> PathBuf {
        let installed = cache.join("juicefs/juicefs");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut on_path = std::env::split_paths(&path).map(|dir| dir.join("juicefs"));
        match installed.is_file() {
            true => installed,
            false => on_path
                .find(|program| program.is_file())
                .unwrap_or(installed),
        }
    }

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.0
    }

    /// A command of it. It knows nothing of the environment of this process: a key
    /// there could be taken for one of the volume's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

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
