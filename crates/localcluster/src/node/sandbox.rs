//! Sandboxes of pods.

use std::fs;
use std::io;
use std::process::Stdio;

use k8s_openapi::api::core::v1::Pod;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::ChildStdout;

use super::folder::Folder;
use super::{Machine, names};
use crate::shim::{self, SANDBOX, SANDBOX_PROCESS, Sandbox};

impl Machine {
    /// Makes the sandbox of a pod, with an address.
    pub(super) async fn make_sandbox(&self, folder: &Folder, pod: &Pod) -> io::Result<()> {
        let spec = pod.spec.as_ref();
        let has_own_network = spec.is_none_or(|spec| spec.host_network != Some(true));
        let address = match has_own_network {
            true => self.network.take()?,
            false => self.gateway(),
        };
        // Before there is a sandbox: one without an address could never be found again.
        folder.set_address(address)?;
        let made = self.make_sandbox_at(folder, pod, has_own_network.then_some(address));
        match made.await {
            Ok(()) => Ok(()),
            Err(error) => {
                if has_own_network {
                    self.network.disconnect(address);
                    self.network.release(address);
                }
                Err(error)
            }
        }
    }

    async fn make_sandbox_at(
        &self,
        folder: &Folder,
        pod: &Pod,
        address: Option<std::net::Ipv4Addr>,
    ) -> io::Result<()> {
        let hostname = self.hostname(pod);
        let path = |name: &str| folder.path().join(name);
        let sandbox = Sandbox {
            hostname: hostname.clone(),
            plug: address.map(|address| self.network.plug(address)),
        };
        shim::write(&path(SANDBOX), &sandbox)?;
        let own = address.unwrap_or(self.gateway());
        names::write(&path("hosts"), &names::hosts(pod, &hostname, own, &[]))?;
        fs::write(path("hostname"), format!("{hostname}\n"))?;
        fs::write(path("resolv.conf"), resolvers())?;
        let mut command = tokio::process::Command::from(shim::command("sandbox", &path(SANDBOX)));
        let errors = fs::File::create(path("sandbox.log"))?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut child = command.spawn()?;
        let failed = || {
            let said = fs::read_to_string(path("sandbox.log")).unwrap_or_default();
            io::Error::other(format!("the sandbox ended: {}", said.trim()))
        };
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed());
        };
        let mut words = BufReader::new(output).lines();
        hear(&mut words, "there").await.ok_or_else(failed)?;
        if let (Some(address), Some(pid)) = (address, child.id()) {
            self.network.connect(pid, address)?;
        }
        input.write_all(b"go\n").await?;
        hear(&mut words, "ready").await.ok_or_else(failed)
    }

    /// Ends the sandbox of a pod, if it has one, and frees its address.
    pub(super) fn end_sandbox(&self, folder: &Folder) {
        if let Some(sandbox) = folder.sandbox() {
            sandbox.signal(Signal::KILL);
        } else if !folder.had_sandbox() {
            return;
        }
        if let Some(address) = folder
            .address()
            .filter(|address| *address != self.gateway())
        {
            self.network.disconnect(address);
            self.network.release(address);
        }
        let _: io::Result<()> = fs::remove_file(folder.path().join(SANDBOX_PROCESS));
    }
}

/// Who knows names. A server on the machine's own loopback is out of reach for pods;
/// systemd says elsewhere whom its one asks.
fn resolvers() -> String {
    let usual = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let mut servers = usual
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver"));
    match servers.all(|server| server.trim().starts_with("127.")) {
        true => fs::read_to_string("/run/systemd/resolve/resolv.conf").unwrap_or(usual),
        false => usual,
    }
}

async fn hear(words: &mut Lines<BufReader<ChildStdout>>, word: &str) -> Option<()> {
    let heard = words.next_line().await.ok()??;
    (heard == word).then_some(())
}
