//! The process that holds the network, ipc and uts namespace of a pod.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{pause, setsid};
use serde::{Deserialize, Serialize};

use super::record::{read, write};
use crate::process::Process;
use crate::tools::ip;

/// The file that says what a sandbox is to be.
pub const SANDBOX: &str = "sandbox.json";

/// The file that says which process it is.
pub const SANDBOX_PROCESS: &str = "sandbox-process.json";

/// The sandbox of a pod.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sandbox {
    /// The name of the pod's host.
    pub hostname: String,
    /// Its place in the network; none: it has the machine's.
    pub plug: Option<Plug>,
}

/// A place in the network.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plug {
    /// The address with the length of its prefix.
    pub address: String,
    /// The way out.
    pub gateway: String,
}

/// Enters namespaces of its own, waits for the agent to put a cable through to
/// them, and stays.
///
/// What it says on its standard output: `there` when it has namespaces, `ready` when
/// the network can be used. When its standard input ends before it was told to go
/// on, the agent has died, and nobody knows of this process yet.
pub(super) fn main(file: &Path) -> io::Result<ExitCode> {
    let sandbox: Sandbox =
        read(file)?.ok_or_else(|| io::Error::other("there is no such sandbox"))?;
    setsid()?;
    let mut namespaces = CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if sandbox.plug.is_some() {
        namespaces |= CloneFlags::CLONE_NEWNET;
    }
    unshare(namespaces)?;
    nix::unistd::sethostname(&sandbox.hostname)?;
    say("there")?;
    if BufReader::new(io::stdin()).read_line(&mut String::new())? == 0 {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(plug) = &sandbox.plug {
        connect(plug)?;
    }
    write(&file.with_file_name(SANDBOX_PROCESS), &Process::own()?)?;
    say("ready")?;
    loop {
        pause();
    }
}

pub(crate) fn say(word: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}

fn connect(plug: &Plug) -> io::Result<()> {
    let Plug { address, gateway } = plug;
    ip(&format!(
        "link set lo up\n\
         link set eth0 up\n\
         address add {address} dev eth0\n\
         route add default via {gateway}\n"
    ))
}
