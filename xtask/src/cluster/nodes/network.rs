//! The network of real nodes: a bridge of this machine, one link to each node, and a
//! range of addresses for the pods of each. Pods of two nodes reach each other over the
//! bridge; nothing is forwarded to the world outside.

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::MAX;
use crate::cluster::process;

/// 10.X.0.0/16 of one cluster: the nodes are in its first /24, and the pods of each in
/// one of the next. Services are in 10.96.0.0/16, which only nodes know.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Network(u8);

/// The second byte. Docker, podman and Kubernetes take theirs from other ranges.
const NUMBERS: RangeInclusive<u8> = 200..=250;

impl Network {
    /// 10.`number`.0.0/16
    #[cfg(test)]
    pub fn numbered(number: u8) -> Self {
        Self(number)
    }

    /// One that this machine does not use.
    pub fn free() -> Result<Self> {
        let mut ip = Command::new("ip");
        let routes = process::output(ip.args(["-4", "route", "show", "table", "all"]))?;
        NUMBERS
            .map(Self)
            .find(|network| !network.is_in(&routes) && !exists(&network.bridge()))
            .with_context(|| format!("all of 10.X.0.0/16 with X in {NUMBERS:?} are in use"))
    }

    fn is_in(self, routes: &str) -> bool {
        let prefix = format!("10.{}.", self.0);
        routes
            .split_whitespace()
            .any(|word| word.starts_with(&prefix))
    }

    /// This machine's address.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, 1)
    }

    /// The address of a node.
    pub fn node(self, index: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, 10 + index)
    }

    /// The addresses of a node's pods.
    pub fn pods(self, index: u8) -> String {
        format!("10.{}.{}.0/24", self.0, 1 + index)
    }

    /// The name of its bridge; those of links and control groups begin with it.
    pub fn bridge(self) -> String {
        format!("paddle{}", self.0)
    }

    /// Makes the bridge of the cluster with this state, unless it is there.
    pub fn up(self, cluster: &Path) -> Result<()> {
        let bridge = self.bridge();
        match self.owner() {
            Some(owner) if Path::new(&owner) == cluster => return Ok(()),
            // Two that began at once, or this one was stopped and another took its place.
            Some(owner) => bail!("{bridge} is in use by {owner}: `--fresh` takes another"),
            None => self.down()?,
        }
        // Without an address of its own it has that of a link: a node that ends would change
        // it, and the others talk to the old one for seconds.
        ip(&format!(
            "link add {bridge} address 02:00:00:00:01:00 type bridge
             link set {bridge} alias \"{}\"
             address add {}/24 dev {bridge}
             link set {bridge} up",
            cluster.display(),
            self.gateway()
        ))
    }

    /// The cluster that has the bridge, if there is one. A bridge without an alias is nobody's:
    /// whoever made it was interrupted.
    fn owner(self) -> Option<String> {
        let alias = format!("/sys/class/net/{}/ifalias", self.bridge());
        let alias = fs::read_to_string(alias).ok()?.trim_end().to_owned();
        Some(alias).filter(|alias| !alias.is_empty())
    }

    /// Whether another cluster than the one with this state has it.
    pub fn is_of_another(self, cluster: &Path) -> bool {
        self.owner()
            .is_some_and(|owner| Path::new(&owner) != cluster)
    }

    /// Removes the bridge and what is left of the links; the routes go with it.
    pub fn down(self) -> Result<()> {
        let links = (0..MAX).map(|index| self.link(index));
        for link in links.chain([self.bridge()]).filter(|link| exists(link)) {
            // A node that just ended takes its link away, maybe first.
            if let Err(error) = ip(&format!("link delete {link}"))
                && exists(&link)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives the node with this process a link to the bridge, `eth0`.
    pub fn connect(self, index: u8, pid: Pid) -> Result<()> {
        wait_for_namespace(pid)?;
        let (bridge, link) = (self.bridge(), self.link(index));
        if exists(&link) {
            // Of the last life of the node, which the kernel still cleans up.
            ip(&format!("link delete {link}")).ok();
        }
        // Each life of a node has the same hardware address, or the others would talk to
        // the last one for the better part of a minute. The route makes pods reachable from
        // this machine, above all for the answers of kube-apiserver.
        ip(&format!(
            "link add {link} type veth peer name eth0 address 02:00:00:00:00:{index:02x} netns {pid}
             link set {link} master {bridge} up
             route replace {} via {}",
            self.pods(index),
            self.node(index)
        ))
    }

    fn link(self, index: u8) -> String {
        format!("{}-{index}", self.bridge())
    }

    /// What a node does with its `eth0`, in the language of `ip -batch`. It also knows the
    /// way to nodes that are not there yet: the cluster can grow.
    pub fn node_setup(self, index: u8) -> String {
        let mut lines = format!(
            "link set lo up
             address add {}/24 dev eth0
             link set eth0 up
             route add default via {}\n",
            self.node(index),
            self.gateway()
        );
        for other in (0..MAX).filter(|&other| other != index) {
            let (pods, node) = (self.pods(other), self.node(other));
            lines.push_str(&format!("route add {pods} via {node}\n"));
        }
        lines
    }
}

fn exists(link: &str) -> bool {
    Path::new("/sys/class/net").join(link).exists()
}

/// A process that was just started needs a moment to leave our network.
fn wait_for_namespace(pid: Pid) -> Result<()> {
    let ours = fs::read_link("/proc/self/ns/net")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|theirs| theirs == ours) {
        if Instant::now() > deadline {
            bail!("process {pid} got no network namespace");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn ip(lines: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip` (package iproute2)")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes())?;
    }
    let out = child.wait_with_output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("`ip` could not do\n{lines}\n{}", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_in_use_is_passed_over() {
        let routes = "default via 192.168.1.1 dev eth0\n10.200.0.0/24 dev a\n10.0.0.0/8 dev b";
        assert!(Network(200).is_in(routes));
        assert!(!Network(201).is_in(routes));
        assert!(!Network(20).is_in(routes));
    }

    #[test]
    fn a_node_knows_the_way_to_the_pods_of_all_others() {
        let setup = Network(200).node_setup(1);
        assert!(setup.contains("address add 10.200.0.11/24 dev eth0\n"));
        assert!(setup.contains("route add 10.200.1.0/24 via 10.200.0.10\n"));
        assert!(!setup.contains("10.200.2.0/24"), "its own");
    }

    #[test]
    fn the_kernel_takes_the_names_of_links() {
        assert!(Network(250).link(MAX).len() <= 15);
    }
}
