//! How a set goes: it waits for jobs that use it, drops what is cached, and
//! takes its children with it. The data in the object store stays.

use api::labels;
use jiff::SignedDuration;

use super::conditions::DELETING;
use super::work::Work;
use super::world::{Child, RuntimePod};
use super::{Kind, NodeLabel, Plan};
use crate::operation::{self, Order, Outcome, Task};
use crate::{Event, names};

/// How long the servers may take to drop what is cached.
const CLEARING: SignedDuration = SignedDuration::from_secs(60);

/// The id of the operation by which servers drop what is cached.
pub(super) fn clear_id(uid: &str) -> String {
    format!("{}-delete", names::short_uid(uid))
}

/// Whether a finalizer is ours, or was left by the Go operator.
pub(super) fn is_ours(finalizer: &str) -> bool {
    finalizer == labels::SET_FINALIZER || finalizer.starts_with(labels::GO_SET_FINALIZER)
}

/// What is to be done for a set that is being deleted.
pub(super) fn delete(plan: &mut Plan, work: &Work<'_>) {
    let finalizers = work.set.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| is_ours(finalizer)) {
        return;
    }
    if work.seen.everything_goes {
        return let_go(plan, work);
    }
    let seen = work.seen;
    let serves = seen
        .stateful_set
        .ours()
        .is_some_and(|there| !there.is_going);
    if serves && !seen.jobs.is_empty() {
        let jobs: Vec<&str> = seen.jobs.iter().map(String::as_str).collect();
        let message = format!(
            "it waits for the PaddleJobs that use it: {}",
            jobs.join(", ")
        );
        work.look_soon(plan);
        return plan.say(work).say(DELETING, false, "InUse", message);
    }
    if serves && !cleared(plan, work) {
        return;
    }
    let pods_are_gone = seen.pods.is_empty();
    let claim_goes = seen.claim.ours().is_some_and(|claim| claim.is_going);
    let (reason, message) = match claim_goes && pods_are_gone {
        true => {
            let claim = names::claim(work.name);
            let message = format!(
                "the PersistentVolumeClaim {claim} goes when no pod mounts it, not even one that has ended: see who does by `kubectl describe pvc {claim}`, and delete them"
            );
            ("ClaimInUse", message)
        }
        false => (
            "RemovingChildren",
            "the children of the set are removed".to_owned(),
        ),
    };
    plan.say(work).say(DELETING, true, reason, message);
    unlabel(plan, work);
    if serves {
        plan.deleted.push(Kind::StatefulSet);
    } else if seen.stateful_set.ours().is_none() && pods_are_gone {
        remove_rest(plan, work);
    }
}

/// The Service and the claim, then the volume, then the finalizer.
fn remove_rest(plan: &mut Plan, work: &Work<'_>) {
    let seen = work.seen;
    if seen.service.ours().is_some_and(|there| !there.is_going) {
        plan.deleted.push(Kind::Service);
    }
    match &seen.claim {
        Child::Ours(claim) if !claim.is_going => plan.deleted.push(Kind::PersistentVolumeClaim),
        Child::Ours(_) => {}
        Child::Missing | Child::Foreign => match &seen.volume {
            Child::Ours(volume) if !volume.is_going => plan.deleted.push(Kind::PersistentVolume),
            Child::Ours(_) => {}
            Child::Missing | Child::Foreign if seen.service.ours().is_none() => {
                release(plan, work);
            }
            Child::Missing | Child::Foreign => {}
        },
    }
}

fn release(plan: &mut Plan, work: &Work<'_>) {
    let finalizers = work.set.metadata.finalizers.iter().flatten();
    let others = finalizers.filter(|finalizer| !is_ours(finalizer));
    plan.finalizers = Some(others.cloned().collect());
}

/// The namespace or the whole kind goes: nothing is waited for.
fn let_go(plan: &mut Plan, work: &Work<'_>) {
    let seen = work.seen;
    unlabel(plan, work);
    for (there, kind) in [
        (seen.stateful_set.ours().is_some(), Kind::StatefulSet),
        (seen.service.ours().is_some(), Kind::Service),
        (seen.claim.ours().is_some(), Kind::PersistentVolumeClaim),
        (seen.volume.ours().is_some(), Kind::PersistentVolume),
    ] {
        plan.deleted.extend(there.then_some(kind));
    }
    if seen.stateful_set.ours().is_some() {
        plan.events.push(Event::warning(
            "CacheLeft",
            "the namespace or the kind SampleSet is deleted at once: what is cached stays on the nodes",
        ));
    }
    release(plan, work);
}

fn unlabel(plan: &mut Plan, work: &Work<'_>) {
    let namespace = work.set.metadata.namespace.as_deref().unwrap_or_default();
    let key = names::node_label(namespace, work.name);
    let nodes = work.seen.labelled_nodes.keys();
    plan.labelled.extend(nodes.map(|node| NodeLabel {
        node: node.clone(),
        key: key.clone(),
        value: None,
    }));
}

/// Whether a server ever told of its cache: one that did not has filled none.
fn has_served(work: &Work<'_>, pod: &RuntimePod) -> bool {
    let answer = work.seen.answers.get(&pod.partition);
    let status = work.set.status.as_ref();
    let known = status.and_then(|status| status.cache_status.as_ref());
    let mut known = known.into_iter().flat_map(|cache| &cache.partitions);
    let was_told = known.any(|known| known.partition == pod.partition && known.cached.is_some());
    let is_told = answer.is_some_and(|answer| answer.cache.is_some());
    pod.node.is_some() && (is_told || was_told)
}

/// Asks every server to drop what is cached, and whether that is over.
fn cleared(plan: &mut Plan, work: &Work<'_>) -> bool {
    plan.say(work).say(
        DELETING,
        true,
        "Clearing",
        "the runtime servers drop what is cached",
    );
    let told = plan
        .status
        .conditions
        .iter()
        .find(|told| told.type_ == DELETING);
    let since = told.map_or(work.now, |told| told.last_transition_time.0);
    let until = since.checked_add(CLEARING).unwrap_or(work.now);
    // Whatever else is under way would fill the caches again.
    if let Some(lock) = work.lock() {
        let ending = work.end(lock);
        plan.cancelled.extend(ending.cancelled);
    }
    let pods = work.seen.pods.iter();
    let pods: Vec<&RuntimePod> = pods.filter(|pod| has_served(work, pod)).collect();
    let nodes = |left: &mut dyn Iterator<Item = i32>| {
        let nodes = left.filter_map(|at| work.seen.pod(at)?.node.clone());
        nodes.collect::<Vec<String>>().join(", ")
    };
    let is_clear = |pod: &RuntimePod| {
        let partition = pod.partition;
        let tasks = [(partition, Task::Clear { paths: Vec::new() })];
        let id = clear_id(work.uid);
        let order = Order {
            id: &id,
            owner: work.uid,
            tasks: tasks.into_iter().collect(),
            credentials: None,
            pods: std::slice::from_ref(pod),
        };
        let course = operation::follow(&order, &work.seen.answers, |at| work.server(at));
        let done = matches!(course.outcome, Outcome::Succeeded(_));
        (course.posted, done)
    };
    let (posted, done): (Vec<_>, Vec<_>) = pods.iter().map(|pod| is_clear(pod)).unzip();
    let left: Vec<i32> = pods
        .iter()
        .zip(&done)
        .filter(|(_, done)| !**done)
        .map(|(pod, _)| pod.partition)
        .collect();
    if left.is_empty() {
        return true;
    }
    if until <= work.now {
        plan.cancelled.clear();
        let nodes = nodes(&mut left.into_iter());
        plan.events.push(Event::warning(
            "CacheLeft",
            format!(
                "what is cached stays on {nodes}: its runtime servers did not drop it within {} s",
                CLEARING.as_secs()
            ),
        ));
        return true;
    }
    plan.posted.extend(posted.into_iter().flatten());
    plan.wake_at(until);
    false
}
