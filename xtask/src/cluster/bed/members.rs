//! The nodes of a cluster, fake and real: what starts them, and what is done to them.

use std::fs;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::Bed;
use crate::cluster::addresses::Addresses;
use crate::cluster::components::Component;
use crate::cluster::nodes::{self, Network, Node, store};
use crate::cluster::{UpArgs, kwok, process};

/// What a cluster with real nodes is not complete without.
const ADDONS: [&str; 3] = [
    include_str!("../../../testbed/addons/coredns.yaml"),
    include_str!("../../../testbed/addons/images.yaml"),
    include_str!("../../../testbed/addons/juicefs-csi.yaml"),
];

impl Bed<'_> {
    pub(super) fn fake_nodes(
        &self,
        args: &UpArgs,
        count: u16,
        addresses: Addresses,
        changed: &mut Vec<String>,
    ) -> Result<()> {
        let file = self.state.file("kwok.yaml");
        let config = kwok::config(args.pods);
        let outdated = fs::read_to_string(&file).is_ok_and(|found| found != config);
        fs::write(&file, config)?;
        self.ensure(Component::Kwok, addresses, outdated, changed)?;
        if self.add_nodes(count, &args.capacity)? {
            changed.push("nodes".to_owned());
        }
        self.wait("the fake nodes to be ready", Component::Kwok, || {
            self.nodes_ready(kwok::NODE_SELECTOR, count)
        })
    }

    pub(super) fn real_nodes(
        &self,
        count: u8,
        network: Network,
        changed: &mut Vec<String>,
    ) -> Result<()> {
        let nodes: Vec<Node<'_>> = (0..count)
            .map(|index| Node::new(self.cache, &self.state, network, index))
            .collect();
        let before = changed.len();
        for node in &nodes {
            if process::running(&self.state, &node.name()).is_none() {
                changed.push(node.name());
                node.start()?;
            }
        }
        if changed.len() == before {
            return Ok(());
        }
        self.apply(ADDONS.join("---\n"))?;
        let names: Vec<String> = nodes.iter().map(Node::name).collect();
        let expected: Vec<&str> = names.iter().map(String::as_str).collect();
        // That a node is ready may be news from its last life; that it listens is not.
        self.wait_for("the nodes to be ready", &expected, || {
            nodes.iter().all(Node::listens) && self.nodes_ready("", count.into())
        })?;
        self.add_gpus(&expected)?;
        self.wait_for("DNS and the CSI driver", &expected, || {
            self.answers(&[
                "rollout",
                "status",
                "--namespace=kube-system",
                "--timeout=5s",
                "deployment/coredns",
                "daemonset/juicefs-csi-node",
            ])
        })
    }

    /// Has real nodes offer GPUs as the fake ones do: examples ask for one, and train on
    /// CPUs where there is none. A kubelet forgets them when it starts.
    fn add_gpus(&self, nodes: &[&str]) -> Result<()> {
        let offer = json!({"nvidia.com/gpu": "8"});
        let patch = json!({"status": {"capacity": offer, "allocatable": offer}}).to_string();
        let mut kubectl = self.kubectl();
        kubectl.args(["patch", "nodes", "--subresource=status", "--type=merge"]);
        process::output(kubectl.arg("--patch").arg(patch).args(nodes)).map(drop)
    }

    /// A real node of the cluster.
    pub fn node(&self, name: &str) -> Result<Node<'_>> {
        let network = self.recorded()?.and_then(|addresses| addresses.network);
        let index = (0..nodes::MAX).find(|&index| nodes::node_name(index) == name);
        let (Some(network), Some(index)) = (network, index) else {
            bail!("cluster {} has no real node {name}", self.name);
        };
        Ok(Node::new(self.cache, &self.state, network, index))
    }

    /// Imports images into every real node that runs.
    pub fn load(&self, archives: &[PathBuf]) -> Result<()> {
        let running = self.running();
        let names: Vec<&String> = running.iter().filter(|it| self.node(it).is_ok()).collect();
        if names.is_empty() {
            bail!("cluster {} has no real nodes", self.name);
        }
        thread::scope(|scope| {
            let load = |name: &str| -> Result<()> {
                let node = self.node(name)?;
                let mut each = archives.iter();
                each.try_for_each(|archive: &PathBuf| store::import(node.enter()?, archive))
                    .with_context(|| format!("cannot load images into {name}"))
            };
            let threads = names.iter().map(|name| scope.spawn(move || load(name)));
            let threads: Vec<_> = threads.collect();
            let mut results = threads.into_iter().map(|thread| thread.join());
            results.try_for_each(|result| result.unwrap_or_else(|_| bail!("loading panicked")))
        })
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
        self.apply(kwok::nodes(missing, capacity).to_string())?;
        Ok(true)
    }

    /// Ready, and no longer tainted as new: a pod created now is scheduled at once.
    fn nodes_ready(&self, selector: &str, count: u16) -> bool {
        let selector = format!("--selector={selector}");
        let columns = "--output=jsonpath={range .items[*]}\
                       {.status.conditions[?(@.type=='Ready')].status}{.spec.taints}{'\\n'}{end}";
        let ready = |line: &&str| {
            line.starts_with("True") && !line.contains("node.kubernetes.io/not-ready")
        };
        process::output(self.kubectl().args(["get", "nodes", &selector, columns]))
            .is_ok_and(|text| text.lines().filter(ready).count() >= usize::from(count))
    }
}
