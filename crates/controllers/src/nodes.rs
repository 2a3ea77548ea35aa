//! Nodes that are gone, and hold up what ran on them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use crate::Error;
use crate::error::code;

/// The taint of a node that the control plane can't reach.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Which of these nodes are gone or can't be reached. Asked only of nodes whose
/// pods should have been gone for a minute: that is rare, and a watch on all nodes
/// is not worth it.
pub(crate) async fn lost(
    client: &Client,
    suspects: BTreeSet<&str>,
) -> Result<BTreeSet<String>, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut lost = BTreeSet::new();
    for name in suspects {
        let node = match nodes.get_opt(name).await {
            // A manager for one namespace need not be allowed to see nodes.
            Err(error) if code(&error) == Some(403) => continue,
            node => node.map_err(Error::Observe)?,
        };
        let taints = node.map(|node| node.spec.and_then(|spec| spec.taints).unwrap_or_default());
        if taints.is_none_or(|taints| taints.iter().any(|taint| taint.key == UNREACHABLE)) {
            lost.insert(name.to_owned());
        }
    }
    Ok(lost)
}
