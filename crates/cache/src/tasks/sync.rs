//! Copies from a source into the volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache_api::{Credentials, Outcome, Progress, Sync, reason};
use juicefs::{Error, Figures};

use super::{Context, blocking};
use crate::paths;

/// The pauses before a copy that was left incomplete is gone on with: juicefs gives a
/// file up after some tries, and a server that was gone may be back. What was copied
/// is not copied again.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(15)];

impl Context {
    pub(super) async fn sync(
        &self,
        order: &Sync,
        credentials: &Credentials,
        progress: impl Fn(Progress),
    ) -> Result<Outcome, Error> {
        // A copy goes past the mount, into the volume itself.
        let destination = self
            .folder()
            .await?
            .join(paths::relative(&order.destination)?);
        // An earlier server may have been killed in the middle of one, and with its pod what it
        // knew of that is gone.
        let (root, folder) = (self.root().to_owned(), order.destination.clone());
        blocking(move || sweep(&root, &folder)).await?;
        let tell = |figures: Figures| {
            progress(Progress {
                files: figures.done,
                total_files: Some(figures.found),
                bytes: figures.done_bytes,
                total_bytes: None,
            });
        };
        let mut pauses = PAUSES.iter();
        let mut begun = false;
        let synced = loop {
            let copying = self.juicefs.sync(order, &destination, credentials, tell);
            let error = match copying.await {
                Ok(synced) => break synced,
                Err(error) => error,
            };
            begun |= error.reason == reason::INCOMPLETE;
            match pauses.next() {
                Some(pause) if begun => {
                    tracing::warn!(%error, "it is gone on with in {} s", pause.as_secs());
                    tokio::time::sleep(*pause).await;
                }
                _ => return Err(error),
            }
        };
        let files = synced.copied + synced.skipped;
        progress(Progress {
            files,
            total_files: Some(files),
            bytes: synced.bytes,
            total_bytes: Some(synced.bytes),
        });
        Ok(Outcome::default())
    }

    /// The folder of the volume that is mounted; empty: the whole volume.
    async fn folder(&self) -> Result<PathBuf, Error> {
        let mount = self.mount.clone();
        let folder = blocking(move || mount.folder()).await?;
        let folder = folder.map_err(|error| self.unreadable(&error))?;
        paths::relative(folder.trim_start_matches('/'))
    }
}

/// Removes what a sync that was killed has left: files that are not whole, under
/// names of their own. Nobody else would.
pub(crate) fn sweep(root: &Path, destination: &str) {
    let Ok(destination) = paths::relative(destination) else {
        return;
    };
    let top = match destination.as_os_str().is_empty() {
        true => Path::new(".").to_owned(),
        false => destination,
    };
    let found = match sampler::enumerate(root, &sampler::Order::All, &[top]) {
        Ok(found) => found,
        // Nothing was copied yet, or the mount is gone.
        Err(error) => {
            tracing::debug!(%error, "nothing to sweep");
            return;
        }
    };
    for file in found.iter().filter(|file| is_unfinished(file)) {
        if let Err(error) = fs::remove_file(root.join(file)) {
            tracing::warn!(file = %file.display(), %error, "left by a sync");
        }
    }
}

/// Whether a file is one that a sync is still writing: `.jfs.NAME.tmp.NUMBER`.
pub(super) fn is_unfinished(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let number = name
        .strip_prefix(".jfs.")
        .and_then(|name| name.rsplit_once(".tmp."));
    number.is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_swept_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let kept = [
            "a/x.tmp.1",
            "a/.jfs.x",
            "a/.jfs.x.tmp.",
            "b/.jfs.x.tmp.12",
            "a/.jfs.x.tmp.1a",
        ];
        for name in kept.iter().chain(&["a/.jfs.x.jpg.tmp.6750886140752414928"]) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        sweep(dir.path(), "a");
        let mut left = sampler::enumerate(dir.path(), &sampler::Order::All, &[]).unwrap();
        let mut kept = kept.map(std::path::PathBuf::from).to_vec();
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
        sweep(dir.path(), "");
        assert!(!dir.path().join("b/.jfs.x.tmp.12").exists());
        sweep(dir.path(), "missing");
    }
}
