//! Mounts a volume.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout_at};

use crate::command::{Group, reason};
use crate::{Juicefs, Volume};

/// A mount takes 0.6 s; metadata on another continent and a busy machine, more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(50);

/// Where JuiceFS, and with it the CSI driver, caches unless told.
const USUAL_CACHE: &str = "/var/jfsCache";
/// The cache that is no directory.
const MEMORY: &str = "memory";

/// Options of `mount` that say nothing to JuiceFS.
const NEUTRAL: [&str; 5] = ["_netdev", "background", "defaults", "remount", "rw"];
/// Options of the kernel; all others are JuiceFS's own.
const OF_THE_KERNEL: [&str; 10] = [
    "allow_other",
    "allow_root",
    "async",
    "default_permissions",
    "max_read",
    "noatime",
    "nodev",
    "noexec",
    "nosuid",
    "sync",
];

/// The mount options of a PersistentVolume: `key` or `key=value`, as the CSI driver
/// takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    flags: Vec<String>,
    of_the_kernel: Vec<String>,
    cache_dirs: Vec<String>,
    has_metrics: bool,
}

/// An option that can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount option {0:?} is neither key nor key=value")]
pub struct BadOption(String);

impl MountOptions {
    /// Reads options.
    ///
    /// # Errors
    /// When one can't be an option. Whether JuiceFS knows it, JuiceFS says.
    pub fn parse<'a>(
        options: impl IntoIterator<Item = &'a String>,
    ) -> Result<MountOptions, BadOption> {
        let mut all = MountOptions::default();
        let options = options.into_iter().flat_map(|option| option.split(','));
        for option in options.map(str::trim) {
            let (key, value) = match option.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (option, None),
            };
            if option.is_empty() || NEUTRAL.contains(&key) {
                continue;
            }
            if !is_key(key) {
                return Err(BadOption(option.to_owned()));
            }
            match (key, value) {
                ("cache-dir", Some(dirs)) => {
                    let dirs = dirs.split(':').filter(|dir| !dir.is_empty());
                    all.cache_dirs = dirs.map(str::to_owned).collect();
                }
                ("ro", None) => all.flags.push("--read-only".to_owned()),
                _ if OF_THE_KERNEL.contains(&key) => all.of_the_kernel.push(option.to_owned()),
                _ => {
                    all.has_metrics |= key == "metrics";
                    all.flags.push(format!("--{option}"));
                }
            }
        }
        Ok(all)
    }

    /// The directories in which blocks are cached; none: they are cached in memory.
    pub fn cache_dirs(&self) -> Vec<&Path> {
        let dirs: Vec<&str> = match self.cache_dirs.is_empty() {
            true => vec![USUAL_CACHE],
            false => self.cache_dirs.iter().map(String::as_str).collect(),
        };
        let dirs = dirs.into_iter().filter(|dir| *dir != MEMORY);
        dirs.map(Path::new).collect()
    }
}

fn is_key(key: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !key.is_empty() && key.chars().all(fits) && !key.starts_with('-')
}

/// A mount that is to be.
#[derive(Debug)]
pub struct Mount<'a> {
    /// What is mounted.
    pub volume: &'a Volume,
    /// How, but for its cache.
    pub options: &'a MountOptions,
    /// Where blocks are cached; none: in memory.
    pub cache_dirs: &'a [PathBuf],
    /// Where it is mounted.
    pub at: &'a Path,
    /// The file for what it says.
    pub log: &'a Path,
}

/// Why a volume can't be mounted. No message holds a key.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The process ended.
    #[error("juicefs mount: {0}")]
    Ended(String),
    /// It takes too long.
    #[error("juicefs mount has mounted nothing after {patience} s: {0}", patience = PATIENCE.as_secs())]
    Slow(String),
    /// The program can't be run.
    #[error("juicefs can't be run: {0}")]
    Run(#[from] io::Error),
}

impl Mount<'_> {
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["mount".into(), "--no-usage-report".into()];
        arguments.extend(self.options.flags.iter().map(OsString::from));
        if !self.options.has_metrics {
            // Any port: several mounts share the machine. `.config` says which.
            arguments.push("--metrics=127.0.0.1:0".into());
        }
        let mut caches: Vec<OsString> = self.cache_dirs.iter().map(OsString::from).collect();
        if caches.is_empty() {
            caches.push(MEMORY.into());
        }
        let mut cache = OsString::from("--cache-dir=");
        cache.push(caches.join(":".as_ref()));
        arguments.push(cache);
        if !self.options.of_the_kernel.is_empty() {
            arguments.push("-o".into());
            arguments.push(self.options.of_the_kernel.join(",").into());
        }
        arguments.push(self.volume.metaurl().into());
        arguments.push(self.at.into());
        arguments
    }

    /// Why it is not there, from what it said.
    fn reason(&self) -> String {
        let said = fs::read(self.log).unwrap_or_default();
        let said = reason(&String::from_utf8_lossy(&said));
        self.volume.redactor().redact(&said)
    }

    /// The root of every volume has the first inode.
    async fn is_there(&self) -> bool {
        let at = self.at.to_owned();
        let seen = tokio::task::spawn_blocking(move || fs::metadata(at));
        matches!(seen.await, Ok(Ok(root)) if root.ino() == 1)
    }

    async fn wait(&self, process: &mut Child) -> Result<(), MountError> {
        loop {
            if process.try_wait()?.is_some() {
                return Err(MountError::Ended(self.reason()));
            }
            if self.is_there().await {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}

impl Juicefs {
    /// Mounts a volume: the process that serves it, which outlives this one. It has a
    /// second process under it, and starts that again when it dies.
    ///
    /// Where the same volume is mounted already and its process has lost the first of
    /// the two, the new one takes over without a gap.
    ///
    /// # Errors
    /// When it can't be mounted; then no process is left.
    pub async fn mount(&self, mount: &Mount<'_>) -> Result<u32, MountError> {
        let mut command = self.command();
        let password = mount
            .volume
            .keys()
            .find(|(name, _)| *name == "META_PASSWORD");
        command
            .args(mount.arguments())
            .envs(password)
            .env("GOMAXPROCS", half_of_the_cores().to_string())
            .stderr(File::create(mount.log)?)
            // Ctrl-C in the terminal of this process is not meant for it.
            .process_group(0);
        let mut process = command.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        let waited = timeout_at(deadline, mount.wait(&mut process)).await;
        let waited = waited.unwrap_or_else(|_| Err(MountError::Slow(mount.reason())));
        match (waited, process.id()) {
            (Ok(()), Some(pid)) => Ok(pid),
            (Ok(()), None) => Err(MountError::Ended(mount.reason())),
            (Err(error), _) => {
                // It has a second process, which would outlive it.
                drop(Group::of(&process));
                let _: io::Result<_> = process.wait().await;
                Err(error)
            }
        }
    }
}

/// The others are for those who read: on two cores, the Go runtime would else take more time
/// from them by looking for work than by doing it.
fn half_of_the_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(options: &[&str]) -> Result<MountOptions, BadOption> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        MountOptions::parse(&options)
    }

    fn arguments(options: &[&str]) -> Vec<String> {
        let entries = [
            ("name", "vol"),
            ("storage", "file"),
            ("bucket", "/b"),
            ("metaurl", "redis://:pw@h/0"),
        ];
        let data = entries.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let volume = Volume::from_secret(&data.into()).unwrap();
        let options = parse(options).unwrap();
        let cache_dirs: Vec<PathBuf> = options.cache_dirs().iter().map(PathBuf::from).collect();
        let mount = Mount {
            volume: &volume,
            options: &options,
            cache_dirs: &cache_dirs,
            at: Path::new("/mnt"),
            log: Path::new("/log"),
        };
        let arguments = mount.arguments().into_iter();
        arguments.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn options_are_those_of_the_driver() {
        let found = arguments(&[
            "cache-dir=/var/lib/juicefs/a:/dev/shm/a",
            "cache-size=1024,free-space-ratio=0.2",
            "writeback",
            "allow_other",
            "max_read=99",
            "rw",
            "metrics=127.0.0.1:9999",
        ]);
        assert_eq!(
            found,
            [
                "mount",
                "--no-usage-report",
                "--cache-size=1024",
                "--free-space-ratio=0.2",
                "--writeback",
                "--metrics=127.0.0.1:9999",
                "--cache-dir=/var/lib/juicefs/a:/dev/shm/a",
                "-o",
                "allow_other,max_read=99",
                "redis://@h/0",
                "/mnt",
            ]
        );
    }

    #[test]
    fn without_options_there_is_the_usual_cache() {
        let found = arguments(&[]);
        let has = |words: &[String], word: &str| words.iter().any(|found| found == word);
        assert!(has(&found, "--metrics=127.0.0.1:0"), "{found:?}");
        assert!(has(&found, "--cache-dir=/var/jfsCache"), "{found:?}");
        let found = arguments(&["cache-dir=memory"]);
        assert!(has(&found, "--cache-dir=memory"), "{found:?}");
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for option in ["--log=/x", "a b", "=x", "-d"] {
            assert_eq!(parse(&[option]), Err(BadOption(option.to_owned())));
        }
    }
}
