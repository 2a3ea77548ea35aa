//! The data loader of Paddle, in a process that stays.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The process.
pub(crate) struct Reader {
    _process: Child,
    asked: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

/// What is read, and how.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) readers: usize,
    pub(crate) decodes: bool,
    /// The kernel has nothing in memory of the files in these directories.
    pub(crate) forgets: &'a [PathBuf],
}

impl Reader {
    /// Starts it, and makes the images.
    pub(crate) async fn start(python: &Path, dir: &Path, images: usize) -> anyhow::Result<Reader> {
        let mut process = Command::new(python)
            .args(["-W", "ignore", "-c", include_str!("reader.py")])
            .arg(dir)
            .arg(images.to_string())
            .env("GLOG_minloglevel", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} (make examples installs it)", python.display()))?;
        let (asked, said) = (process.stdin.take(), process.stdout.take());
        let (asked, said) = asked.zip(said).context("no pipe")?;
        let mut reader = Reader {
            _process: process,
            asked,
            said: BufReader::new(said).lines(),
        };
        match reader.line().await?.as_str() {
            "ready" => Ok(reader),
            other => bail!("the reader says {other}"),
        }
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let line = self.said.next_line().await?;
        line.context("the reader has ended")
    }

    /// Reads everything; how long that takes in seconds.
    pub(crate) async fn read(&mut self, what: Reading<'_>) -> anyhow::Result<f64> {
        let job = json!({"dir": what.dir, "readers": what.readers, "decode": what.decodes,
            "forget": what.forgets});
        self.asked.write_all(format!("{job}\n").as_bytes()).await?;
        Ok(self.line().await?.parse()?)
    }
}
