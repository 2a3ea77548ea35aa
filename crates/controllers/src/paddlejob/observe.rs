//! Observing: what is seen of a job's children. It reads and never writes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::PaddleJob;
use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use plan::paddlejob::{
    PodGroupView, PortHolder, SampleSetView, Seen, Training, awaits_training, has_records,
    held_port, is_overdue, mark_key, needs_ports, status_key,
};

use super::context::Context;
use super::stored::StoredJob;
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
        pod_group: pod_group(context, job),
        port_holders: port_holders(context, job),
        told_etcd: context.ledger.last_told(uid),
        training: None,
    };
    let training = match awaits_training(job, &seen.pods) {
        true => training(context, job).await,
        false => None,
    };
    let overdue = seen.pods.iter().filter(|pod| is_overdue(pod, now));
    let suspects = overdue.filter_map(|pod| pod.node.as_deref()).collect();
    let lost_nodes = nodes::lost(&context.common.client, suspects).await?;
    Ok(Seen {
        lost_nodes,
        training,
        ..seen
    })
}

/// What etcd says of the training.
async fn training(context: &Context, job: &PaddleJob) -> Option<Training> {
    let ask = async |key: &str| context.etcd.get(&context.common.client, key).await;
    let key = status_key(job);
    let asked = async { Ok::<_, String>((ask(&key).await?, ask(&mark_key(job)).await?)) };
    match asked.await {
        Ok((word, mark)) => Some(Training::read(word.as_deref(), mark.is_some())),
        Err(error) => {
            tracing::warn!(%error, key, "it is not known whether a job has trained");
            None
        }
    }
}

/// The PodGroup of a job.
fn pod_group(context: &Context, job: &PaddleJob) -> Option<Arc<PodGroupView>> {
    let groups = context.pod_groups.of(identity(&job.metadata.uid));
    let mut groups = groups.seen.into_iter().chain(groups.unseen);
    let own = groups.find(|group| Some(&group.name) == job.metadata.name.as_ref());
    own.map(|group| Arc::clone(&group.view))
}

/// The ports that other jobs have: by their annotations, or since a moment ago.
fn port_holders(context: &Context, job: &PaddleJob) -> Vec<PortHolder> {
    let own = identity(&job.metadata.uid);
    let has_pods = |uid: &str| {
        let pods = context.pods.of(uid);
        !pods.seen.is_empty() || !pods.unseen.is_empty()
    };
    let has_begun = |job: &PaddleJob, uid: &str| has_records(job) || has_pods(uid);
    // One that has begun stays where it is, whoever else may be there.
    if !needs_ports(job) || held_port(&job.metadata).is_some() && has_begun(job, own) {
        return Vec::new();
    }
    let jobs = context.jobs.state();
    let others: HashMap<&str, &PaddleJob> = { jobs.iter() }
        .filter_map(|other| match &**other {
            StoredJob::Good(other) if needs_ports(other) => Some(&**other),
            _ => None,
        })
        .map(|other| (identity(&other.metadata.uid), other))
        .collect();
    let given = context.ledger.ports(|uid| others.contains_key(uid));
    let holder = |(uid, other): (&&str, &&PaddleJob)| {
        let was_given = given.get(*uid).copied();
        Some(PortHolder {
            uid: (*uid).to_owned(),
            port: was_given.or_else(|| held_port(&other.metadata))?,
            // Who was given ports here is about to begin.
            has_begun: was_given.is_some() || has_begun(other, uid),
        })
    };
    // Pods of one that can't be read any more may listen all the same.
    let unreadable = jobs.iter().filter_map(|other| match &**other {
        StoredJob::Bad(bad) => Some(PortHolder {
            uid: identity(&bad.metadata.uid).to_owned(),
            port: held_port(&bad.metadata)?,
            has_begun: true,
        }),
        StoredJob::Good(_) => None,
    });
    let others = others.iter().filter(|(uid, _)| **uid != own);
    others.filter_map(holder).chain(unreadable).collect()
}

/// The set that a job uses, if it is there and can be read.
fn sample_set(context: &Context, job: &PaddleJob) -> Option<SampleSetView> {
    let name = job.spec.sample_set_ref.as_ref()?.name.as_deref()?;
    let namespace = job.metadata.namespace.as_deref()?;
    let set = context.sets.get(&ObjectRef::new(name).within(namespace))?;
    set.0.as_ref().ok().map(SampleSetView::of)
}
