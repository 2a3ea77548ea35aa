//! Paths that stay in the data.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use cache_api::reason;
use juicefs::Error;

/// What JuiceFS shows at the root of a mount beside the data.
const VIRTUAL: [&str; 5] = [".accesslog", ".config", ".control", ".stats", ".trash"];

/// So many names tell what a folder has, of so many that are looked at.
const SHOWN: usize = 5;
const LOOKED_AT: usize = 1000;

/// A path from the root of the data; empty for the root itself.
pub(crate) fn relative(path: &str) -> Result<PathBuf, Error> {
    let bad = |fault: &str| {
        let message = format!("the path {path:?} {fault}; give one from the root of the data");
        Err(Error::new(reason::BAD_PATH, message))
    };
    if path.contains('\0') {
        return bad("has a NUL byte in it");
    }
    let mut plain = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir => return bad("has `..` in it"),
            Component::RootDir | Component::Prefix(_) => return bad("is absolute"),
        }
    }
    let first = plain.iter().next();
    if first.is_some_and(|first| VIRTUAL.iter().any(|name| first == *name)) {
        return bad("is JuiceFS's own, not data");
    }
    Ok(plain)
}

/// Where a path of the data is on this machine. No link on the way leads out of
/// the data; the last name itself may be one.
pub(crate) fn existing(root: &Path, path: &str) -> Result<PathBuf, Error> {
    find(root, path)?.ok_or_else(|| missing(root, path))
}

/// There is nothing at a path: tells what there is, in the last folder on the way that is
/// there.
pub(crate) fn missing(root: &Path, path: &str) -> Error {
    let plain = relative(path).unwrap_or_default();
    let mut folders = plain.ancestors().skip(1);
    let found = folders.find_map(|folder| Some((folder, names(&root.join(folder)).ok()?)));
    let fault = match found {
        Some((folder, names)) if folder.as_os_str().is_empty() => {
            format!("is not there, the data has {names}")
        }
        Some((folder, names)) => format!("is not there, {folder:?} has {names}"),
        None => "is not there".to_owned(),
    };
    bad(path, &fault)
}

/// Some of what is in a folder.
fn names(folder: &Path) -> io::Result<String> {
    let names = folder.read_dir()?.take(LOOKED_AT);
    let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| !VIRTUAL.contains(&name.as_str()) && !name.contains('\n'));
    names.sort();
    let more = if names.len() > SHOWN { " and more" } else { "" };
    names.truncate(SHOWN);
    Ok(match names.as_slice() {
        [] => "nothing".to_owned(),
        names => format!("{}{more}", names.join(", ")),
    })
}

fn bad(path: &str, fault: &str) -> Error {
    let message = format!("the path {path:?} {fault}; give one that is in the data");
    Error::new(reason::BAD_PATH, message)
}

/// The same, or none when there is nothing.
pub(crate) fn find(root: &Path, path: &str) -> Result<Option<PathBuf>, Error> {
    let plain = relative(path)?;
    let root = root.canonicalize().map_err(|error| {
        let message = format!("the data at {} can't be read: {error}", root.display());
        Error::new(reason::VOLUME_UNREACHABLE, message)
    })?;
    let (Some(parent), Some(name)) = (plain.parent(), plain.file_name()) else {
        return Ok(Some(root));
    };
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => Err(bad(path, &format!("can't be used: {error}"))),
    };
    let parent = match root.join(parent).canonicalize() {
        Ok(parent) => parent,
        Err(error) => return unread(error),
    };
    if !parent.starts_with(&root) {
        return Err(bad(path, "leads out of the data by a link"));
    }
    match is_listed(&parent, name) {
        Ok(true) => Ok(Some(parent.join(name))),
        Ok(false) => Ok(None),
        Err(error) => unread(error),
    }
}

/// Whether a folder has an entry. To look at it alone may find what has been removed by
/// another node: the mount believes names for long, but never lists from memory.
fn is_listed(folder: &Path, name: &OsStr) -> io::Result<bool> {
    for entry in folder.read_dir()? {
        if entry?.file_name() == name {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn paths_can_not_leave_the_data() {
        for path in [
            "../x",
            "a/../../x",
            "/",
            "/etc",
            ".stats",
            ".trash/x",
            "a\0b",
        ] {
            let error = relative(path).unwrap_err();
            assert_eq!(error.reason, reason::BAD_PATH, "{path}");
        }
    }

    #[test]
    fn odd_names_are_names() {
        for path in ["a b", "it's \"x\"", "a\nb", "-rf", "a/.stats", "$(x)"] {
            assert_eq!(relative(path).unwrap(), Path::new(path));
        }
        assert_eq!(relative("./a//b/").unwrap(), Path::new("a/b"));
        assert_eq!(relative("").unwrap(), Path::new(""));
    }

    #[test]
    fn links_are_not_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(dir.path().join("secret"), "").unwrap();
        std::os::unix::fs::symlink("..", root.join("out")).unwrap();
        std::os::unix::fs::symlink("a", root.join("in")).unwrap();
        std::fs::write(root.join("a/f"), "").unwrap();
        let real = root.canonicalize().unwrap();
        assert_eq!(existing(&root, "a/f").unwrap(), real.join("a/f"));
        assert_eq!(existing(&root, "in/f").unwrap(), real.join("a/f"));
        assert_eq!(existing(&root, "out").unwrap(), real.join("out"));
        assert_eq!(existing(&root, "").unwrap(), real);
        assert_eq!(find(&root, "missing/x").unwrap(), None);
        for path in ["out/secret", "missing", "a/f/x"] {
            let error = existing(&root, path).unwrap_err();
            assert_eq!(error.reason, reason::BAD_PATH, "{path}: {error}");
        }
    }
}
