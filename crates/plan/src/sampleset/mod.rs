//! What is to be done for a SampleSet.
//!
//! [`plan`] is the only place where the steps meet; each has a file of its own.
//! Data operations are started in two passes: the lock `status.operation` is
//! written first, and nothing is asked of a server before it is seen to be there.

use std::collections::BTreeSet;

use api::{SampleSet, SampleSetStatus};
use jiff::Timestamp;
use serde_json::Value;

mod world;

pub use world::{
    Child, RuntimePod, SecretSeen, Seen, ServiceView, Settings, StatefulSetView, VolumeSecret,
    VolumeView,
};

use crate::Event;
use crate::operation::{Cancel, Post};

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
    let _ = set;
    BTreeSet::new()
}

/// The Secrets that are read before planning.
pub fn secrets_needed(set: &SampleSet, settings: &Settings, now: Timestamp) -> SecretsNeeded {
    let _ = (set, settings, now);
    SecretsNeeded::default()
}

/// Decides what is to be done for `set`, given what is seen of its children.
pub fn plan(set: &SampleSet, seen: &Seen, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan {
        status: set.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let _ = (seen, settings);
    plan.wake_at(now);
    plan
}
