//! Brings a cluster up and down.

mod members;
mod volcano;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::addresses::{Addresses, free_ports};
use super::components::{self, Component};
use super::nodes::{self, Network, Node};
use super::paths::{Cache, State};
use super::{UpArgs, build, pki, process};
use crate::image;

/// How long a component may take. On a busy machine of two cores the slowest,
/// kube-apiserver, was seen to need 15 s.
const PATIENCE: Duration = Duration::from_secs(90);

/// One cluster.
pub struct Bed<'a> {
    cache: &'a Cache,
    name: &'a str,
    /// Its files.
    pub state: State,
}

impl<'a> Bed<'a> {
    /// The cluster `name`, whether it runs or not.
    pub fn new(cache: &'a Cache, name: &'a str) -> Self {
        Self {
            cache,
            name,
            state: cache.cluster(name),
        }
    }

    /// The administrator's kubeconfig, if there is a cluster.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let path = self.state.kubeconfig("admin");
        if !path.exists() {
            let name = self.name;
            bail!("there is no cluster {name}: `cargo xtask cluster up --name {name}` starts it");
        }
        Ok(path)
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(self.cache.bin("kubectl"));
        kubectl.env("KUBECONFIG", self.state.kubeconfig("admin"));
        // Else it fills the user's home with what it learns of a passing cluster.
        kubectl.env("KUBECACHEDIR", self.state.file("kubectl-cache"));
        kubectl
    }

    /// Starts what does not run yet. After a failure, what this call started is gone.
    pub fn up(&self, args: &UpArgs) -> Result<()> {
        if args.nodes.is_some() {
            nodes::check()?;
        }
        let extras = build::Extras {
            nodes: args.nodes.is_some(),
            volcano: args.volcano,
        };
        build::all(self.cache, extras)?;
        if args.nodes.is_some() {
            image::system(self.cache)?;
        }
        let _lock = self.lock()?;
        if args.fresh {
            self.remove()?;
        }
        let begun = Instant::now();
        let is_new = self.recorded()?.is_none();
        let mut changed = Vec::new();
        if let Err(error) = self.bring_up(args, &mut changed) {
            let started: Vec<&str> = changed.iter().map(String::as_str).collect();
            let taken_back = process::stop(&self.state, &started).and_then(|()| match is_new {
                true => self.remove(),
                // What an earlier one left is what the user wants to have up.
                false => self.leave_network(),
            });
            if let Err(error) = taken_back {
                eprintln!("{error:#}");
            }
            return Err(error).with_context(|| format!("cluster {} did not come up", self.name));
        }
        let name = self.name;
        if changed.is_empty() {
            eprintln!("cluster {name} is already running");
        } else {
            eprintln!("cluster {name} is ready after {:.1?}", begun.elapsed());
        }
        eprintln!(
            "export KUBECONFIG={}",
            self.state.kubeconfig("admin").display()
        );
        Ok(())
    }

    /// Ends its processes and removes its files.
    pub fn down(&self) -> Result<()> {
        if !self.state.dir().exists() {
            eprintln!("cluster {} is not running", self.name);
            return Ok(());
        }
        let _lock = self.lock()?;
        self.remove()?;
        eprintln!("cluster {} is gone", self.name);
        Ok(())
    }

    /// `changed` collects what was started or added.
    fn bring_up(&self, args: &UpArgs, changed: &mut Vec<String>) -> Result<()> {
        for dir in ["log", "run"] {
            fs::create_dir_all(self.state.file(dir))?;
        }
        let addresses = self.addresses(args)?;
        if let Some(network) = addresses.network {
            network.up(self.state.dir())?;
        }
        pki::ensure(&self.state, addresses.api())?;
        pki::write_kubeconfigs(&self.state, addresses.api())?;
        components::write_configs(&self.state)?;
        self.control_plane(addresses, changed)?;
        if let Some(count) = args.kwok {
            self.fake_nodes(args, count, addresses, changed)?;
        }
        if let (Some(count), Some(network)) = (args.nodes, addresses.network) {
            self.real_nodes(count, network, changed)?;
        }
        if args.volcano {
            self.volcano(addresses, changed)?;
        }
        Ok(())
    }

    fn control_plane(&self, addresses: Addresses, changed: &mut Vec<String>) -> Result<()> {
        self.ensure(Component::Etcd, addresses, false, changed)?;
        self.ensure(Component::ApiServer, addresses, false, changed)?;
        self.wait("kube-apiserver to be ready", Component::ApiServer, || {
            // kubectl takes a tenth of a second of CPU that the server needs now.
            TcpStream::connect(addresses.api()).is_ok() && self.answers(&["get", "--raw=/readyz"])
        })?;
        self.ensure(Component::ControllerManager, addresses, false, changed)?;
        self.ensure(Component::Scheduler, addresses, false, changed)?;
        // Without it no pod can be created, and it shows that the controllers work.
        self.wait(
            "the default service account",
            Component::ControllerManager,
            || self.answers(&["get", "serviceaccount", "default", "--namespace=default"]),
        )
    }

    /// Starts a component, unless it runs as it should.
    fn ensure(
        &self,
        component: Component,
        addresses: Addresses,
        outdated: bool,
        changed: &mut Vec<String>,
    ) -> Result<()> {
        let line = components::command(self.cache, &self.state, addresses, component);
        let name = component.name();
        if let Some(pid) = process::running(&self.state, name) {
            if !outdated && process::command_line(pid.as_raw()) == line {
                return Ok(());
            }
            eprintln!("restarting {name}: its configuration changed");
            process::stop(&self.state, &[name])?;
        }
        changed.push(name.to_owned());
        process::start(&self.state, name, &line)
    }

    fn apply(&self, manifests: String) -> Result<()> {
        let mut kubectl = self
            .kubectl()
            .args(["apply", "--server-side", "--filename=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = kubectl.stdin.take() {
            stdin.write_all(manifests.as_bytes())?;
        }
        if !kubectl.wait()?.success() {
            bail!("kubectl could not apply what the cluster needs");
        }
        Ok(())
    }

    fn answers(&self, kubectl_args: &[&str]) -> bool {
        let mut kubectl = self.kubectl();
        kubectl.args(kubectl_args).arg("--request-timeout=5s");
        kubectl.stdout(Stdio::null()).stderr(Stdio::null());
        kubectl.status().is_ok_and(|status| status.success())
    }

    /// Waits for `probe`, which is up to this component; fails at once when it ends, or one
    /// that was started before it.
    fn wait(&self, what: &str, component: Component, probe: impl Fn() -> bool) -> Result<()> {
        let expected = Component::ALL.iter().take_while(|it| **it != component);
        let expected = expected.chain([&component]).map(|it| it.name());
        self.wait_for(what, &expected.collect::<Vec<_>>(), probe)
    }

    /// Waits for `probe`; fails at once when any of the processes ends.
    fn wait_for(&self, what: &str, expected: &[&str], probe: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !probe() {
            for name in expected {
                if process::running(&self.state, name).is_none() {
                    bail!("{name} ended; its last lines:\n{}", self.log_tail(name));
                }
            }
            if Instant::now() > deadline {
                let name = expected.last().copied().unwrap_or_default();
                bail!(
                    "waited {PATIENCE:?} for {what}; the last lines of {name}:\n{}",
                    self.log_tail(name)
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn log_tail(&self, name: &str) -> String {
        process::log_tail(&self.state, name)
    }

    /// Ends a component of the control plane or a real node.
    pub fn kill(&self, name: &str) -> Result<()> {
        if Component::ALL.iter().any(|other| other.name() == name) {
            return process::stop(&self.state, &[name]);
        }
        self.node(name)?.kill()
    }

    /// The components and real nodes that run.
    fn running(&self) -> Vec<String> {
        let components = Component::ALL.map(|component| component.name().to_owned());
        let nodes = (0..nodes::MAX).map(nodes::node_name);
        let all = components.into_iter().chain(nodes);
        all.filter(|name| process::running(&self.state, name).is_some())
            .collect()
    }

    /// The addresses in use, or new ones when nothing runs that uses the old.
    fn addresses(&self, args: &UpArgs) -> Result<Addresses> {
        let recorded = self.recorded()?;
        let network = match recorded {
            None if args.nodes.is_some() => Some(Network::free()?),
            None => None,
            Some(found) => {
                // The server's certificate names its address, and a heartbeat that is
                // right for one kind of node is wrong for the other.
                let wrong = found
                    .network
                    .map_or(args.nodes.is_some(), |_| args.kwok.is_some());
                if wrong {
                    bail!("a cluster has real or fake nodes, not both; `--fresh` starts anew");
                }
                if !self.running().is_empty() {
                    return Ok(found);
                }
                found.network
            }
        };
        let addresses = Addresses {
            network,
            ..free_ports(self.state.dir().to_string_lossy().as_ref())?
        };
        let text = serde_json::to_string(&addresses)?;
        fs::write(self.state.file("addresses.json"), text)?;
        Ok(addresses)
    }

    /// The addresses that were last used.
    fn recorded(&self) -> Result<Option<Addresses>> {
        let file = self.state.file("addresses.json");
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn remove(&self) -> Result<()> {
        let running = self.running();
        let names: Vec<&str> = running.iter().map(String::as_str).collect();
        process::stop(&self.state, &names)?;
        self.leave_network()?;
        match fs::remove_dir_all(self.state.dir()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.state.dir().display()))
            }
            _ => Ok(()),
        }
    }

    /// Removes the links and control groups of nodes, unless some run, or another cluster has
    /// taken the network since this one was stopped.
    fn leave_network(&self) -> Result<()> {
        let network = self.recorded()?.and_then(|addresses| addresses.network);
        let ours = |network: &Network| !network.is_of_another(self.state.dir());
        let Some(network) = network.filter(|network| self.running().is_empty() && ours(network))
        else {
            return Ok(());
        };
        for index in 0..nodes::MAX {
            Node::new(self.cache, &self.state, network, index).remove_cgroups()?;
        }
        network.down()
    }

    /// One `up` or `down` of a cluster at a time.
    fn lock(&self) -> Result<File> {
        let path = self.state.lock();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.lock()?;
        Ok(file)
    }
}
