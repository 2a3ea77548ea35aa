//! Real nodes on this machine: kubelet, containerd and kube-proxy, in namespaces of their
//! own. `network` connects them, `config` is what their programs are told, `store` their
//! images. What happens inside a node as it starts is in `xtask/testbed/node/init.sh`.
//!
//! All of a node lives in its namespaces and in its directory, so that ending its first
//! process leaves nothing behind but the directory and its control groups.

mod config;
mod network;
pub mod store;

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::unistd::Uid;

pub use config::PAUSE;
pub use network::Network;

use super::paths::{Cache, State};
use super::process;

/// How many nodes a cluster can have. Each takes about half a gigabyte of memory.
pub const MAX: u8 = 10;

/// The name of a node.
pub fn node_name(index: u8) -> String {
    format!("node-{index}")
}

/// What nodes need beyond the Debian packages that every machine has.
const PROGRAMS: [&str; 6] = [
    "containerd",
    "runc",
    "iptables",
    "ip",
    "mmdebstrap",
    "/usr/lib/cni/ptp",
];

/// Says what is missing before anything is started.
pub fn check() -> Result<()> {
    if !Uid::effective().is_root() {
        bail!("real nodes need root: namespaces, mounts and control groups");
    }
    for program in PROGRAMS {
        let found = Command::new("which").arg(program).output()?;
        if !found.status.success() {
            bail!("there is no {program}: `xtask/setup.sh nodes` installs what nodes need");
        }
    }
    Ok(())
}

/// One node of a cluster, whether it runs or not.
pub struct Node<'a> {
    cache: &'a Cache,
    state: &'a State,
    network: Network,
    index: u8,
}

impl<'a> Node<'a> {
    /// The node with this number.
    pub fn new(cache: &'a Cache, state: &'a State, network: Network, index: u8) -> Self {
        Self {
            cache,
            state,
            network,
            index,
        }
    }

    /// Its name in the API, also that of its log and pid file.
    pub fn name(&self) -> String {
        node_name(self.index)
    }

    fn dir(&self) -> PathBuf {
        self.state.file("nodes").join(self.name())
    }

    /// Its control groups, below those that the machine has.
    fn cgroup(&self) -> String {
        format!("{}-{}", self.network.bridge(), self.name())
    }

    /// Starts it. Its files are kept from its last life, if it had one.
    pub fn start(&self) -> Result<()> {
        let (dir, name) = (self.dir(), self.name());
        if !dir.exists() {
            // Renamed when complete, as with certificates.
            let fresh = dir.with_extension("new");
            fs::remove_dir_all(&fresh).ok();
            fs::create_dir_all(&fresh)?;
            store::link_to(self.cache, &fresh.join("lib/containerd"))?;
            fs::rename(&fresh, &dir)?;
        }
        self.write_files()?;
        self.remove_cgroups()?; // whoever ended it
        process::start(self.state, &name, &self.command())?;
        let pid = process::running(self.state, &name)
            .with_context(|| format!("{name} ended:\n{}", process::log_tail(self.state, &name)))?;
        self.network.connect(self.index, pid)
    }

    /// `process` knows it by the state directory in it and the name at its end.
    fn command(&self) -> Vec<String> {
        let mut line: Vec<String> = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid"]
            .map(str::to_owned)
            .into();
        line.extend(["--fork", "--kill-child"].map(str::to_owned));
        line.extend([
            text(&self.dir().join("init")),
            text(&self.dir()),
            text(self.cache.root()),
            self.cgroup(),
            self.name(),
        ]);
        line
    }

    fn write_files(&self) -> Result<()> {
        let dir = self.dir();
        let init = dir.join("init");
        fs::write(&init, include_str!("../../../testbed/node/init.sh"))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let cni = dir.join("cni");
        fs::create_dir_all(&cni)?;
        let pods = self.network.pods(self.index);
        fs::write(cni.join("pods.conflist"), config::cni(&pods).to_string())?;
        fs::write(dir.join("containerd.toml"), config::containerd(&text(&cni)))?;
        fs::write(dir.join("network"), self.network.node_setup(self.index))?;
        // Pods that do not ask the cluster's DNS have nobody to ask.
        let resolv_conf = dir.join("resolv.conf");
        fs::write(&resolv_conf, "nameserver 127.0.0.1\n")?;
        let kubelet = config::kubelet(
            &self.network.node(self.index).to_string(),
            &text(&self.state.pki("ca.crt")),
            &self.cgroup(),
            &text(&resolv_conf),
        );
        Ok(fs::write(dir.join("kubelet.json"), kubelet.to_string())?)
    }

    /// Whether its kubelet does.
    pub fn listens(&self) -> bool {
        TcpStream::connect((self.network.node(self.index), 10250)).is_ok()
    }

    /// A command that runs on the node.
    pub fn enter(&self) -> Result<Command> {
        let name = self.name();
        let first = process::running(self.state, &name)
            .and_then(|pid| process::children(pid).into_iter().next())
            .with_context(|| format!("{name} is not running"))?;
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--target={first}"));
        nsenter.args(["--mount", "--net", "--uts", "--ipc", "--pid", "--wd", "--"]);
        Ok(nsenter)
    }

    /// Ends it and everything on it, as a power cut would.
    pub fn kill(&self) -> Result<()> {
        process::stop(self.state, &[&self.name()])?;
        self.remove_cgroups()
    }

    /// Removes the control groups that a node leaves behind when it ends. The kubelet of its
    /// next life would look for containers in them, three seconds for each.
    pub fn remove_cgroups(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        let root = Path::new("/sys/fs/cgroup");
        // One tree, or one for each controller.
        let mut parents = subdirectories(root)?;
        parents.push(root.to_owned());
        for group in parents.iter().map(|parent| parent.join(self.cgroup())) {
            // The last processes of a group may still be on their way out.
            while group.exists()
                && let Err(error) = remove_tree(&group)
            {
                if Instant::now() > deadline {
                    return Err(error).context(format!("cannot remove {}", group.display()));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

/// A control group is empty when its subgroups are gone; what looks like files in it is not.
fn remove_tree(group: &Path) -> io::Result<()> {
    for child in subdirectories(group)? {
        remove_tree(&child)?;
    }
    fs::remove_dir(group)
}

fn subdirectories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Paths are UTF-8: `Cache::from_env` has checked it.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
