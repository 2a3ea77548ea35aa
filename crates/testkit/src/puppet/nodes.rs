//! The nodes of a puppet: they come when a pod needs them, and can die.

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Kubelet, Shared};

/// The node of pods that have no place of their own.
const DEFAULT: &str = "node";
/// Where they go when that one is dead.
const SPARE: &str = "spare";

/// What a control plane puts on a node that it can't reach.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

impl Kubelet {
    /// The full name of a node: nodes have no namespace.
    pub fn node_name(&self, node: &str) -> String {
        self.shared.node_name(node)
    }

    /// A node no longer answers: its pods stay as they are, and deletions are
    /// not confirmed. The control plane notices, and says so by a taint.
    pub async fn node_dies(&self, node: &str) -> Result<()> {
        let name = self.play_dead(node)?;
        let nodes = self.shared.nodes();
        // Both, because a control plane takes the one for the other, and the
        // taint away from a node that claims to be ready.
        let status = json!({"status": {"conditions": [condition("Unknown")]}});
        nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Strategic(status))
            .await?;
        let taints = json!([
            taint(),
            {"key": UNREACHABLE, "effect": "NoSchedule"},
            {"key": UNREACHABLE, "effect": "NoExecute"},
        ]);
        let spec = json!({"spec": {"taints": taints}});
        nodes
            .patch(&name, &PatchParams::default(), &Patch::Merge(spec))
            .await?;
        Ok(())
    }

    /// A node dies and its object is removed.
    pub async fn node_vanishes(&self, node: &str) -> Result<()> {
        let name = self.play_dead(node)?;
        self.shared
            .nodes()
            .delete(&name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    fn play_dead(&self, node: &str) -> Result<String> {
        let name = self.shared.node_name(node);
        let mut orders = self.shared.orders();
        if !orders.nodes.contains(&name) {
            bail!("node {name} has no pods: place one there");
        }
        orders.dead_nodes.insert(name.clone());
        Ok(name)
    }

    /// Removes the nodes: no namespace takes them with it.
    pub(crate) async fn remove_nodes(&self) -> Result<()> {
        let made = std::mem::take(&mut self.shared.orders().nodes);
        for name in made {
            match self
                .shared
                .nodes()
                .delete(&name, &DeleteParams::default())
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => drop(result.with_context(|| format!("delete node {name}"))?),
            }
        }
        Ok(())
    }
}

impl Shared {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(super) fn node_name(&self, node: &str) -> String {
        format!("{}-{node}", self.namespace)
    }

    /// The node that a pod goes to, which is made if need be.
    pub(super) async fn node_for(&self, pod: &str) -> Result<String> {
        let (name, known) = {
            let orders = self.orders();
            let places = orders.places.get(pod).cloned().into_iter();
            let others = [self.node_name(DEFAULT), self.node_name(SPARE)];
            let name = places
                .chain(others)
                .find(|name| !orders.dead_nodes.contains(name))
                .context("every node is dead")?;
            let known = orders.nodes.contains(&name);
            (name, known)
        };
        if known {
            return Ok(name);
        }
        let node: Node = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            },
            // Nobody else's pods: the puppet would not run them.
            "spec": {"taints": [taint()]},
        }))?;
        self.nodes()
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("create node {name}"))?;
        let status = json!({"status": {
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "1000"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1000"},
            "conditions": [condition("True")],
        }});
        self.nodes()
            .patch_status(&name, &PatchParams::default(), &Patch::Strategic(status))
            .await
            .with_context(|| format!("report the status of node {name}"))?;
        self.orders().nodes.insert(name.clone());
        Ok(name)
    }
}

fn taint() -> serde_json::Value {
    json!({"key": "paddle-operator-test/puppet", "effect": "NoSchedule"})
}

fn condition(status: &str) -> serde_json::Value {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second);
    let now = now.unwrap_or_default().to_string();
    json!({
        "type": "Ready", "status": status, "reason": "Puppet", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}
