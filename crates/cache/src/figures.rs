//! What is cached: sampled from the mount's own counters, and told at once to
//! those who wait for a change. Never by walking the data.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cache_api::{Cache, Disk, Total};
use juicefs::{Juicefs, MountPoint, Stats};
use nix::sys::statvfs::statvfs;
use tokio::sync::watch;

use crate::jobs::first_revision;

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long the mount may take to answer before that is told.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a count of the data may take.
const COUNT_PATIENCE: Duration = Duration::from_secs(120);
/// Disks are shared: less than this, or a hundredth of a small one, is no change that
/// anybody waits for.
const DISK_STEP: u64 = 16 << 20;

/// The figures of this node.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    published: Arc<watch::Sender<Cache>>,
}

impl Figures {
    /// With the share of the last warmup, if there was one.
    pub(crate) fn new(share: Option<u64>) -> Figures {
        let first = Cache {
            revision: first_revision(),
            share,
            ..Cache::default()
        };
        Figures {
            published: Arc::new(watch::Sender::new(first)),
        }
    }

    /// As they are.
    pub(crate) fn current(&self) -> Cache {
        self.published.borrow().clone()
    }

    /// Tells whenever they have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<Cache> {
        self.published.subscribe()
    }

    /// Of a warmup that has chosen its files.
    pub(crate) fn set_share(&self, share: u64) {
        self.update(|cache| cache.share = Some(share));
    }

    /// As counted between two samples.
    pub(crate) fn set_cached(&self, cached: u64) {
        self.update(|figures| figures.cached = cached);
    }

    /// Counts all data.
    pub(crate) async fn count(&self, juicefs: &Juicefs, root: &Path) -> bool {
        let counted = tokio::time::timeout(COUNT_PATIENCE, juicefs.info(root)).await;
        let total = match counted {
            Ok(Ok(info)) => Total {
                bytes: info.size,
                files: info.files,
            },
            Ok(Err(error)) => {
                tracing::warn!(%error, "the data was not counted");
                return false;
            }
            Err(_) => {
                tracing::warn!("the data was not counted in time");
                return false;
            }
        };
        self.update(|cache| cache.total = Some(total));
        true
    }

    /// Reads the counters once, so that nobody is told that nothing is cached before they
    /// are sampled, which may take as long as the metadata.
    pub(crate) async fn begin(&self, mount: &MountPoint, dirs: &[PathBuf]) {
        let (mount, dirs) = (mount.clone(), dirs.to_vec());
        let reading = tokio::task::spawn_blocking(move || (mount.stats(), disk(&dirs)));
        // One that can't be read is told of by whoever samples.
        if let Ok(Ok((Ok(stats), disk))) = tokio::time::timeout(PATIENCE, reading).await {
            self.update(|cache| take(cache, Ok(stats), disk));
        }
    }

    /// Samples for ever.
    pub(crate) async fn sample(&self, mount: MountPoint, dirs: Vec<PathBuf>) {
        loop {
            let (mount, dirs) = (mount.clone(), dirs.clone());
            let at = mount.root().display().to_string();
            // One at a time: a mount that hangs takes one thread, not all.
            let mut reading = tokio::task::spawn_blocking(move || {
                let reached = mount.reach_metadata();
                (reached.and_then(|()| mount.stats()), disk(&dirs))
            });
            let read = match tokio::time::timeout(PATIENCE, &mut reading).await {
                Ok(read) => read,
                Err(_) => {
                    let error = format!("the volume at {at} does not answer");
                    self.update(|cache| cache.error = Some(error));
                    reading.await
                }
            };
            if let Ok((stats, disk)) = read {
                let stats = stats.map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => format!("no JuiceFS is mounted at {at}"),
                    _ => format!("the volume at {at} can't be read: {error}"),
                });
                self.update(|cache| take(cache, stats, disk));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn update(&self, change: impl FnOnce(&mut Cache)) {
        self.published.send_if_modified(|cache| {
            let before = cache.clone();
            change(cache);
            let changed = *cache != before;
            if changed {
                cache.revision += 1;
            }
            changed
        });
    }
}

/// What a sample changes.
fn take(cache: &mut Cache, stats: Result<Stats, String>, disk: Disk) {
    match stats {
        Ok(stats) => {
            cache.cached = stats.cached;
            cache.error = None;
        }
        Err(error) => cache.error = Some(error),
    }
    let moved = cache
        .disk
        .avail
        .abs_diff(disk.avail)
        .max(cache.disk.used.abs_diff(disk.used));
    let step = DISK_STEP.min(disk.size / 100);
    if moved >= step.max(1) || cache.disk.size != disk.size {
        cache.disk = disk;
    }
}

/// The disks of directories, each once. A directory that is not there has none.
fn disk(dirs: &[PathBuf]) -> Disk {
    let mut seen = BTreeSet::new();
    let mut sum = Disk::default();
    for dir in dirs {
        let (Ok(metadata), Ok(found)) = (dir.metadata(), statvfs(dir)) else {
            continue;
        };
        if seen.insert(metadata.dev()) {
            let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
            sum.size += bytes(found.blocks());
            sum.used += bytes(found.blocks().saturating_sub(found.blocks_free()));
            sum.avail += bytes(found.blocks_available());
        }
    }
    sum
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn stats(cached: u64) -> Result<Stats, String> {
        Ok(Stats { cached, blocks: 1 })
    }

    fn disk_of(avail: u64) -> Disk {
        Disk {
            size: 1 << 40,
            used: (1 << 40) - avail,
            avail,
        }
    }

    #[test]
    fn only_a_change_is_another_revision() {
        let figures = Figures::new(None);
        let sample = |cached, avail| {
            figures.update(|cache| take(cache, stats(cached), disk_of(avail)));
            figures.current()
        };
        let first = sample(5, 1 << 30);
        assert_eq!(sample(5, 1 << 30), first);
        assert_eq!(
            sample(5, (1 << 30) + 4096),
            first,
            "others write to the disk too"
        );
        let second = sample(6, 1 << 30);
        assert!(second.revision > first.revision && second.cached == 6);
        assert_eq!(sample(6, 2 << 30).disk.avail, 2 << 30);
    }

    #[test]
    fn a_small_disk_that_fills_up_is_told() {
        let figures = Figures::new(None);
        for avail in [16 << 20, 0] {
            let disk = Disk {
                size: 64 << 20,
                used: (64 << 20) - avail,
                avail,
            };
            figures.update(|cache| take(cache, stats(5), disk));
            assert_eq!(figures.current().disk.avail, avail);
        }
    }

    #[test]
    fn a_mount_that_is_gone_is_told_and_the_last_figures_stay() {
        let figures = Figures::new(Some(7));
        figures.update(|cache| take(cache, stats(5), disk_of(1)));
        figures.update(|cache| take(cache, Err("gone".to_owned()), disk_of(1)));
        let cache = figures.current();
        assert_eq!((cache.cached, cache.share), (5, Some(7)));
        assert_eq!(cache.error.as_deref(), Some("gone"));
        figures.update(|cache| take(cache, stats(5), disk_of(1)));
        assert_eq!(figures.current().error, None);
    }

    #[test]
    fn a_disk_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let one = disk(std::slice::from_ref(&path));
        assert!(one.size > 0 && one.size >= one.used + one.avail);
        let twice = disk(&[path.clone(), path.join("."), path.join("missing")]);
        assert_eq!(twice.size, one.size);
    }
}
