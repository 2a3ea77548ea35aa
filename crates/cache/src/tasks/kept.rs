//! What the last warmup chose for this node: it is kept, so that it can be told how much of
//! it is cached.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use juicefs::Error;

use super::share::enumerate;
use super::warmup::measure;
use super::{Context, blocking};
use crate::store;

/// How much it is.
pub(crate) const SHARE_FILE: &str = "share.json";
/// Which files; there is no such list when it is all data.
const SHARE_LIST: &str = "share.list";

impl Context {
    /// Keeps what was chosen, and its list, unless it is all data.
    pub(super) async fn keep_share(&self, bytes: u64, list: Option<PathBuf>) -> Result<(), Error> {
        let kept = self.state_dir.join(SHARE_LIST);
        let path = kept.clone();
        let moved = blocking(move || match list {
            Some(list) => fs::rename(list, &path),
            None => store::remove(&path),
        });
        let unwritten = |error: io::Error| self.unwritten(&kept, &error);
        moved.await?.map_err(unwritten)?;
        self.write_share(bytes).await
    }

    async fn write_share(&self, bytes: u64) -> Result<(), Error> {
        let path = self.state_dir.join(SHARE_FILE);
        let file = path.clone();
        let written = blocking(move || store::write(&file, &bytes)).await?;
        written.map_err(|error| self.unwritten(&path, &error))?;
        self.figures.set_share(bytes);
        Ok(())
    }

    /// Counts it again, because data was removed, and caches nothing. When that can't be
    /// done, it is as it was until the next warmup.
    pub(crate) async fn recount(&self) {
        let Some(before) = self.figures.current().share else {
            return;
        };
        let recounted = async {
            let (root, list) = (self.root().to_owned(), self.state_dir.join(SHARE_LIST));
            let listed = blocking(move || what_is_left(&root, &list)).await??;
            let left = match listed {
                Some(left) => left,
                None => self.juicefs.info(self.root()).await?.length,
            };
            // What came since then was not chosen.
            self.write_share(left.min(before)).await
        };
        if let Err(error) = recounted.await {
            tracing::warn!(%error, "the share of this node was not counted again");
        }
    }
}

/// How much there is of the files of a list, if there is a list. Whether a file is there is
/// seen in the listing of its folder: the mount believes for long what it knows of a name.
fn what_is_left(root: &Path, list: &Path) -> Result<Option<u64>, Error> {
    let Ok(text) = fs::read(list) else {
        return Ok(None);
    };
    let there: HashSet<PathBuf> = enumerate(root, &sampler::Order::All, &[])?
        .into_iter()
        .collect();
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    // By another name, if there are links on the way.
    let is_linked = |path: &Path| {
        let found = path.canonicalize().ok();
        found.is_some_and(|found| {
            let inside = found.strip_prefix(&real);
            inside.is_ok_and(|file| there.contains(file))
        })
    };
    let listed = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let path = Path::new(OsStr::from_bytes(line));
        let file = path.strip_prefix(root).ok()?;
        (there.contains(file) || is_linked(path)).then(|| file.to_owned())
    });
    let listed: Vec<PathBuf> = listed.collect();
    Ok(Some(measure(root, &listed).bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_no_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (root, list) = (dir.path().join("data"), dir.path().join("list"));
        assert_eq!(what_is_left(&root, &list).unwrap(), None);
        fs::create_dir_all(root.join("a")).unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        for name in ["a/1", "a/2", "a/3", "not listed"] {
            fs::write(root.join(name), "12345").unwrap();
        }
        let lines = ["a/1", "a/2", "link/3", "gone"].map(|file| root.join(file));
        let text = lines.map(|line| format!("{}\n", line.display())).concat();
        fs::write(&list, text).unwrap();
        assert_eq!(what_is_left(&root, &list).unwrap(), Some(15));
        fs::remove_file(root.join("a/1")).unwrap();
        assert_eq!(what_is_left(&root, &list).unwrap(), Some(10));
        fs::remove_dir_all(root.join("a")).unwrap();
        assert_eq!(what_is_left(&root, &list).unwrap(), Some(0));
    }
}
