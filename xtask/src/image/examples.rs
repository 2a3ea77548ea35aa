//! The images of `images.yaml`, as real ones: what local mode binds into a pod's file
//! system becomes layers on top of a small Debian.

use std::collections::{BTreeMap, btree_map};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::json;

use super::system::{self, Debian};
use super::{Archive, Image, Layer};
use crate::cluster::Cache;
use crate::repository;

#[derive(Debug, Deserialize)]
struct File {
    images: BTreeMap<String, Entry>,
}

/// What `images.yaml` says of one image.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    files: BTreeMap<String, PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    working_dir: String,
    #[serde(default)]
    command: Vec<String>,
}

/// Reads it, with the places of the files filled in.
pub fn read(cache: &Cache) -> Result<BTreeMap<String, Entry>> {
    let path = repository().join("images.yaml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.replace("${CACHE}", &cache.root().to_string_lossy());
    let mut file: File = serde_saphyr::from_str(&text)?;
    for source in file
        .images
        .values_mut()
        .flat_map(|it| it.files.values_mut())
    {
        *source = repository().join(&*source);
    }
    Ok(file.images)
}

/// Changes when anything that goes into the images does.
pub fn stamp(images: &BTreeMap<String, Entry>) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    system::CODE.hash(&mut hasher);
    for (name, entry) in images {
        (name, &entry.environment, &entry.working_dir, &entry.command).hash(&mut hasher);
        for (target, source) in &entry.files {
            target.hash(&mut hasher);
            if source.starts_with(repository()) {
                hash_files(source, &mut hasher)?;
            } else {
                // What is installed is replaced as a whole.
                fs::metadata(source)?.modified()?.hash(&mut hasher);
            }
        }
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

/// The names and contents of a folder's files, wherever it was checked out.
fn hash_files(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|file| file.map(|file| file.path()))
        .collect::<io::Result<_>>()?;
    files.sort();
    for path in files {
        path.file_name().hash(hasher);
        if path.is_dir() {
            hash_files(&path, hasher)?;
        } else {
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}

/// Makes them all; files that two images share are one layer.
pub fn make(cache: &Cache, work: &Path, entries: &BTreeMap<String, Entry>) -> Result<Archive> {
    let debian = system::debian(cache)?;
    let mut made: BTreeMap<(&str, &Path), Layer> = BTreeMap::new();
    let mut images = Vec::new();
    for (name, entry) in entries {
        let mut layers = vec![debian.clone()];
        for (target, source) in &entry.files {
            let key = (target.as_str(), source.as_path());
            layers.push(match made.entry(key) {
                btree_map::Entry::Occupied(found) => found.get().clone(),
                btree_map::Entry::Vacant(place) => {
                    check_python(source)?;
                    place.insert(Layer::of(work, &[key])?).clone()
                }
            });
        }
        let environment = entry.environment.iter();
        let environment: Vec<String> = environment.map(|(k, v)| format!("{k}={v}")).collect();
        images.push(Image {
            name: tagged(name),
            layers,
            config: json!({
                "Env": environment,
                "WorkingDir": entry.working_dir,
                "Cmd": entry.command,
            }),
        });
    }
    Ok(Archive {
        work: work.to_owned(),
        images,
    })
}

/// A virtual environment works only with the Python that it was made for.
fn check_python(dir: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(dir.join("pyvenv.cfg")) else {
        return Ok(());
    };
    let python = Debian::here()?.python;
    if !text.contains(&format!("version = {python}.")) {
        bail!(
            "{} is not of Python {python}, which the images have",
            dir.display()
        );
    }
    Ok(())
}

fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gets_a_tag() {
        assert_eq!(tagged("nginx"), "nginx:latest");
        assert_eq!(tagged("host:5000/a"), "host:5000/a:latest");
        assert_eq!(tagged("a/b:v1"), "a/b:v1");
    }

    #[test]
    fn images_yaml_is_understood() -> Result<()> {
        let images = read(&Cache::at(Path::new("/c")))?;
        let nginx = images.get("nginx").context("no nginx")?;
        assert_eq!(nginx.files.get("/opt/nginx"), Some(&"/c/nginx".into()));
        assert!(nginx.files.get("/etc/nginx").is_some_and(|it| it.exists()));
        Ok(())
    }
}
