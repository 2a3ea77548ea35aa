//! Why data can't be enumerated.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why data can't be enumerated. Every message names the path.
#[derive(Debug)]
pub enum EnumerateError {
    /// A path that was asked for can't be used.
    Path {
        /// As it was given.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A line of a list can't be used.
    Line {
        /// The list, from the root of the data.
        list: PathBuf,
        /// The first line is 1.
        line: usize,
        /// The path in this line.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Both a list and paths were given.
    ListAndPaths {
        /// The list, as it was given.
        list: PathBuf,
    },
    /// A link to a directory that it is in itself.
    Loop {
        /// The link, from the root of the data.
        link: PathBuf,
    },
    /// Something of the data can't be read.
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it could not.
        source: io::Error,
    },
}

impl EnumerateError {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> EnumerateError {
        let path = path.into();
        move |source| EnumerateError::Read { path, source }
    }
}

// Paths in quotes and escaped: names may have any byte, a newline too.
impl fmt::Display for EnumerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnumerateError::Path { path, fault } => write!(f, "the path {path:?} {fault}"),
            EnumerateError::Line {
                list,
                line,
                path,
                fault,
            } => write!(f, "line {line} of {list:?}: the path {path:?} {fault}"),
            EnumerateError::ListAndPaths { list } => write!(
                f,
                "the list {list:?} already says which files are meant; give it or paths, not both"
            ),
            EnumerateError::Loop { link } => write!(
                f,
                "the link {link:?} leads to a directory that it is in; \
                 Paddle would find the same files there again and again"
            ),
            EnumerateError::Read { path, source } => write!(f, "{path:?}: {source}"),
        }
    }
}

impl std::error::Error for EnumerateError {}
