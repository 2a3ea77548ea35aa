//! Paths that stay in the data.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What JuiceFS shows at the root of a mount beside the data. It lets nobody use these names
/// there.
const VIRTUAL: [&str; 5] = [".accesslog", ".config", ".control", ".stats", ".trash"];

/// A path of the user's, relative to some directory of the data, without `.`; or what is wrong
/// with it.
pub(crate) fn relative(path: &Path) -> Result<PathBuf, &'static str> {
    if path.as_os_str().is_empty() {
        return Err("is empty");
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err("has a NUL byte in it");
    }
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("has `..` in it"),
            Component::RootDir | Component::Prefix(_) => {
                return Err("is absolute; it must be relative");
            }
        }
    }
    Ok(plain)
}

/// Whether a path from the root of the data is JuiceFS's own, not data.
pub(crate) fn is_virtual(path: &Path) -> bool {
    let first = path.components().next();
    first.is_some_and(|first| VIRTUAL.iter().any(|name| first.as_os_str() == *name))
}
