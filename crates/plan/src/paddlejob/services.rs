//! In Service mode, a headless Service for each pod.

use std::collections::BTreeSet;

use api::{PaddleJob, labels};
use serde_json::{Value, json};

use super::environment::PORTS;
use super::pods::{common_labels, owner};

/// The Service of a pod. Its name resolves before the pod is ready: pods find
/// each other in order to become ready.
pub fn build(job: &PaddleJob, name: &str, port: u16) -> Value {
    let mut set = common_labels(job.metadata.name.as_deref().unwrap_or_default());
    set.insert(labels::RES_NAME.to_owned(), name.into());
    let ports: Vec<Value> = (0..PORTS)
        .map(|i| json!({"name": format!("p-{i}"), "port": port.saturating_add(i)}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": set,
            "ownerReferences": [owner(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {labels::RES_NAME: name},
            "ports": ports,
        },
    })
}

/// Names in `seen` that no wanted pod has.
pub fn surplus(seen: &BTreeSet<String>, wanted: &BTreeSet<&str>) -> Vec<String> {
    seen.iter()
        .filter(|name| !wanted.contains(name.as_str()))
        .cloned()
        .collect()
}
