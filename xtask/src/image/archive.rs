//! Container images as archives that `docker load`, `podman load` and containerd take.
//!
//! Made with `tar` and `sha256sum` rather than a builder: no step of theirs runs a command
//! in an image, and the same files always give the same image.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::cluster::output;

/// What `tar` must leave out so that only contents decide.
const PLAIN: [&str; 5] = [
    "--sort=name",
    "--mtime=@0",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
];

/// A part of an image's file system, as a tar file with the name that its contents give.
#[derive(Clone, Debug)]
pub struct Layer {
    path: PathBuf,
    digest: String,
}

impl Layer {
    /// Copies of files or directories; each goes to the path on the left.
    pub fn of(work: &Path, entries: &[(&str, &Path)]) -> Result<Self> {
        let file = work.join(format!("layer-{}.tar", fs::read_dir(work)?.count()));
        for (target, source) in entries {
            let (Some(parent), Some(name)) = (source.parent(), source.file_name()) else {
                bail!("{} has no name", source.display());
            };
            if !source.exists() && !source.is_symlink() {
                bail!("there is no {}", source.display());
            }
            let (name, target) = (name.to_string_lossy(), target.trim_start_matches('/'));
            let mut tar = Command::new("tar");
            tar.args(PLAIN)
                .arg("--append")
                .arg(format!("--file={}", file.display()))
                .arg(format!("--directory={}", parent.display()))
                // Names of files and of what hard links point to, not what symbolic links say.
                .arg(format!("--transform=flags=rhS;s,^{name},{target},"))
                .arg(&*name);
            output(&mut tar)?;
        }
        Self::tar(file)
    }

    /// A tar file as it is.
    pub fn tar(path: PathBuf) -> Result<Self> {
        let line = output(Command::new("sha256sum").arg(&path))?;
        let digest = line.split_whitespace().next().context("no checksum")?;
        Ok(Self {
            digest: digest.to_owned(),
            path,
        })
    }
}

/// One image.
#[derive(Clone, Debug)]
pub struct Image {
    /// With its tag.
    pub name: String,
    /// The lowest first.
    pub layers: Vec<Layer>,
    /// As in the OCI image specification: `Entrypoint`, `Cmd`, `Env`, `User`, `WorkingDir`.
    pub config: Value,
}

/// Images that are saved together; layers that they share are saved once.
#[derive(Debug)]
pub struct Archive {
    /// Where it is put together.
    pub work: PathBuf,
    /// The images.
    pub images: Vec<Image>,
}

impl Archive {
    /// Writes it as `docker save` does.
    pub fn write(&self, mut to: impl Write) -> Result<()> {
        let dir = self.work.join("archive");
        fs::create_dir_all(&dir)?;
        let mut manifest = Vec::new();
        for image in &self.images {
            for layer in &image.layers {
                let link = dir.join(layer_file(layer));
                match std::os::unix::fs::symlink(&layer.path, link) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
            let config = dir.join("config.json");
            fs::write(&config, image_config(image).to_string())?;
            let file = format!("{}.json", Layer::tar(config.clone())?.digest);
            fs::rename(&config, dir.join(&file))?;
            manifest.push(json!({
                "Config": file,
                "RepoTags": [image.name],
                "Layers": image.layers.iter().map(layer_file).collect::<Vec<_>>(),
            }));
        }
        fs::write(dir.join("manifest.json"), Value::from(manifest).to_string())?;
        let mut tar = Command::new("tar")
            .args(PLAIN)
            .args(["--create", "--dereference", "--directory"])
            .arg(&dir)
            .arg(".")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run `tar`")?;
        if let Some(mut stdout) = tar.stdout.take() {
            io::copy(&mut stdout, &mut to)?;
        }
        if !tar.wait()?.success() {
            bail!("`tar` could not write the images");
        }
        Ok(())
    }
}

fn layer_file(layer: &Layer) -> String {
    format!("{}.tar", layer.digest)
}

/// The date is fixed so that the same files give the same image.
fn image_config(image: &Image) -> Value {
    let layers = image.layers.iter();
    let ids: Vec<String> = layers.map(|it| format!("sha256:{}", it.digest)).collect();
    json!({
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": ids},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() -> Result<()> {
        let make = |name: &str| -> Result<(String, String)> {
            let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(dir.join("work"))?;
            fs::create_dir_all(dir.join("tree"))?;
            fs::write(dir.join("tree/file"), "text")?;
            std::os::unix::fs::symlink("tree", dir.join("tree/link"))?;
            let work = dir.join("work");
            let layer = Layer::of(&work, &[("/opt/new", &dir.join("tree"))])?;
            let listed = output(Command::new("tar").arg("tvf").arg(&layer.path))?;
            let image = Image {
                name: "a:1".to_owned(),
                layers: vec![layer.clone(), layer],
                config: json!({"Cmd": ["a"]}),
            };
            let images = vec![image];
            let file = dir.join("a.tar");
            Archive { work, images }.write(fs::File::create(&file)?)?;
            let digest = Layer::tar(file)?.digest;
            fs::remove_dir_all(&dir)?;
            Ok((listed, digest))
        };
        let (listed, digest) = make("one")?;
        assert!(listed.contains(" opt/new/file"), "{listed}");
        assert!(listed.contains(" opt/new/link -> tree"), "{listed}");
        assert_eq!(digest, make("two")?.1);
        Ok(())
    }
}
