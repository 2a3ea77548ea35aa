//! Images: there are none to pull. A file maps their names to directories of the
//! machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The variable in paths that stands for the directory of what was installed.
const CACHE: &str = "${CACHE}";

/// What a container is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its root.
    pub root: PathBuf,
    /// More directories: where in the container, and where on the machine.
    pub files: BTreeMap<PathBuf, PathBuf>,
    /// Variables.
    pub environment: BTreeMap<String, String>,
    /// Where programs start.
    pub working_dir: PathBuf,
    /// What runs if nothing else is said.
    pub command: Vec<String>,
    hint: Option<String>,
}

/// The images that are known.
#[derive(Clone, Debug, Default)]
pub struct Images {
    file: PathBuf,
    by_name: BTreeMap<String, Image>,
}

/// Why a container can't be made of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Nobody said what it is.
    #[error(
        "image {name:?} is not known on this machine: add it to images in {file:?} with the \
         command that it runs, or give the container a command"
    )]
    Image {
        /// Its name.
        name: String,
        /// Where it could be said.
        file: PathBuf,
    },
    /// A part of it is not there.
    #[error("image {name:?} needs {path:?}, which is not there{}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Directory {
        /// Its name.
        name: String,
        /// The part.
        path: PathBuf,
        /// What may help.
        hint: Option<String>,
    },
}

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can't be read.
    #[error("{0:?} can't be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// It says something else.
    #[error("{0:?}: {1}")]
    Malformed(PathBuf, Box<serde_saphyr::Error>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    images: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    root: Option<PathBuf>,
    #[serde(default)]
    files: BTreeMap<PathBuf, PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    working_dir: Option<PathBuf>,
    #[serde(default)]
    command: Vec<String>,
    hint: Option<String>,
}

impl Images {
    /// Reads a file. Paths in it may begin with `${CACHE}`; others that are not
    /// absolute begin where the file is.
    ///
    /// # Errors
    /// When it can't be read or says something else.
    pub fn read(file: &Path, cache: &Path) -> Result<Images, Error> {
        let unreadable = |error| Error::Unreadable(file.to_owned(), error);
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let file = std::path::absolute(file).map_err(unreadable)?;
        let beside = file.parent().unwrap_or(Path::new("/"));
        let place = |path: PathBuf| match path.strip_prefix(CACHE) {
            Ok(rest) => cache.join(rest),
            Err(_) => beside.join(path),
        };
        let read: File = serde_saphyr::from_str(&text)
            .map_err(|error| Error::Malformed(file.clone(), Box::new(error)))?;
        let images = read.images.into_iter().map(|(name, entry)| {
            let files = entry.files.into_iter();
            let image = Image {
                root: entry.root.map_or_else(|| PathBuf::from("/"), place),
                files: files.map(|(to, from)| (to, place(from))).collect(),
                environment: entry.environment,
                working_dir: entry.working_dir.unwrap_or_else(|| PathBuf::from("/")),
                command: entry.command,
                hint: entry.hint,
            };
            (whole_name(&name), image)
        });
        Ok(Images {
            by_name: images.collect(),
            file,
        })
    }

    /// No images; they could be in this file.
    pub fn none(file: &Path) -> Images {
        Images {
            file: file.to_owned(),
            by_name: BTreeMap::new(),
        }
    }

    /// Adds an image that this program itself knows of.
    pub fn add(&mut self, name: &str, image: Image) {
        self.by_name.insert(whole_name(name), image);
    }

    /// An image by its name. One that nobody knows is the machine itself, if the
    /// container says what to run.
    ///
    /// # Errors
    /// When it is not known, or a part of it is not there.
    pub fn find(&self, name: &str, has_command: bool) -> Result<Image, Missing> {
        let Some(image) = self.by_name.get(&whole_name(name)) else {
            return has_command.then(Image::machine).ok_or(Missing::Image {
                name: name.to_owned(),
                file: self.file.clone(),
            });
        };
        let mut parts = std::iter::once(&image.root).chain(image.files.values());
        match parts.find(|path| !path.exists()) {
            None => Ok(image.clone()),
            Some(path) => Err(Missing::Directory {
                name: name.to_owned(),
                path: path.clone(),
                hint: image.hint.clone(),
            }),
        }
    }
}

impl Image {
    /// The machine itself.
    pub fn machine() -> Image {
        Image {
            root: PathBuf::from("/"),
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            working_dir: PathBuf::from("/"),
            command: Vec::new(),
            hint: None,
        }
    }

    /// The same, with what may help where a part of it is missing.
    pub fn hinting(self, hint: &str) -> Image {
        Image {
            hint: Some(hint.to_owned()),
            ..self
        }
    }
}

/// `nginx` is short for `docker.io/library/nginx:latest`.
fn whole_name(name: &str) -> String {
    let has_host = name
        .split_once('/')
        .is_some_and(|(first, _)| first == "localhost" || first.contains(['.', ':']));
    let path = match (has_host, name.contains('/')) {
        (true, _) => name.to_owned(),
        (false, true) => format!("docker.io/{name}"),
        (false, false) => format!("docker.io/library/{name}"),
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    match last.contains([':', '@']) {
        true => path,
        false => format!("{path}:latest"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn images(text: &str) -> Result<Images, Error> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("images.yaml");
        std::fs::write(&file, text).unwrap();
        Images::read(&file, Path::new("/cache"))
    }

    #[test]
    fn names_are_completed_as_container_runtimes_do() {
        assert_eq!(whole_name("nginx"), "docker.io/library/nginx:latest");
        assert_eq!(whole_name("a/b:1"), "docker.io/a/b:1");
        assert_eq!(whole_name("localhost/x"), "localhost/x:latest");
        assert_eq!(whole_name("host:5000/x@sha256:0"), "host:5000/x@sha256:0");
    }

    #[test]
    fn an_unknown_image_is_the_machine_if_there_is_a_command() {
        let images = images("images: {}").unwrap();
        assert_eq!(images.find("x", true).unwrap(), Image::machine());
        let error = images.find("x", false).unwrap_err().to_string();
        assert!(error.contains("images.yaml"), "{error}");
    }

    #[test]
    fn paths_begin_in_the_cache_or_beside_the_file() {
        let images = images("images: {x: {files: {/a: '${CACHE}/p', /b: q}, root: /}}").unwrap();
        let image = images.by_name.get(&whole_name("x")).unwrap();
        let [a, b] = ["/a", "/b"].map(|to| image.files.get(Path::new(to)).unwrap());
        assert_eq!(a, Path::new("/cache/p"));
        assert!(b.is_absolute() && b.ends_with("q"), "{b:?}");
        let error = images.find("x", true).unwrap_err().to_string();
        assert!(error.contains("/cache/p"), "{error}");
    }

    #[test]
    fn a_mistake_is_named() {
        let error = images("images: {x: {comand: [a]}}")
            .unwrap_err()
            .to_string();
        assert!(error.contains("comand"), "{error}");
    }
}
