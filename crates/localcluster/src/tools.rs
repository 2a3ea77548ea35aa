//! Tools of the machine that are told what to do on their standard input.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Changes links, addresses and routes.
pub(crate) fn ip(commands: &str) -> io::Result<()> {
    tell("ip", &["-batch", "-"], "iproute2", commands)
}

/// Changes what is done with packets.
pub(crate) fn nft(commands: &str) -> io::Result<()> {
    tell("nft", &["-f", "-"], "nftables", commands)
}

fn tell(tool: &str, arguments: &[&str], package: &str, commands: &str) -> io::Result<()> {
    let mut process = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!("{tool} (of {package}) can't be run: {error}"))
        })?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(commands.as_bytes())?;
    }
    let done = process.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let commands = commands.trim_end().replace('\n', "; ");
    Err(io::Error::other(format!(
        "{tool} {commands}: {}",
        said.trim_end()
    )))
}
