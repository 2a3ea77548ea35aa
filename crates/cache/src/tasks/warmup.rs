//! Caches this node's share of the data.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache_api::{Listing, Order, Outcome, Progress, Warmup, reason};
use juicefs::{Error, Stats, Targets};

use super::share::{Selection, select, takes_everything};
use super::{Context, blocking};

/// How often, and how soon again, is looked whether all is cached.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

impl Context {
    pub(super) async fn warmup(
        &self,
        order: &Warmup,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        if takes_everything(order) {
            return self.warm_everything(order, progress).await;
        }
        let selection = self.select(order).await?;
        if !selection.others.is_empty() {
            let list = self.list("evict.list", &selection.others).await?;
            self.juicefs.evict(Targets::List(&list)).await?;
        }
        let list = self.list("warmup.list", &selection.share).await?;
        let outcome = match selection.share.is_empty() {
            true => outcome(selection.listing, 0, 0),
            false => self.warm_share(order, selection, &list, progress).await?,
        };
        self.keep_share(outcome.share.unwrap_or_default(), Some(list))
            .await?;
        Ok(outcome)
    }

    /// Files are read while they are still being listed.
    async fn warm_everything(
        &self,
        order: &Warmup,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        let root = [self.root().to_owned()];
        let measuring = async {
            let listing = self.select(order).await?.listing;
            let measured = Measured {
                files: listing.files,
                bytes: self.juicefs.info(self.root()).await?.length,
            };
            Ok((listing, measured))
        };
        let filling = self.fill(order, Targets::Paths(&root), measuring, progress);
        let outcome = filling.await?;
        self.keep_share(outcome.share.unwrap_or_default(), None)
            .await?;
        Ok(outcome)
    }

    async fn warm_share(
        &self,
        order: &Warmup,
        selection: Selection,
        list: &Path,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        let tops = match order.paths.as_slice() {
            [] => vec![self.root().to_owned()],
            paths => self.existing(paths).await?,
        };
        // juicefs is several times faster at directories than at lists.
        let targets = match selection.is_whole {
            true => Targets::Paths(&tops),
            false => Targets::List(list),
        };
        let root = self.root().to_owned();
        let measuring = async {
            let Selection { listing, share, .. } = selection;
            let measured = blocking(move || measure(&root, &share)).await?;
            Ok((listing, measured))
        };
        self.fill(order, targets, measuring, progress).await
    }

    async fn select(&self, order: &Warmup) -> Result<Selection, Error> {
        let (root, chosen) = (self.root().to_owned(), order.clone());
        let selection = blocking(move || select(&root, &chosen)).await??;
        if selection.listing.files == 0 {
            self.is_empty(order).await?;
        }
        Ok(selection)
    }

    /// An order that takes none of the files that there are is a mistake; a volume
    /// without any file is not.
    async fn is_empty(&self, order: &Warmup) -> Result<(), Error> {
        let info = self.juicefs.info(self.root()).await?;
        if info.files == 0 {
            return Ok(());
        }
        let files = info.files;
        let takes = match order.sampler.order {
            Order::All => "there is none below the paths",
            Order::List => "the list names none",
            Order::Folder => "DatasetFolder takes images in one folder per class",
            Order::Image => "ImageFolder takes images",
        };
        let message = format!(
            "warmup: none of the {files} files in the volume is selected: {takes}; see whether \
             paths, file and sampler.order fit the data"
        );
        Err(Error::new(reason::NOTHING_SELECTED, message))
    }

    /// Reads targets into the cache; meanwhile it is measured how much they are.
    async fn fill(
        &self,
        order: &Warmup,
        targets: Targets<'_>,
        measuring: impl Future<Output = Result<(Listing, Measured), Error>>,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        let before = self.stats().await?;
        let reading = self.juicefs.warmup(targets, order.threads);
        let (listing, Measured { files, bytes }) = self
            .read_while_measured(reading, measuring, before, &progress)
            .await?;
        let cached = match before.cached == 0 && self.holds(bytes).await? {
            // Nothing was cached, and now it is as much as was read: this is it.
            true => bytes,
            false => {
                let checked = self.juicefs.check(targets).await?;
                match checked.files == files {
                    true => parts(bytes, checked.permille),
                    false => checked.cached.min(bytes),
                }
            }
        };
        // Else who hears that it has ended is told for half a second what was cached before.
        self.figures.set_cached(self.stats().await?.cached);
        progress(Progress {
            files,
            total_files: Some(files),
            bytes: cached,
            total_bytes: Some(bytes),
        });
        Ok(outcome(listing, bytes, cached))
    }

    /// Tells how far it is.
    async fn read_while_measured(
        &self,
        reading: impl Future<Output = Result<(), Error>>,
        measuring: impl Future<Output = Result<(Listing, Measured), Error>>,
        before: Stats,
        progress: &impl Fn(Progress),
    ) -> Result<(Listing, Measured), Error> {
        let mut reading = std::pin::pin!(reading);
        let mut measuring = std::pin::pin!(measuring);
        let mut changes = self.figures.changes();
        let mut measured: Option<(Listing, Measured)> = None;
        loop {
            tokio::select! {
                done = &mut reading => break done?,
                found = &mut measuring, if measured.is_none() => measured = Some(found?),
                changed = changes.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
            let total = measured.as_ref().map(|(_, total)| *total);
            let cached = changes.borrow().cached.saturating_sub(before.cached);
            let cached = total.map_or(cached, |total| cached.min(total.bytes));
            progress(Progress {
                // In proportion: juicefs counts blocks, not files.
                files: total.map_or(0, |total| proportion(total.files, cached, total.bytes)),
                total_files: total.map(|total| total.files),
                bytes: cached,
                total_bytes: total.map(|total| total.bytes),
            });
        }
        match measured {
            Some(measured) => Ok(measured),
            None => measuring.await,
        }
    }

    /// Whether exactly so much is cached. Blocks are written to the cache behind the back
    /// of who reads them, so it may take a moment; a check of every file takes longer.
    async fn holds(&self, bytes: u64) -> Result<bool, Error> {
        for _ in 0..LOOKS {
            if self.stats().await?.cached == bytes {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }

    async fn stats(&self) -> Result<Stats, Error> {
        let mount = self.mount.clone();
        let stats = blocking(move || mount.stats()).await?;
        stats.map_err(|error| self.unreadable(&error))
    }

    /// Writes paths to a file for juicefs.
    async fn list(&self, name: &str, files: &[PathBuf]) -> Result<PathBuf, Error> {
        let (root, list) = (self.root().to_owned(), self.state_dir.join(name));
        let (path, files) = (list.clone(), files.to_vec());
        let written = blocking(move || write_list(&path, &root, &files)).await?;
        written.map_err(|error| self.unwritten(&list, &error))?;
        Ok(list)
    }

    pub(super) fn unwritten(&self, path: &Path, error: &io::Error) -> Error {
        let reason = match error.kind() {
            io::ErrorKind::StorageFull => reason::OUT_OF_SPACE,
            _ => reason::COMMAND_FAILED,
        };
        Error::new(
            reason,
            format!("{} can't be written: {error}", path.display()),
        )
    }
}

/// A name with a line break can't be in a list: such a file is not cached, and the
/// percentage tells.
fn write_list(list: &Path, root: &Path, files: &[PathBuf]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(list)?);
    for file in files {
        let path = root.join(file);
        let line = OsStr::as_bytes(path.as_os_str());
        if !line.contains(&b'\n') {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

fn outcome(listing: Listing, share: u64, cached: u64) -> Outcome {
    Outcome {
        listing: Some(listing),
        share: Some(share),
        cached: Some(cached),
    }
}

/// How much something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Files that are not there don't count: a list may name any.
pub(super) fn measure(root: &Path, files: &[PathBuf]) -> Measured {
    let found = files
        .iter()
        .filter_map(|file| root.join(file).metadata().ok());
    found.fold(Measured { files: 0, bytes: 0 }, |sum, file| Measured {
        files: sum.files + 1,
        bytes: sum.bytes + file.len(),
    })
}

fn parts(bytes: u64, permille: u64) -> u64 {
    proportion(bytes, permille, 1000)
}

/// `whole × part / of`, without an overflow.
fn proportion(whole: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_path_in_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        let files = ["a", "b\nc", "d e"].map(PathBuf::from);
        write_list(&list, Path::new("/mnt"), &files).unwrap();
        assert_eq!(std::fs::read_to_string(list).unwrap(), "/mnt/a\n/mnt/d e\n");
    }

    #[test]
    fn proportions_do_not_overflow() {
        assert_eq!(parts(u64::MAX, 1000), u64::MAX);
        assert_eq!(parts(1001, 999), 999);
        assert_eq!(proportion(5, 1, 0), 5);
    }
}
