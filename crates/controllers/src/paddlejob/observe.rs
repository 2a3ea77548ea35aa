//! Observing: what is seen of a job's children. It reads and never writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::PaddleJob;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use plan::paddlejob::{PodView, Seen, is_overdue};

use super::context::Context;
use super::error::{Error, code};
use super::identity;

/// The taint of a node that the control plane can't reach.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// What the caches show, and, for pods that are overdue to be gone, whether
/// their nodes are.
pub(super) async fn observe(
    context: &Context,
    job: &PaddleJob,
    now: Timestamp,
) -> Result<Seen, Error> {
    let uid = identity(&job.metadata.uid);
    let pods = context.pods.of(uid);
    let services = context.services.of(uid);
    let config_maps = context.config_maps.of(uid);
    let own = identity(&job.metadata.name);
    let config_map = config_maps
        .seen
        .iter()
        .chain(&config_maps.unseen)
        .find(|child| child.name == own);
    let seen = Seen {
        creating: pods.unseen.iter().map(|child| child.name.clone()).collect(),
        succeeded: context.pods.gone(uid),
        pods: pods
            .seen
            .iter()
            .map(|child| Arc::clone(&child.view))
            .collect(),
        config_map: config_map.map(|child| Arc::clone(&child.view)),
        services: services
            .seen
            .iter()
            .chain(&services.unseen)
            .map(|child| child.name.clone())
            .collect(),
        lost_nodes: BTreeSet::new(),
        sample_set: None,
    };
    let lost_nodes = lost_nodes(context, &seen.pods, now).await?;
    Ok(Seen { lost_nodes, ..seen })
}

/// Asked only of nodes whose pods should have been gone for a minute: that is
/// rare, and a watch on all nodes is not worth it.
async fn lost_nodes(
    context: &Context,
    pods: &[Arc<PodView>],
    now: Timestamp,
) -> Result<BTreeSet<String>, Error> {
    let suspects: BTreeSet<&String> = pods
        .iter()
        .filter(|pod| is_overdue(pod, now))
        .filter_map(|pod| pod.node.as_ref())
        .collect();
    let nodes: Api<Node> = Api::all(context.client.clone());
    let mut lost = BTreeSet::new();
    for name in suspects {
        let node = match nodes.get_opt(name).await {
            // A manager for one namespace need not be allowed to see nodes.
            Err(error) if code(&error) == Some(403) => continue,
            node => node.map_err(Error::Observe)?,
        };
        let taints = node.map(|node| node.spec.and_then(|spec| spec.taints).unwrap_or_default());
        if taints.is_none_or(|taints| taints.iter().any(|taint| taint.key == UNREACHABLE)) {
            lost.insert(name.clone());
        }
    }
    Ok(lost)
}
