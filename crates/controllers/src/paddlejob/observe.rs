//! Observing: what is seen of a job's children. It reads and never writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::PaddleJob;
use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use plan::paddlejob::{SampleSetView, Seen, is_overdue};

use super::context::Context;
use crate::{Error, identity, nodes};

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
        sample_set: sample_set(context, job),
    };
    let overdue = seen.pods.iter().filter(|pod| is_overdue(pod, now));
    let suspects = overdue.filter_map(|pod| pod.node.as_deref()).collect();
    let lost_nodes = nodes::lost(&context.common.client, suspects).await?;
    Ok(Seen { lost_nodes, ..seen })
}

/// The set that a job uses, if it is there and can be read.
fn sample_set(context: &Context, job: &PaddleJob) -> Option<SampleSetView> {
    let name = job.spec.sample_set_ref.as_ref()?.name.as_deref()?;
    let namespace = job.metadata.namespace.as_deref()?;
    let set = context.sets.get(&ObjectRef::new(name).within(namespace))?;
    set.0.as_ref().ok().map(SampleSetView::of)
}
