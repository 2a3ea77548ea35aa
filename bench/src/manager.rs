//! The manager as a process of its own, and what it takes.

use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use bench::usage::Usage;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running manager; it is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Manager {
    child: Child,
    pid: u32,
}

impl Manager {
    /// Starts it and waits until it works.
    pub(crate) async fn start(program: &Path, kubeconfig: &Path) -> anyhow::Result<Manager> {
        let mut child = Command::new(program)
            .args([
                "manager",
                // What it is compared with has no others.
                "--controllers=paddlejob",
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
            ])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let pid = child.id().context("it ended at once")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        while let Some(line) = lines.next_line().await? {
            if line.contains("work begins") {
                // What follows is passed on, so that the pipe never fills.
                tokio::spawn(async move {
                    while let Ok(Some(line)) = lines.next_line().await {
                        println!("manager: {line}");
                    }
                });
                return Ok(Manager { child, pid });
            }
        }
        anyhow::bail!("the manager ended: {}", child.wait().await?)
    }

    /// What it has taken so far.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.pid)
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        Command::new("kill")
            .arg(self.pid.to_string())
            .status()
            .await?;
        self.child.wait().await?;
        Ok(())
    }
}
