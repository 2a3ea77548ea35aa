//! What the controller sees of the world of a SampleSet: slim views of its
//! children, and never the value of a key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::operation::Answers;
use crate::operation::source;

/// How the operator was started, as far as decisions depend on it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Image of the runtime servers.
    pub runtime_image: String,
    /// Where caches may lie.
    pub cache_path_prefixes: Vec<String>,
    /// Sources, metadata and storage may be folders of the machine.
    pub allow_local_paths: bool,
    /// Where sets without a `secretRef` get a volume.
    pub default_volume_dir: Option<String>,
    /// The part of a disk that caches leave free, of sets that do not say; `None`: what
    /// JuiceFS does by itself.
    pub free_space_ratio: Option<f64>,
}

/// Everything that a pass may base its decisions on, besides the set itself.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Secret of the volume; `None` when it was not read, see
    /// [`secrets_needed`](super::secrets_needed).
    pub volume_secret: Option<SecretSeen>,
    /// The Secret with the keys of the source, if it is another one.
    pub source_secret: Option<SecretSeen>,
    /// Whether the set's own Secret with the server's key, certificate and token
    /// is there, as far as known.
    pub server_secret: Child<()>,
    /// The PersistentVolume of the set's name.
    pub volume: Child<VolumeView>,
    /// The PersistentVolumeClaim of the set's name.
    pub claim: Child<VolumeView>,
    /// The Service of the runtime servers.
    pub service: Child<ServiceView>,
    /// The StatefulSet of the runtime servers.
    pub stateful_set: Child<StatefulSetView>,
    /// The pods of this StatefulSet.
    pub pods: Vec<RuntimePod>,
    /// Why the StatefulSet controller could not make a pod. Only asked while one is
    /// missing: [`lacks_pods`](Seen::lacks_pods).
    pub pod_refusal: Option<String>,
    /// The nodes that carry the set's label, and its value there.
    pub labelled_nodes: BTreeMap<String, String>,
    /// Whether the CSIDriver `csi.juicefs.com` exists.
    pub has_csi_driver: bool,
    /// The namespace of the set, or the CRD SampleSet, is being deleted.
    pub everything_goes: bool,
    /// PaddleJobs that work on the data of the set.
    pub jobs: BTreeSet<String>,
    /// The owner of `status.operation` does not see to it any more (see
    /// [`sees_to`](crate::samplejob::sees_to)), or is known to be gone: a read
    /// from the API server said so, not a cache.
    pub owner_is_gone: bool,
    /// What each runtime server answered to [`asks`](super::asks).
    pub answers: Answers,
}

impl Seen {
    /// The pod of a partition.
    pub fn pod(&self, partition: i32) -> Option<&RuntimePod> {
        self.pods.iter().find(|pod| pod.partition == partition)
    }

    /// Whether a pod is missing that the StatefulSet controller should have made.
    pub fn lacks_pods(&self) -> bool {
        let there = self.stateful_set.ours().filter(|there| !there.is_going);
        let mut wanted = 0..there.map_or(0, |there| there.replicas);
        wanted.any(|partition| self.pod(partition).is_none())
    }

    /// Whether the server of a partition is ready.
    pub fn ready(&self, partition: i32) -> bool {
        self.pod(partition)
            .is_some_and(|pod| pod.is_ready && pod.deleted_at.is_none())
    }
}

/// An object of a name that the set needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Child<T> {
    /// There is none.
    #[default]
    Missing,
    /// It belongs to somebody else: never adopted, never deleted.
    Foreign,
    /// It is the set's.
    Ours(T),
}

impl<T> Child<T> {
    /// The object, if it is the set's.
    pub fn ours(&self) -> Option<&T> {
        match self {
            Child::Ours(child) => Some(child),
            Child::Missing | Child::Foreign => None,
        }
    }

    /// Whether the name is free.
    pub fn is_missing(&self) -> bool {
        matches!(self, Child::Missing)
    }
}

/// A PersistentVolume or its claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeView {
    /// Its phase is Bound.
    pub is_bound: bool,
    /// Its claim was deleted: it is never bound again.
    pub is_released: bool,
    /// It is being deleted.
    pub is_going: bool,
}

/// The Service of the runtime servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceView {
    /// Its annotation [`APPLIED`](api::labels::APPLIED).
    pub applied: Option<String>,
    /// It is being deleted.
    pub is_going: bool,
}

/// The StatefulSet of the runtime servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatefulSetView {
    /// Its annotation [`APPLIED`](api::labels::APPLIED).
    pub applied: Option<String>,
    /// Its annotation [`LOCAL_PATHS`](api::labels::LOCAL_PATHS).
    pub local_paths: Option<String>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// It is being deleted.
    pub is_going: bool,
}

/// The pod of a runtime server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimePod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its partition: the number at the end of its name.
    pub partition: i32,
    /// The node that it was assigned to.
    pub node: Option<String>,
    /// Its address.
    pub ip: Option<IpAddr>,
    /// Whether it is ready.
    pub is_ready: bool,
    /// What keeps it from running: not schedulable, or a container that can't
    /// start or failed.
    pub trouble: Option<String>,
    /// Its container runs, as far as its node knows.
    pub is_running: bool,
    /// When it should be gone, if it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its node is gone, or can't be reached. Only asked when it may be:
    /// [`may_be_lost`](super::may_be_lost).
    pub is_node_lost: bool,
}

impl RuntimePod {
    /// Whether it has a node, and still nothing of it runs.
    pub fn is_stuck(&self) -> bool {
        self.node.is_some() && !self.is_ready && self.deleted_at.is_none()
    }

    /// Whether its server may be at work, even if it does not answer: it has begun, and
    /// its node does not say that it has ended since.
    pub fn may_work(&self) -> bool {
        let has_ended = !self.is_ready && !self.is_running && self.trouble.is_some();
        self.ip.is_some() && !self.is_node_lost && !has_ended
    }
}

/// A Secret as it was read.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretSeen {
    /// There is none.
    Missing,
    /// What may be known of it.
    Present(VolumeSecret),
}

/// What decisions need to know of a Secret of a volume or of a source. It never
/// holds a key, and nothing of it but the names of its fields can be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeSecret {
    /// The fields that are there and not empty.
    pub keys: BTreeSet<String>,
    /// `name`: the name of the volume.
    pub name: Option<String>,
    /// The folders of the machine that it names: `bucket` of storage `file`, and
    /// the folder of `metaurl` with sqlite.
    pub local_paths: Vec<String>,
}

impl VolumeSecret {
    /// Reads the data of a Secret.
    pub fn read<'a>(data: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> VolumeSecret {
        let data: BTreeMap<&str, String> = data
            .into_iter()
            // `echo … | base64` leaves a newline, and people do it.
            .map(|(key, value)| (key, String::from_utf8_lossy(value).trim().to_owned()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let get = |key: &str| data.get(key).cloned();
        let mut local_paths = Vec::new();
        if get("storage").as_deref() == Some("file") {
            let bucket = get("bucket").unwrap_or_default();
            let path = bucket.strip_prefix("file://").unwrap_or(&bucket);
            local_paths.push(path.trim_end_matches('/').to_owned());
        }
        local_paths.extend(get("metaurl").as_deref().and_then(source::sqlite_folder));
        VolumeSecret {
            keys: data.keys().map(|key| (*key).to_owned()).collect(),
            name: get("name"),
            local_paths,
        }
    }

    /// The first of `keys` that is not there.
    pub fn missing<'k>(&self, keys: &[&'k str]) -> Option<&'k str> {
        keys.iter().copied().find(|key| !self.keys.contains(*key))
    }
}

impl fmt::Debug for VolumeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("VolumeSecret");
        shown.field("keys", &self.keys).finish_non_exhaustive()
    }
}
