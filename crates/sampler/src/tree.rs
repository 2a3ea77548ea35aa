//! The data as a tree of directories, as Paddle walks it.
//!
//! **Links.** Paddle's data sets walk by `os.walk(followlinks=True)`: a link to a directory is
//! entered, anything else is a file by its name alone, even a link that leads nowhere. That is
//! done here too, so that indices agree. Only links out of the data are never followed. What lies
//! there is not the user's data but the server's own machine; it can't be cached; and for the
//! training, in another container, such a link usually leads nowhere. So it counts as one that
//! leads nowhere. Links in the data should be relative: these mean the same wherever it is
//! mounted.
//!
//! A link to a directory that it is in itself is an error: Paddle would find each file there 41
//! times, until the kernel follows no more links, and with two such links never end.

use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::EnumerateError;
use crate::within;

/// What `paddle.vision.datasets` takes for images. The whole name counts, so that of a file
/// that is called `.jpg` has an ending too.
const ENDINGS: [&str; 9] = [
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
];

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Regular files. No link is followed: what it leads to has a name of its own.
    Files,
    /// What Paddle takes for images, links followed.
    Images,
}

/// A directory in which something was found.
#[derive(Debug)]
pub(crate) struct Folder {
    /// From the root of the data, by the links that were followed.
    pub(crate) path: PathBuf,
    /// In no order.
    pub(crate) names: Vec<OsString>,
}

/// The data.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Without links, so that it can be seen what is below it.
    root: PathBuf,
}

/// A directory that is still to be read.
struct Pending {
    path: PathBuf,
    /// Where the links on the way really are.
    links: Rc<[PathBuf]>,
}

impl Tree {
    pub(crate) fn open(root: &Path) -> Result<Tree, EnumerateError> {
        let root = fs::canonicalize(root).map_err(EnumerateError::read(root))?;
        Ok(Tree { root })
    }

    /// Where something of the data is on this machine.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// Where a path of the user's really leads, from the root of the data.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, EnumerateError> {
        let fault = |fault| EnumerateError::Path {
            path: path.to_owned(),
            fault,
        };
        let plain = within::relative(path).map_err(fault)?;
        let real = fs::canonicalize(self.absolute(&plain)).map_err(EnumerateError::read(path))?;
        let real = real.strip_prefix(&self.root);
        let real = real.map_err(|_| fault("is a link that leads out of the data"))?;
        if within::is_virtual(real) {
            return Err(fault("is JuiceFS's own, not data"));
        }
        Ok(real.to_owned())
    }

    /// All that is found in a directory and below it.
    pub(crate) fn walk(&self, top: &Path, search: Search) -> Result<Vec<Folder>, EnumerateError> {
        let mut found = Vec::new();
        // No recursion: the depth is the user's, the stack ours.
        let mut pending = vec![Pending {
            path: top.to_owned(),
            links: Rc::from([]),
        }];
        while let Some(here) = pending.pop() {
            match self.read(&here, search, &mut pending) {
                Ok(names) if names.is_empty() => {}
                Ok(names) => found.push(Folder {
                    path: here.path,
                    names,
                }),
                // Removed since its name was read.
                Err(EnumerateError::Read { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && here.path != top => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// What is found in one directory; its own are added to those that are still to be read.
    fn read(
        &self,
        here: &Pending,
        search: Search,
        pending: &mut Vec<Pending>,
    ) -> Result<Vec<OsString>, EnumerateError> {
        let at_root = here.path.as_os_str().is_empty();
        let absolute = self.absolute(&here.path);
        let unread = || EnumerateError::read(&absolute);
        let mut names = Vec::new();
        for entry in fs::read_dir(&absolute).map_err(unread())? {
            let entry = entry.map_err(unread())?;
            let name = entry.file_name();
            if at_root && within::is_virtual(Path::new(&name)) {
                continue;
            }
            let kind = entry.file_type().map_err(unread())?;
            if kind.is_dir() {
                pending.push(Pending {
                    path: here.path.join(&name),
                    links: Rc::clone(&here.links),
                });
            } else if search.enters(kind) && self.is_folder_inside(&entry.path()) {
                pending.push(self.follow(here, &name)?);
            } else if search.finds(kind, &name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether a link leads to a directory of the data. One that leads nowhere does not, nor
    /// one that the kernel does not follow: Python sees it so.
    fn is_folder_inside(&self, link: &Path) -> bool {
        let Ok(real) = fs::canonicalize(link) else {
            return false;
        };
        let inside = real.strip_prefix(&self.root);
        inside.is_ok_and(|path| !within::is_virtual(path)) && real.is_dir()
    }

    /// Without an end there is a link that is followed twice on one way.
    fn follow(&self, here: &Pending, name: &OsStr) -> Result<Pending, EnumerateError> {
        let absolute = self.absolute(&here.path);
        let holder = fs::canonicalize(&absolute).map_err(EnumerateError::read(absolute))?;
        let link = holder.join(name);
        if here.links.contains(&link) {
            let link = link.strip_prefix(&self.root).unwrap_or(&link).to_owned();
            return Err(EnumerateError::Loop { link });
        }
        Ok(Pending {
            path: here.path.join(name),
            links: here.links.iter().cloned().chain([link]).collect(),
        })
    }
}

impl Search {
    fn enters(self, kind: FileType) -> bool {
        self == Search::Images && kind.is_symlink()
    }

    fn finds(self, kind: FileType, name: &OsStr) -> bool {
        match self {
            Search::Files => kind.is_file(),
            Search::Images => is_image(name),
        }
    }
}

/// Python lowers all of Unicode before it compares, but no other letter becomes one of these.
fn is_image(name: &OsStr) -> bool {
    let name = name.as_bytes();
    ENDINGS.iter().any(|ending| {
        let start = name.len().checked_sub(ending.len());
        let end = start.and_then(|start| name.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    })
}
