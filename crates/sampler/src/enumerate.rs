//! Which index is which file: the data sets of Paddle.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::EnumerateError;
use crate::list;
use crate::tree::{Folder, Search, Tree};
use crate::within;

/// What counts as a sample, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every regular file, by the bytes of its path from the root.
    All,
    /// The lines of a list, which is named by its path from the root; as PaddleClas reads it.
    List(PathBuf),
    /// As `paddle.vision.datasets.DatasetFolder` has them: class by class.
    Folder,
    /// As `paddle.vision.datasets.ImageFolder` has them: directory by directory.
    Image,
}

/// The files of a data set, in its order: the file with index 0 is the first. Their paths are
/// relative to the root of the data, which is usually that of a JuiceFS mount; what JuiceFS
/// itself shows there (`.stats`, `.trash` and others) does not count.
///
/// Without `paths` the data set is everything. With them it is what is there:
/// - [`Order::All`] takes the files and directories that are named, each file once.
/// - [`Order::Folder`] and [`Order::Image`] take each path for the root of a data set, as the
///   training does that opens `DatasetFolder("/data/train")`, one after another.
/// - [`Order::List`] goes with no paths: to leave lines out would change the indices of all
///   others.
///
/// No data set is an empty list. Paddle would refuse it.
///
/// # Errors
///
/// When a path or the list is missing, can't be read or may lead out of the data.
pub fn enumerate(
    root: &Path,
    order: &Order,
    paths: &[PathBuf],
) -> Result<Vec<PathBuf>, EnumerateError> {
    let tree = Tree::open(root)?;
    let everything = [PathBuf::from(".")];
    let tops = if paths.is_empty() {
        everything.as_slice()
    } else {
        paths
    };
    match order {
        Order::All => all(&tree, tops),
        Order::List(list) if paths.is_empty() => list::read(&tree, list),
        Order::List(list) => Err(EnumerateError::ListAndPaths { list: list.clone() }),
        Order::Folder => data_sets(&tree, tops, by_class),
        Order::Image => data_sets(&tree, tops, by_directory),
    }
}

/// By their real names, so that a file counts once however it was asked for.
fn all(tree: &Tree, tops: &[PathBuf]) -> Result<Vec<PathBuf>, EnumerateError> {
    let mut files = Vec::new();
    for top in tops {
        let real = tree.resolve(top)?;
        if tree.absolute(&real).is_file() {
            files.push(real);
        } else {
            let folders = tree.walk(&real, Search::Files)?;
            files.extend(folders.into_iter().flat_map(in_full));
        }
    }
    files.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
    files.dedup();
    Ok(files)
}

/// Data sets of Paddle, one after another.
fn data_sets(
    tree: &Tree,
    tops: &[PathBuf],
    in_order: fn(&Path, Vec<Folder>) -> Vec<Folder>,
) -> Result<Vec<PathBuf>, EnumerateError> {
    let mut files = Vec::new();
    for top in tops {
        tree.resolve(top)?;
        // By the name that it has for Paddle, too.
        let plain = within::relative(top).map_err(|fault| EnumerateError::Path {
            path: top.clone(),
            fault,
        })?;
        let mut folders = tree.walk(&plain, Search::Images)?;
        for folder in &mut folders {
            folder.names.sort_unstable_by(|a, b| as_python_sorts(a, b));
        }
        files.extend(in_order(&plain, folders).into_iter().flat_map(in_full));
    }
    Ok(files)
}

/// `ImageFolder`: all directories by their whole path, so that `a-b` is before `a/x`.
fn by_directory(_top: &Path, mut folders: Vec<Folder>) -> Vec<Folder> {
    folders.sort_unstable_by(|a, b| as_python_sorts(a.path.as_os_str(), b.path.as_os_str()));
    folders
}

/// `DatasetFolder`: each directory at the top is a class with all that is below it, so that
/// `a/x` is before `a-b`. Files at the top are of no class.
fn by_class(top: &Path, folders: Vec<Folder>) -> Vec<Folder> {
    let mut folders = by_directory(top, folders);
    folders.retain(|folder| folder.path != top);
    folders.sort_by(|a, b| as_python_sorts(class(top, a), class(top, b)));
    folders
}

fn class<'a>(top: &Path, folder: &'a Folder) -> &'a OsStr {
    let below = folder.path.strip_prefix(top).unwrap_or(&folder.path);
    below.iter().next().unwrap_or_default()
}

fn in_full(folder: Folder) -> impl Iterator<Item = PathBuf> {
    let Folder { path, names } = folder;
    names.into_iter().map(move |name| path.join(name))
}

/// Python sorts names by their code points. That is the order of their bytes too, unless one is
/// not UTF-8: such a byte is the code point U+DC00 + byte (PEP 383).
fn as_python_sorts(a: &OsStr, b: &OsStr) -> Ordering {
    match (a.to_str(), b.to_str()) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => code_points(a).cmp(code_points(b)),
    }
}

fn code_points(name: &OsStr) -> impl Iterator<Item = u32> {
    name.as_bytes().utf8_chunks().flat_map(|chunk| {
        let escaped = chunk.invalid().iter().map(|byte| 0xdc00 + u32::from(*byte));
        chunk.valid().chars().map(u32::from).chain(escaped)
    })
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
