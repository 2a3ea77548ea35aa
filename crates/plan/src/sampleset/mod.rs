//! What is to be done for a SampleSet.
//!
//! [`plan`] is the only place where the steps meet; each has a file of its own.
//! Data operations are started in two passes: the lock `status.operation` is
//! written first, and nothing is asked of a server before it is seen to be there.

use std::collections::BTreeSet;

use api::{Operation, SampleSet, SampleSetStatus, labels};
use jiff::Timestamp;
use serde_json::Value;

mod children;
mod conditions;
mod deletion;
mod figures;
mod humane;
mod nodes;
mod operations;
mod phase;
pub mod runtime;
mod validity;
pub mod volume;
mod work;
mod world;

pub use conditions::{refuse, urgency};
pub use nodes::may_be_lost;
pub use validity::partitions;
pub use world::{
    Child, RuntimePod, SecretSeen, Seen, ServiceView, Settings, StatefulSetView, VolumeSecret,
    VolumeView,
};

pub(crate) use phase::is_mounted;
pub(crate) use validity::{Obstacle, can_sync, key_of_sync, secret_name, source_uri};

use conditions::{ACCEPTED, Say};
use work::{Due, Work};

use crate::operation::{self, Cancel, Post, State};
use crate::{Event, names};

/// What is to be done, and what the status says then. It is carried out in the
/// order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What `metadata.finalizers` should be, when it is something else. Nothing
    /// that needs the finalizer is in the same plan.
    pub finalizers: Option<Vec<String>>,
    /// The controller makes the Secret of this name with a new key, certificate
    /// and token, owned by the set.
    pub server_secret: Option<String>,
    /// Children to create, in order; one that is already there is fine.
    pub created: Vec<Object>,
    /// Children to merge-patch.
    pub patched: Vec<Object>,
    /// Nodes to label (`Some`) or to unlabel.
    pub labelled: Vec<NodeLabel>,
    /// Operations to cancel on servers.
    pub cancelled: Vec<Cancel>,
    /// Operations to post to servers.
    pub posted: Vec<Post>,
    /// Pods to delete without waiting for their dead node.
    pub pods_deleted: Vec<Pod>,
    /// Children to delete.
    pub deleted: Vec<Kind>,
    /// What the status should be. The patch carries the resourceVersion of the
    /// set that was planned for.
    pub status: SampleSetStatus,
    /// What to tell once the status has landed.
    pub events: Vec<Event>,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<Timestamp>,
}

/// A child to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The whole object, or the merge patch.
    pub value: Value,
}

/// The kinds of children. Their names are in [`names`](crate::names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The Secret of a volume on the machine itself.
    VolumeSecret,
    /// The PersistentVolume, which is cluster-wide.
    PersistentVolume,
    /// The PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// The Service of the runtime servers.
    Service,
    /// The StatefulSet of the runtime servers.
    StatefulSet,
}

impl Kind {
    /// The name of the child of this kind that a set has.
    pub fn name(self, namespace: &str, set: &str) -> String {
        match self {
            Kind::VolumeSecret => names::volume_secret(set),
            Kind::PersistentVolume => names::volume(namespace, set),
            Kind::PersistentVolumeClaim => names::claim(set),
            Kind::Service => names::runtime_service(set),
            Kind::StatefulSet => names::runtime(set),
        }
    }
}

/// The label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLabel {
    /// The node.
    pub node: String,
    /// The label.
    pub key: String,
    /// Its value; `None` removes it.
    pub value: Option<String>,
}

/// A pod by name and uid: another pod of the same name stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Which Secrets are to be read before planning: get, never list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsNeeded {
    /// The name of the Secret of the volume.
    pub volume: Option<String>,
    /// The name of the Secret of the source.
    pub source: Option<String>,
}

impl Plan {
    fn wake_at(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn say<'a>(&'a mut self, work: &Work<'a>) -> Say<'a> {
        Say {
            status: &mut self.status,
            set: work.set,
            now: work.now,
        }
    }

    /// Whether nothing is to be done; the status may still have changed.
    pub fn is_idle(&self) -> bool {
        let rest = Plan {
            status: SampleSetStatus::default(),
            events: Vec::new(),
            wake_at: None,
            ..self.clone()
        };
        rest == Plan::default()
    }
}

/// The ids of operations that every runtime server is asked for before planning.
pub fn asks(set: &SampleSet) -> BTreeSet<String> {
    let lock = set
        .status
        .as_ref()
        .and_then(|status| status.operation.as_ref());
    let mut asked = lock.map_or_else(BTreeSet::new, |lock| operation::ids(&lock.id, lock.type_));
    if set.metadata.deletion_timestamp.is_some() {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        asked.insert(deletion::clear_id(uid));
    }
    asked
}

/// The Secrets that are read before planning, given all that is seen besides:
/// before the volume is made, and for every try of a copy.
pub fn secrets_needed(
    set: &SampleSet,
    seen: &Seen,
    settings: &Settings,
    now: Timestamp,
) -> SecretsNeeded {
    let mut needed = SecretsNeeded::default();
    if set.metadata.deletion_timestamp.is_some() {
        return needed;
    }
    let work = Work::new(set, seen, settings, now);
    let reference = |secret: Option<&api::SecretReference>| secret?.name.clone();
    let made = set
        .status
        .as_ref()
        .and_then(|status| status.volume.as_ref());
    let named = made.map(|made| made.secret.clone());
    let named = named.or_else(|| reference(set.spec.secret_ref.as_ref()));
    let named = named.unwrap_or_else(|| names::volume_secret(work.name));
    let posts = match work.own(Operation::Sync) {
        Some(lock) => matches!(
            operation::state(&seen.answers, 0, &lock.id),
            State::NotFound | State::NeedsCredentials
        ),
        None if work.lock().is_some() || !seen.ready(0) || !is_mounted_set(set) => false,
        None => match work.sync_due() {
            Due::Done => false,
            Due::Now => true,
            Due::At(at) => at <= now,
        },
    };
    if work.faults.is_empty() && (made.is_none() || seen.stateful_set.is_missing() || posts) {
        needed.volume = Some(named);
    }
    if work.faults.is_empty() && posts {
        let source = set.spec.source.as_ref();
        needed.source = reference(source.and_then(|source| source.secret_ref.as_ref()));
    }
    needed
}

fn is_mounted_set(set: &SampleSet) -> bool {
    let phase = set.status.as_ref().and_then(|status| status.phase);
    phase.is_some_and(is_mounted)
}

/// Decides what is to be done for `set`, given what is seen of its children.
pub fn plan(set: &SampleSet, seen: &Seen, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan {
        status: set.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let work = Work::new(set, seen, settings, now);
    nodes::release_names(&mut plan, seen, now);
    if seen.pods.iter().any(RuntimePod::is_stuck) {
        work.look_soon(&mut plan);
    }
    let finalizers = set.metadata.finalizers.as_deref().unwrap_or_default();
    if set.metadata.deletion_timestamp.is_some() {
        deletion::delete(&mut plan, &work);
    } else if !finalizers
        .iter()
        .any(|finalizer| finalizer == labels::SET_FINALIZER)
    {
        let others = finalizers
            .iter()
            .filter(|finalizer| !deletion::is_ours(finalizer));
        let ours = std::iter::once(labels::SET_FINALIZER.to_owned());
        plan.finalizers = Some(others.cloned().chain(ours).collect());
    } else {
        proceed(&mut plan, &work);
    }
    if !plan.posted.is_empty() || !plan.cancelled.is_empty() {
        // A request may be lost, and a server that did not get it has nothing to tell.
        work.look_again(&mut plan);
    }
    plan
}

/// Brings the children closer to what the spec asks for, and the data with them.
fn proceed(plan: &mut Plan, work: &Work<'_>) {
    let (set, seen) = (work.set, work.seen);
    plan.status.observed_generation = set.metadata.generation;
    let disks_due = figures::observe(
        &mut plan.status,
        seen,
        work.partitions,
        |at| work.server(at),
        work.now,
    );
    if let Some(due) = disks_due {
        plan.wake_at(due);
    }
    accept(plan, work);
    let replicas = operations::operate(plan, work);
    figures::judge(
        &mut plan.status,
        seen,
        work.partitions,
        |known| work.is_warm(known),
        work.now,
    );
    let volume = if work.faults.is_empty() {
        children::ensure(plan, work, replicas)
    } else {
        Ok(seen.claim.ours().is_some_and(|claim| claim.is_bound))
    };
    if volume.is_err() {
        work.look_again(plan);
    }
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let wanted = nodes::wanted(work.name, seen, work.partitions);
    nodes::label(
        plan,
        &names::node_label(namespace, work.name),
        seen,
        &wanted,
    );
    phase::describe(plan, work, volume);
}

/// Says whether the spec can work.
fn accept(plan: &mut Plan, work: &Work<'_>) {
    if work.faults.is_empty() {
        plan.say(work)
            .say(ACCEPTED, true, "Valid", "the spec can work");
        return;
    }
    let told = |plan: &Plan| {
        let mut told = plan.status.conditions.iter();
        told.find(|told| told.type_ == ACCEPTED)
            .map(|told| told.message.clone())
    };
    let before = told(plan);
    plan.say(work)
        .say(ACCEPTED, false, "InvalidSpec", work.faults.join("; "));
    if told(plan) != before {
        plan.events
            .push(Event::warning("InvalidSpec", work.faults.join("; ")));
    }
}
