//! A data set on disk.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Data in a directory of its own, `outside` beside it.
pub struct Data(TempDir);

impl Data {
    pub fn new() -> Data {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        Data(dir)
    }

    pub fn root(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub fn outside(&self) -> PathBuf {
        self.0.path().join("outside")
    }

    pub fn file(self, path: impl AsRef<OsStr>) -> Data {
        self.list(path, "")
    }

    pub fn files<const N: usize>(self, paths: [&str; N]) -> Data {
        paths.into_iter().fold(self, Data::file)
    }

    pub fn bytes(self, path: &[u8]) -> Data {
        self.file(OsStr::from_bytes(path))
    }

    pub fn list(self, path: impl AsRef<OsStr>, text: impl AsRef<[u8]>) -> Data {
        let path = self.root().join(Path::new(path.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn directory(self, path: &str) -> Data {
        fs::create_dir_all(self.root().join(path)).unwrap();
        self
    }

    pub fn link(self, path: &str, to: impl AsRef<Path>) -> Data {
        symlink(to, self.root().join(path)).unwrap();
        self
    }
}
