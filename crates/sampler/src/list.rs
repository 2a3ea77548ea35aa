//! List files, as PaddleClas has them: `path label` in each line.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::EnumerateError;
use crate::tree::Tree;
use crate::within;

/// A line that is longer is not of a list. The longest are those of many labels.
const LONGEST_LINE: u64 = 1 << 20;

/// The paths in a list, which start at its own directory. Whether the files are there is not
/// looked up: that would take a request for each.
///
/// Blank lines don't count. PaddleClas itself stops at one; other readers pass over it. A label
/// need not be there, since files are all that is asked for.
pub(crate) fn read(tree: &Tree, list: &Path) -> Result<Vec<PathBuf>, EnumerateError> {
    let real = tree.absolute(&tree.resolve(list)?);
    let kind = fs::metadata(&real).map_err(EnumerateError::read(list))?;
    // Who opens a pipe waits for ever.
    if !kind.is_file() {
        return Err(EnumerateError::Path {
            path: list.to_owned(),
            fault: "is not a file, so not a list",
        });
    }
    let mut reader = BufReader::new(File::open(&real).map_err(EnumerateError::read(list))?);
    let mut found = Vec::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut limited = reader.by_ref().take(LONGEST_LINE);
        let length = limited.read_until(b'\n', &mut text);
        if length.map_err(EnumerateError::read(list))? == 0 {
            break;
        }
        if limited.limit() == 0 {
            return Err(EnumerateError::Path {
                path: list.to_owned(),
                fault: "has a line of more than 1 MiB, so it is not a list",
            });
        }
        if let Some(path) = path(&text) {
            let path = Path::new(OsStr::from_bytes(path));
            let file = file(list, path).map_err(|fault| EnumerateError::Line {
                list: list.to_owned(),
                line,
                path: path.to_owned(),
                fault,
            });
            found.push(file?);
        }
    }
    Ok(found)
}

/// The path in a line. Before a tab, if there is one, as in lists of many labels, or else
/// before a space.
fn path(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let end = if line.contains(&b'\t') { b'\t' } else { b' ' };
    let path = line.split(|byte| *byte == end).next();
    path.filter(|path| !path.is_empty())
}

/// From the root of the data.
fn file(list: &Path, path: &Path) -> Result<PathBuf, &'static str> {
    let plain = within::relative(path)?;
    if plain.as_os_str().is_empty() {
        return Err("is a directory");
    }
    // Known to be good: the list was opened.
    let list = within::relative(list)?;
    let file = match list.parent() {
        Some(directory) => directory.join(plain),
        None => plain,
    };
    if within::is_virtual(&file) {
        return Err("is JuiceFS's own, not data");
    }
    Ok(file)
}
