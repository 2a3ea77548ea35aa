//! What a mount tells of itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Bytes that juicefs counts for each cached block beside its data.
const PER_BLOCK: u64 = 4096;

/// A directory where a volume is mounted.
#[derive(Clone, Debug)]
pub struct MountPoint {
    root: PathBuf,
}

/// What the mount counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the data that is cached.
    pub cached: u64,
    /// Blocks that are cached.
    pub blocks: u64,
}

/// What was read of a volume since it was mounted, in blocks. What the kernel remembers of
/// a file it does not ask for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Blocks that were cached.
    pub hits: u64,
    /// Bytes that were read of them.
    pub hit_bytes: u64,
    /// Blocks that came from the storage.
    pub misses: u64,
    /// Bytes that were read of them.
    pub miss_bytes: u64,
}

impl MountPoint {
    /// A volume is mounted, or will be, at `root`.
    pub fn new(root: impl Into<PathBuf>) -> MountPoint {
        MountPoint { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What it counts now. It is a small read, but one that may block as long as
    /// the mount hangs.
    ///
    /// # Errors
    /// When nothing is mounted there, or does not answer.
    pub fn stats(&self) -> io::Result<Stats> {
        let text = self.counters()?;
        let missing = || io::Error::other("the mount does not tell how much is cached");
        let blocks = figure(&text, "juicefs_blockcache_blocks").ok_or_else(missing)?;
        let bytes = figure(&text, "juicefs_blockcache_bytes").ok_or_else(missing)?;
        Ok(Stats {
            cached: bytes.saturating_sub(blocks.saturating_mul(PER_BLOCK)),
            blocks,
        })
    }

    /// Asks for a file that is not there, which only the server of the metadata can
    /// know; the counters are the mount's own. It blocks as long as that server is
    /// gone, until juicefs gives up.
    ///
    /// # Errors
    /// When the metadata can't be reached.
    pub fn reach_metadata(&self) -> io::Result<()> {
        match fs::symlink_metadata(self.root.join(".nothing")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What was read so far; as with [`MountPoint::stats`], this may block.
    ///
    /// # Errors
    /// When nothing is mounted there, or does not answer.
    pub fn reads(&self) -> io::Result<Reads> {
        let text = self.counters()?;
        // What has not happened yet may be missing.
        let figure = |name| figure(&text, name).unwrap_or_default();
        Ok(Reads {
            hits: figure("juicefs_blockcache_hits"),
            hit_bytes: figure("juicefs_blockcache_hit_bytes"),
            misses: figure("juicefs_blockcache_miss"),
            miss_bytes: figure("juicefs_blockcache_miss_bytes"),
        })
    }

    fn counters(&self) -> io::Result<String> {
        fs::read_to_string(self.root.join(".stats"))
    }

    /// The folder of the volume that is mounted; empty: the whole volume. Only root may know.
    ///
    /// # Errors
    /// When nothing is mounted there, or this is not root.
    pub fn folder(&self) -> io::Result<String> {
        let text = fs::read_to_string(self.root.join(".config"))?;
        let config: Config = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok(config.meta.subdir)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    meta: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    #[serde(default)]
    subdir: String,
}

fn figure(counters: &str, name: &str) -> Option<u64> {
    let lines = counters.lines().filter_map(|line| line.split_once(' '));
    let mut values = lines.filter(|(key, _)| *key == name);
    values
        .next()
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn figures_and_configuration_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mount = MountPoint::new(dir.path());
        assert!(mount.stats().is_err() && mount.folder().is_err());
        let stats = "juicefs_blockcache_blocks 300\njuicefs_blockcache_bytes 5743800\n\
            juicefs_blockcache_hit_bytes 70\njuicefs_blockcache_hits 7\n";
        fs::write(dir.path().join(".stats"), stats).unwrap();
        let config = r#"{"Meta": {"Subdir": "a/b", "Sid": 1}, "Format": {"Name": "v"}}"#;
        fs::write(dir.path().join(".config"), config).unwrap();
        let want = Stats {
            cached: 4_515_000,
            blocks: 300,
        };
        assert_eq!(mount.stats().unwrap(), want);
        let want = Reads {
            hits: 7,
            hit_bytes: 70,
            ..Reads::default()
        };
        assert_eq!(mount.reads().unwrap(), want);
        assert_eq!(mount.folder().unwrap(), "a/b");
    }
}
