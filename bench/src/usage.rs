//! What a process takes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// What a process has taken so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Of all its threads.
    pub cpu: Duration,
    /// Memory, in bytes.
    pub resident: u64,
    /// The most that it ever had.
    pub peak: u64,
}

impl Usage {
    /// Of the process with this number.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: u32) -> anyhow::Result<Usage> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        Ok(Usage {
            // User and system.
            cpu: ticks(pid, 14)? + ticks(pid, 15)?,
            resident: kib("VmRSS:") * 1024,
            peak: kib("VmHWM:") * 1024,
        })
    }
}

/// For how long a process has been there, to hundredths of a second.
///
/// # Errors
/// When there is none.
pub fn age(pid: u32) -> anyhow::Result<Duration> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let uptime = uptime.split(' ').next().context("/proc/uptime")?;
    let uptime = Duration::try_from_secs_f64(uptime.parse()?)?;
    Ok(uptime.saturating_sub(ticks(pid, 22)?))
}

/// A field of `/proc/PID/stat` that is a time, by its number in the manual.
fn ticks(pid: u32, number: usize) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, which is the second field, may hold blanks.
    let mut fields = stat.rsplit_once(") ").context("stat")?.1.split(' ');
    let ticks: u64 = fields.nth(number - 3).context("stat")?.parse()?;
    // Linux counts in hundredths of a second for every program.
    Ok(Duration::from_millis(ticks * 10))
}
