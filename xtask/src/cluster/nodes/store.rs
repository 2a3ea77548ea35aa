//! The images that nodes start with. There is no registry: one containerd unpacks them
//! once into the cache, and each node begins with hard links to what it made. So a node
//! with gigabytes of images starts at once, and all nodes read the same pages of memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cluster::paths::Cache;
use crate::cluster::process;
use crate::image::Archive;

/// Where kubelets look for images.
const NAMESPACE: &str = "--namespace=k8s.io";

/// What containerd writes in place, and nodes must not share.
const DATABASES: [&str; 2] = [
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
];

/// Puts a set of images into the store, unless it has the set with this stamp already.
pub fn ensure(
    cache: &Cache,
    set: &str,
    stamp: &str,
    make: impl FnOnce() -> Result<Archive>,
) -> Result<()> {
    let dir = dir(cache);
    fs::create_dir_all(&dir)?;
    let _lock = lock(cache)?;
    let stamp_path = dir.join(format!("{set}.stamp"));
    if fs::read_to_string(&stamp_path).is_ok_and(|found| found == stamp) {
        return Ok(());
    }
    eprintln!("making the {set} images");
    let begun = Instant::now();
    let archive = make()?;
    let containerd = Containerd::start(&dir)?;
    let mut import = containerd.ctr();
    let mut import = import
        .args(["images", "import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    if let Some(stdin) = import.stdin.take() {
        archive.write(stdin)?;
    }
    if !import.wait()?.success() {
        bail!("containerd could not import the {set} images");
    }
    // What only the last version of the set used.
    process::output(containerd.ctr().args(["content", "prune", "references"]))?;
    drop(containerd);
    fs::write(&stamp_path, stamp)?;
    eprintln!("made the {set} images in {:.0?}", begun.elapsed());
    Ok(())
}

/// Fills the containerd directory of a new node.
pub fn link_to(cache: &Cache, target: &Path) -> Result<()> {
    let _lock = lock(cache)?;
    fs::create_dir_all(target)?;
    let source = dir(cache).join("root");
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--link"])
        .arg(source.join("."))
        .arg(target);
    process::output(&mut copy)?;
    for database in DATABASES {
        fs::remove_file(target.join(database))?;
        fs::copy(source.join(database), target.join(database))?;
    }
    Ok(())
}

/// Imports an archive into the containerd of a node; `enter` runs commands there.
pub fn import(mut enter: Command, archive: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    enter.args(["ctr", NAMESPACE, "images", "import", "-"]);
    process::output(enter.stdin(file)).map(drop)
}

fn dir(cache: &Cache) -> PathBuf {
    cache.root().join("images")
}

fn lock(cache: &Cache) -> Result<File> {
    let file = File::create(dir(cache).join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// A containerd that only takes images in. It ends when this is dropped, and with this command.
struct Containerd {
    process: Child,
    dir: PathBuf,
}

impl Containerd {
    fn start(dir: &Path) -> Result<Self> {
        let config = dir.join("containerd.toml");
        fs::write(
            &config,
            "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n",
        )?;
        let mut command = Command::new("setpriv");
        // Ctrl-C ends this command before it can end anything itself.
        command.args(["--pdeathsig", "KILL"]);
        // What it mounts to unpack is gone with it.
        command
            .args(["unshare", "--mount", "containerd", "--config"])
            .arg(config)
            .arg("--root")
            .arg(dir.join("root"))
            .arg("--state")
            .arg(dir.join("run"))
            .arg("--address")
            .arg(dir.join("socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("containerd.log"))?);
        let process = command
            .spawn()
            .context("cannot run `setpriv` (package util-linux)")?;
        let containerd = Self {
            process,
            dir: dir.to_owned(),
        };
        containerd.wait()?;
        Ok(containerd)
    }

    fn wait(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.answers() {
            if Instant::now() > deadline {
                let log = self.dir.join("containerd.log");
                bail!("containerd does not answer; see {}", log.display());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let mut version = self.ctr();
        version
            .arg("version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    }

    fn ctr(&self) -> Command {
        let mut ctr = Command::new("ctr");
        ctr.arg("--address")
            .arg(self.dir.join("socket"))
            .arg(NAMESPACE);
        ctr
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Its databases survive it: what they hold is complete after each change.
        self.process.kill().ok();
        self.process.wait().ok();
        fs::remove_dir_all(self.dir.join("run")).ok();
    }
}
