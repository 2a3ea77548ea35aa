//! Brings a cluster up and down.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::components::{self, Component, Ports};
use super::paths::{Cache, State};
use super::{UpArgs, build, kwok, pki, process};

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
        build::all(self.cache)?;
        let _lock = self.lock()?;
        if args.fresh {
            self.remove()?;
        }
        let begun = Instant::now();
        let mut changed = Vec::new();
        if let Err(error) = self.bring_up(args, &mut changed) {
            process::stop(&self.state, &changed)?;
            if self.running().is_empty() {
                self.remove()?;
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
    fn bring_up(&self, args: &UpArgs, changed: &mut Vec<&'static str>) -> Result<()> {
        for dir in ["log", "run"] {
            fs::create_dir_all(self.state.file(dir))?;
        }
        pki::ensure(&self.state)?;
        let ports = self.ports()?;
        pki::write_kubeconfigs(&self.state, ports.api)?;
        components::write_configs(&self.state)?;

        let mut ensure = |component: Component, outdated: bool| -> Result<()> {
            let line = components::command(self.cache, &self.state, ports, component);
            let name = component.name();
            if let Some(pid) = process::running(&self.state, name) {
                if !outdated && process::command_line(pid.as_raw()) == line {
                    return Ok(());
                }
                eprintln!("restarting {name}: its configuration changed");
                process::stop(&self.state, &[name])?;
            }
            changed.push(name);
            process::start(&self.state, name, &line)
        };

        ensure(Component::Etcd, false)?;
        ensure(Component::ApiServer, false)?;
        self.wait("kube-apiserver to be ready", Component::ApiServer, || {
            // kubectl takes a tenth of a second of CPU that the server needs now.
            TcpStream::connect((Ipv4Addr::LOCALHOST, ports.api)).is_ok()
                && self.answers(&["get", "--raw=/readyz"])
        })?;
        ensure(Component::ControllerManager, false)?;
        ensure(Component::Scheduler, false)?;
        // Without it no pod can be created, and it shows that the controllers work.
        self.wait(
            "the default service account",
            Component::ControllerManager,
            || self.answers(&["get", "serviceaccount", "default", "--namespace=default"]),
        )?;

        if let Some(count) = args.kwok {
            let file = self.state.file("kwok.yaml");
            let config = kwok::config(args.pods);
            let outdated = fs::read_to_string(&file).is_ok_and(|found| found != config);
            fs::write(&file, config)?;
            ensure(Component::Kwok, outdated)?;
            if self.add_nodes(count, &args.capacity)? {
                changed.push("nodes");
            }
            self.wait("the fake nodes to be ready", Component::Kwok, || {
                self.nodes_ready(count)
            })?;
        }
        Ok(())
    }

    /// Creates the fake nodes that are missing; says whether there were any.
    fn add_nodes(&self, count: u16, capacity: &[kwok::Resource]) -> Result<bool> {
        let found = process::output(self.kubectl().args(["get", "nodes", "--output=name"]))?;
        let missing: Vec<u16> = (0..count)
            .filter(|&index| {
                let name = format!("node/{}", kwok::node_name(index));
                !found.lines().any(|line| line == name)
            })
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let mut create = self
            .kubectl()
            .args(["create", "--filename=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = create.stdin.take() {
            stdin.write_all(kwok::nodes(missing, capacity).to_string().as_bytes())?;
        }
        if !create.wait()?.success() {
            bail!("kubectl could not create the fake nodes");
        }
        Ok(true)
    }

    /// Ready, and no longer tainted: a pod created now is scheduled at once.
    fn nodes_ready(&self, count: u16) -> bool {
        let selector = format!("--selector={}", kwok::NODE_SELECTOR);
        let columns = "--output=jsonpath={range .items[*]}\
                       {.status.conditions[?(@.type=='Ready')].status}{.spec.taints}{'\\n'}{end}";
        process::output(self.kubectl().args(["get", "nodes", &selector, columns])).is_ok_and(
            |text| text.lines().filter(|line| *line == "True").count() >= usize::from(count),
        )
    }

    fn answers(&self, kubectl_args: &[&str]) -> bool {
        let mut kubectl = self.kubectl();
        kubectl.args(kubectl_args).arg("--request-timeout=5s");
        kubectl.stdout(Stdio::null()).stderr(Stdio::null());
        kubectl.status().is_ok_and(|status| status.success())
    }

    /// Waits for `probe`; fails at once when any component ends.
    fn wait(&self, what: &str, component: Component, probe: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let expected = Component::ALL.iter().take_while(|it| **it != component);
        let expected: Vec<Component> = expected.copied().chain([component]).collect();
        while !probe() {
            for component in &expected {
                let name = component.name();
                if process::running(&self.state, name).is_none() {
                    bail!("{name} ended; its last lines:\n{}", self.log_tail(name));
                }
            }
            if Instant::now() > deadline {
                let name = component.name();
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

    /// The components that run.
    fn running(&self) -> Vec<&'static str> {
        let names = Component::ALL.map(Component::name);
        names
            .into_iter()
            .filter(|name| process::running(&self.state, name).is_some())
            .collect()
    }

    /// The ports in use, or new ones when nothing runs that uses the old.
    fn ports(&self) -> Result<Ports> {
        let file = self.state.file("ports.json");
        if !self.running().is_empty() {
            let text = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            return Ok(serde_json::from_str(&text)?);
        }
        let ports = free_ports(self.state.dir().to_string_lossy().as_ref())?;
        fs::write(&file, serde_json::to_string(&ports)?)?;
        Ok(ports)
    }

    fn remove(&self) -> Result<()> {
        process::stop(&self.state, &Component::ALL.map(Component::name))?;
        match fs::remove_dir_all(self.state.dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.state.dir().display()))
            }
            _ => Ok(()),
        }
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

/// Below the range from which Linux takes ports for outgoing connections: kube-apiserver
/// makes dozens of these while others are still starting.
const PORTS: Range<u16> = 20_000..32_000;

/// Free ports. The search starts at a place that `key` decides, so that a cluster mostly
/// keeps its address and two that start at the same moment do not meet.
fn free_ports(key: &str) -> Result<Ports> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let span = u64::from(PORTS.end - PORTS.start);
    let offset = u16::try_from(hasher.finish() % span).unwrap_or_default();
    let first = PORTS.start + offset;
    let mut free = (first..PORTS.end)
        .chain(PORTS.start..first)
        .filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    match (free.next(), free.next(), free.next()) {
        (Some(etcd), Some(etcd_peer), Some(api)) => Ok(Ports {
            etcd,
            etcd_peer,
            api,
        }),
        _ => bail!("no free port on 127.0.0.1 in {PORTS:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() -> Result<()> {
        let first = free_ports("some key")?;
        assert!(PORTS.contains(&first.etcd));
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first.etcd))?;
        let second = free_ports("some key")?;
        assert_ne!(first.etcd, second.etcd);
        assert!(second.etcd != second.api && second.etcd != second.etcd_peer);
        Ok(())
    }
}
