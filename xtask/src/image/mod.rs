//! Container images, made without a registry and without a builder: the operator's own,
//! and those that real nodes of the test bed need.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for developers: paths go to stdout, progress to stderr"
)]

mod archive;
mod examples;
mod operator;
mod system;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::cluster::{Cache, store};
use crate::repository;

pub use archive::Archive;
use archive::{Image, Layer};

/// `cargo xtask image`: container images without a registry.
#[derive(Args, Debug)]
pub struct ImageArgs {
    /// What to make
    #[arg(value_enum, default_value_t)]
    what: What,
    /// Compile the operator without optimisation, which is quicker
    #[arg(long)]
    debug: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum What {
    /// The operator's image; the path of the archive is printed
    #[default]
    Operator,
    /// Those of images.yaml, on each node that a cluster starts from now on
    Examples,
}

/// Does what the command line asks for.
pub fn run(args: &ImageArgs) -> Result<()> {
    let cache = Cache::from_env()?;
    match args.what {
        What::Operator => {
            println!("{}", operator::make(&cache, args.debug)?.display());
            Ok(())
        }
        What::Examples => examples(&cache),
    }
}

/// Puts the images that nodes cannot do without into the store.
pub fn system(cache: &Cache) -> Result<()> {
    install(&["juicefs"])?;
    let stamp = system::stamp(cache)?;
    let work = Work::new(cache, "system")?;
    store::ensure(cache, "system", &stamp, || system::make(cache, &work.dir))
}

fn examples(cache: &Cache) -> Result<()> {
    install(&[])?;
    let images = examples::read(cache)?;
    let stamp = examples::stamp(&images)?;
    let work = Work::new(cache, "examples")?;
    store::ensure(cache, "examples", &stamp, || {
        examples::make(cache, &work.dir, &images)
    })
}

/// Parts of the examples, from Debian and PyPI; all unless named.
fn install(parts: &[&str]) -> Result<()> {
    let status = Command::new(repository().join("examples/install.sh"))
        .args(parts)
        .status()
        .context("cannot run examples/install.sh")?;
    anyhow::ensure!(status.success(), "examples/install.sh failed: {status}");
    Ok(())
}

/// A directory for half-made images, for one process at a time; it is gone when this is
/// dropped.
struct Work {
    dir: PathBuf,
    _lock: File,
}

impl Work {
    fn new(cache: &Cache, name: &str) -> Result<Self> {
        let dir = cache.root().join("images/work").join(name);
        fs::create_dir_all(cache.root().join("images/work"))?;
        let lock = File::create(dir.with_extension("lock"))?;
        lock.lock()?;
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self { dir, _lock: lock })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}
