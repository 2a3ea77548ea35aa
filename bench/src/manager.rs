//! The manager as a process of its own, and what it takes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running manager; it is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Manager {
    child: Child,
    pid: u32,
}

/// What a process has taken so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident: u64,
    pub(crate) peak: u64,
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

    /// What it has taken so far, from /proc.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let fields = stat.rsplit_once(") ").context("stat")?.1.split(' ');
        // After the name: utime and stime are fields 14 and 15 of the whole line.
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let kib = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        Ok(Usage {
            // Linux counts in hundredths of a second for every program.
            cpu: Duration::from_millis(ticks * 10),
            resident: kib("VmRSS:") * 1024,
            peak: kib("VmHWM:") * 1024,
        })
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
