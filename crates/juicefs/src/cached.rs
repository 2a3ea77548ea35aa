//! Fills and empties the cache of a mount, and looks what is in it.

use std::path::{Path, PathBuf};

use cache_api::reason;
use tokio::process::Command;

use crate::command::{Finished, option};
use crate::sync::whole;
use crate::{Error, Juicefs, Redactor};

/// What a command is about: paths in one mount.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// Files, or directories with all below them.
    Paths(&'a [PathBuf]),
    /// A file that names one in each line. The first tells juicefs which mount
    /// it is.
    List(&'a Path),
}

/// What is cached of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files that were looked at.
    pub files: u64,
    /// What is cached of them, as juicefs rounds it.
    pub cached: u64,
    /// Tenths of a percent that are cached.
    pub permille: u64,
}

impl Juicefs {
    /// Caches. That it ends well says nothing about what is cached then.
    ///
    /// # Errors
    /// When the mount can't be reached.
    pub async fn warmup(&self, targets: Targets<'_>, threads: Option<u32>) -> Result<(), Error> {
        let mut command = self.subcommand("warmup");
        let threads = threads.map(|threads| threads.to_string());
        option(&mut command, "threads", threads);
        self.on_mount(command, targets, "warmup").await.map(drop)
    }

    /// Drops what is cached.
    ///
    /// # Errors
    /// When the mount can't be reached.
    pub async fn evict(&self, targets: Targets<'_>) -> Result<(), Error> {
        let mut command = self.subcommand("warmup");
        command.arg("--evict");
        self.on_mount(command, targets, "clear").await.map(drop)
    }

    /// Looks how much is cached.
    ///
    /// # Errors
    /// When the mount can't be reached.
    pub async fn check(&self, targets: Targets<'_>) -> Result<Checked, Error> {
        let mut command = self.subcommand("warmup");
        command.arg("--check");
        let what = "check of what is cached";
        let finished = self.on_mount(command, targets, what).await?;
        let checked = finished.log.find(checked);
        checked.ok_or_else(|| finished.log.error(what))
    }

    /// Removes paths for good, past the trash, which would keep their space.
    ///
    /// # Errors
    /// When a path can't be removed.
    pub async fn rmr(&self, paths: &[PathBuf]) -> Result<(), Error> {
        let mut command = self.subcommand("rmr");
        command.arg("--skip-trash");
        let targets = Targets::Paths(paths);
        let finished = self.on_mount(command, targets, "rmr").await?;
        // Outside a volume it complains and says that all is well.
        for path in paths {
            if tokio::fs::symlink_metadata(path).await.is_ok() {
                return Err(finished.log.error("rmr"));
            }
        }
        Ok(())
    }

    async fn on_mount(
        &self,
        mut command: Command,
        targets: Targets<'_>,
        what: &str,
    ) -> Result<Finished, Error> {
        match targets {
            // It would be silent, and look successful.
            Targets::Paths([]) => {
                return Err(Error::new(
                    reason::BAD_PATH,
                    format!("{what}: no path given"),
                ));
            }
            Targets::Paths(paths) => command.args(paths),
            Targets::List(list) => {
                option(&mut command, "file", Some(list));
                &mut command
            }
        };
        let finished = self.run(command, &Redactor::default(), |_| ()).await?;
        match finished.success {
            true => Ok(finished),
            false => Err(finished.log.error(what)),
        }
    }
}

/// `check cache: 300 files checked, 3.7 MiB of 4.3 MiB (85.9%) cached`
fn checked(line: &str) -> Option<Checked> {
    let line = line.strip_prefix("check cache: ")?;
    let (files, rest) = line.split_once(" files checked, ")?;
    let (cached, rest) = rest.split_once(" of ")?;
    let (_, percent) = rest.split_once('(')?;
    let (percent, _) = percent.split_once('%')?;
    // Of nothing all is cached, which juicefs takes for no number.
    let percent = percent
        .parse()
        .ok()
        .filter(|percent: &f64| percent.is_finite());
    Some(Checked {
        files: files.trim().parse().ok()?,
        cached: bytes(cached)?,
        permille: percent.map_or(1000, |percent| whole(percent * 10.0)),
    })
}

/// `4.3 MiB`
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = units.iter().position(|known| *known == unit)?;
    Some(whole(number * 1024_f64.powi(i32::try_from(power).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cached_is_read() {
        let line = "check cache: 300 files checked, 3.5 MiB of 4.3 MiB (85.9%) cached";
        let want = Checked {
            files: 300,
            cached: 3_670_016,
            permille: 859,
        };
        assert_eq!(checked(line), Some(want));
        let nothing = "check cache: 0 files checked, 0 B of 0 B (NaN%) cached";
        assert_eq!(checked(nothing).map(|checked| checked.permille), Some(1000));
        assert_eq!(checked("warmup cache: 300 files (4.3 MiB bytes)"), None);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("500 B"), Some(500));
        assert_eq!(bytes("1.5 KiB"), Some(1536));
        assert_eq!(bytes("2 TiB"), Some(2 << 40));
        assert_eq!(bytes("2"), None);
    }
}
