//! The nodes as the API has them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::Machine;
use super::mounts::DRIVER;

/// Marks the nodes that are ours.
const LABEL: &str = "paddle-operator.local/node";
/// So many GPUs a machine without any pretends to have, so that jobs which ask for
/// some can be tried on CPUs.
const PRETENDED: u32 = 8;
/// What GPUs are called.
const GPU: &str = "nvidia.com/gpu";
/// So many pods a node takes.
const PODS: u32 = 1000;

/// Makes the nodes, and removes those of an earlier life that are too many.
pub(super) async fn nodes(machine: &Machine, names: &[String]) -> kube::Result<()> {
    let api: Api<Node> = Api::all(machine.client.clone());
    for name in names {
        let node = Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels(name)),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec::default()),
            status: None,
        };
        match api.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        let patch = Patch::Merge(json!({"status": status(machine, name)}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
    }
    for node in api.list(&ListParams::default().labels(LABEL)).await? {
        let name = node.metadata.name.unwrap_or_default();
        if !names.contains(&name) {
            api.delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// Says that volumes of JuiceFS can be mounted, as its CSI driver does where it is
/// installed.
pub(super) async fn driver(machine: &Machine) -> kube::Result<()> {
    let driver = CSIDriver {
        metadata: ObjectMeta {
            name: Some(DRIVER.to_owned()),
            ..ObjectMeta::default()
        },
        spec: CSIDriverSpec {
            attach_required: Some(false),
            pod_info_on_mount: Some(false),
            ..CSIDriverSpec::default()
        },
    };
    let drivers: Api<CSIDriver> = Api::all(machine.client.clone());
    match drivers.create(&PostParams::default(), &driver).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.map(drop),
    }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        (LABEL, ""),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(machine: &Machine, name: &str) -> NodeStatus {
    let now = Time(jiff::Timestamp::now());
    let amount = |amount: String| Quantity(amount);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| {
        let amount = line.strip_prefix("MemTotal:")?;
        amount.split_whitespace().next().map(str::to_owned)
    });
    let gpus = match gpus() {
        0 => PRETENDED,
        gpus => gpus,
    };
    let capacity: BTreeMap<String, Quantity> = [
        ("cpu", cores.to_string()),
        (
            "memory",
            format!("{}Ki", memory.unwrap_or_else(|| "0".to_owned())),
        ),
        ("pods", PODS.to_string()),
        (GPU, gpus.to_string()),
    ]
    .map(|(name, text)| (name.to_owned(), amount(text)))
    .into();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    let address = |type_: &str, address: &str| NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    };
    NodeStatus {
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(vec![condition(
            "Ready",
            "True",
            "KubeletReady",
            "the node agent is at work",
        )]),
        addresses: Some(vec![
            address("InternalIP", &machine.address()),
            address("Hostname", name),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            operating_system: "linux".to_owned(),
            kernel_version: read("/proc/sys/kernel/osrelease"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            machine_id: read("/etc/machine-id"),
            os_image: os_image(),
            container_runtime_version: concat!("local://", env!("CARGO_PKG_VERSION")).to_owned(),
            kubelet_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The GPUs that the machine has.
pub(super) fn gpus() -> u32 {
    let devices = std::fs::read_dir("/dev").into_iter().flatten();
    let names = devices.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let gpus = names.filter(|name| {
        let number = name.strip_prefix("nvidia");
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    });
    u32::try_from(gpus.count()).unwrap_or(0)
}

/// Whether a container wants some.
pub(super) fn asks_for_gpus(container: &Container) -> bool {
    let limits = container
        .resources
        .iter()
        .filter_map(|resources| resources.limits.as_ref());
    limits.flatten().any(|(name, _)| name == GPU)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn os_image() -> String {
    let release = read("/etc/os-release");
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}
