//! What tests share.

use std::path::PathBuf;

/// The file of a store; it goes with the test.
pub struct File(pub PathBuf);

impl File {
    pub fn new(name: &str) -> File {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.redb"));
        let _ = std::fs::remove_file(&path);
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
