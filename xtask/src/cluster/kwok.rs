//! Fake nodes: their objects, and the configuration of the program that plays their
//! kubelets. What pods do on them is in `xtask/testbed/kwok/*.yaml`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::str::FromStr;

use clap::ValueEnum;
use serde_json::{Value, json};

/// Which stages pods go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PodStages {
    /// Pods run at once and stay; their annotations can say otherwise
    #[default]
    Run,
    /// Pods take a moment to start, and workers of a PaddleJob end well after some seconds
    Complete,
}

/// `nvidia.com/gpu=8`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    name: String,
    quantity: String,
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, quantity)) if !name.is_empty() && !quantity.is_empty() => Ok(Self {
                name: name.to_owned(),
                quantity: quantity.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is not RESOURCE=QUANTITY, as in nvidia.com/gpu=8"
            )),
        }
    }
}

/// Enough for thousands of pods on a few nodes; the GPUs are those of a usual
/// training machine.
const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "32"),
    ("memory", "256Gi"),
    ("pods", "1000"),
    ("nvidia.com/gpu", "8"),
];

/// The label that all fake nodes carry.
pub const NODE_SELECTOR: &str = "type=kwok";

/// kwok's configuration: its options, then the stages.
pub fn config(pods: PodStages) -> String {
    let mut documents = vec![
        include_str!("../../testbed/kwok/options.yaml"),
        include_str!("../../testbed/kwok/nodes.yaml"),
        include_str!("../../testbed/kwok/pods.yaml"),
    ];
    if pods == PodStages::Complete {
        documents.push(include_str!("../../testbed/kwok/pods-complete.yaml"));
    }
    documents.join("---\n")
}

/// The name of a fake node.
pub fn node_name(index: u16) -> String {
    format!("kwok-{index}")
}

/// A List of the nodes with these numbers.
pub fn nodes(indices: impl IntoIterator<Item = u16>, extra: &[Resource]) -> Value {
    let mut capacity: BTreeMap<&str, &str> = CAPACITY.into();
    capacity.extend(extra.iter().map(|it| (&*it.name, &*it.quantity)));
    let items: Vec<Value> = indices
        .into_iter()
        .map(|index| node(index, &capacity))
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn node(index: u16, capacity: &BTreeMap<&str, &str>) -> Value {
    let name = node_name(index);
    // Only for show: each must differ, because pods with hostNetwork take it.
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + u32::from(index));
    let version = "kwok";
    // No taint: YAML of users must be scheduled as it is.
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": version,
                "kernelVersion": version,
                "kubeProxyVersion": "",
                "kubeletVersion": version,
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "kwok",
                "systemUUID": name,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_offers_what_was_asked_for() -> Result<(), String> {
        let list = nodes([0, 300], &["cpu=4".parse()?, "example.com/npu=2".parse()?]);
        let at = |pointer: &str| list.pointer(pointer).and_then(Value::as_str);
        assert_eq!(at("/items/0/metadata/name"), Some("kwok-0"));
        assert_eq!(at("/items/0/status/capacity/cpu"), Some("4"));
        assert_eq!(
            at("/items/0/status/allocatable/example.com~1npu"),
            Some("2")
        );
        assert_eq!(at("/items/0/status/allocatable/pods"), Some("1000"));
        assert_eq!(at("/items/1/status/addresses/0/address"), Some("10.0.1.45"));
        assert_eq!(list.pointer("/items/0/spec"), None, "no taint");
        Ok(())
    }

    #[test]
    fn a_resource_needs_both_sides() {
        for bad in ["cpu", "=1", "cpu="] {
            assert!(bad.parse::<Resource>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_document_is_yaml_and_has_a_kind() -> anyhow::Result<()> {
        let kinds = |pods| -> anyhow::Result<usize> {
            let text = config(pods);
            for document in text.split("---\n") {
                let value: Value = serde_saphyr::from_str(document)?;
                anyhow::ensure!(value.get("kind").is_some(), "no kind in\n{document}");
            }
            Ok(text.matches("kind: Stage").count())
        };
        assert!(kinds(PodStages::Run)? < kinds(PodStages::Complete)?);
        Ok(())
    }
}
