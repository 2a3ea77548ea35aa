//! Servers that benchmarks start.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// An address that nobody listens at.
///
/// # Errors
/// When there is none.
pub async fn free(ip: IpAddr) -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((ip, 0)).await?.local_addr()?)
}

/// When a server first took a connection.
///
/// # Errors
/// When it did not for so long.
pub async fn accepts(server: SocketAddr, patience: Duration) -> anyhow::Result<Instant> {
    let asked = Instant::now();
    while TcpStream::connect(server).await.is_err() {
        anyhow::ensure!(asked.elapsed() < patience, "no server answers at {server}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Instant::now())
}

/// Starts a Redis that keeps nothing, and waits until it answers. It ends with the process.
///
/// # Errors
/// When it is not installed or does not start.
pub async fn redis(
    installed: &Path,
    ip: IpAddr,
    dir: &Path,
) -> anyhow::Result<(SocketAddr, Child)> {
    let address = free(ip).await?;
    let process = Command::new(installed.join("redis/bin/redis-server"))
        .env("LD_LIBRARY_PATH", installed.join("redis/lib"))
        .args(["--save", "", "--protected-mode", "no"])
        .args(["--bind", &ip.to_string()])
        .args(["--port", &address.port().to_string()])
        .current_dir(dir)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("redis (make examples installs it)")?;
    accepts(address, Duration::from_secs(30)).await?;
    Ok((address, process))
}
