//! What every pass over a SampleSet shares: the client, what the watches show,
//! and what this process remembers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{SampleJob, SampleSet, labels};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use plan::sampleset::{Kind, Settings};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::drive::{Objects, Options};
use crate::memory::Memories;
use crate::runtime::{Accesses, Servers, Tell};
use crate::stores::{self, News};
use crate::{Clock, Metrics, identity, scoped};

/// One bad object must not stop the watch that carries the others.
pub(crate) type StoredSet = DeserializeGuard<SampleSet>;
pub(crate) type StoredSampleJob = DeserializeGuard<SampleJob>;

/// Who is to be looked at.
pub(super) type Concerned = UnboundedSender<ObjectRef<StoredSet>>;

/// What every pass shares.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) memories: Memories,
    pub(super) servers: Servers,
    pub(super) accesses: Accesses,
    pub(super) stores: Stores,
    pub(super) concerned: Concerned,
    foreign: Mutex<HashMap<String, HashSet<Kind>>>,
}

/// What the watches show.
pub(super) struct Stores {
    pub(super) jobs: Store<StoredSampleJob>,
    pub(super) pods: Store<Pod>,
    pub(super) services: Store<Service>,
    pub(super) stateful_sets: Store<StatefulSet>,
    pub(super) claims: Store<PersistentVolumeClaim>,
    pub(super) volumes: Store<PersistentVolume>,
    /// Of nodes only their labels count.
    pub(super) nodes: Store<PartialObjectMeta<Node>>,
}

impl Context {
    pub(super) fn new(
        client: Client,
        options: Options<Settings>,
        stores: Stores,
        concerned: Concerned,
    ) -> Context {
        Context {
            client,
            settings: options.settings,
            clock: options.clock,
            metrics: options.metrics,
            memories: Memories::default(),
            servers: Servers::default(),
            accesses: Accesses::default(),
            stores,
            concerned,
            foreign: Mutex::default(),
        }
    }

    fn foreign(&self) -> MutexGuard<'_, HashMap<String, HashSet<Kind>>> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody else's object has the name of a child. It is not watched, since it
    /// lacks our label.
    pub(super) fn note_foreign(&self, set: &str, kind: Kind, is_foreign: bool) {
        let mut foreign = self.foreign();
        let kinds = foreign.entry(set.to_owned()).or_default();
        if is_foreign {
            kinds.insert(kind);
        } else {
            kinds.remove(&kind);
        }
    }

    pub(super) fn is_foreign(&self, set: &str, kind: Kind) -> bool {
        self.foreign()
            .get(set)
            .is_some_and(|kinds| kinds.contains(&kind))
    }

    /// The set is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.memories.forget(uid);
        self.servers.forget(uid);
        self.accesses.forget(uid);
        self.foreign().remove(uid);
    }

    /// Makes the set be looked at when its servers have something to tell.
    pub(super) fn tell(&self, set: &SampleSet) -> Tell {
        let (concerned, set) = (self.concerned.clone(), reference(&set.metadata));
        Arc::new(move || {
            // Nobody listens any more when the process shuts down.
            let _ = concerned.send(set.clone());
        })
    }
}

fn reference(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> ObjectRef<StoredSet> {
    ObjectRef::new(identity(&meta.name)).within(identity(&meta.namespace))
}

impl Stores {
    /// Starts the watches. Their tasks end when they are dropped.
    pub(super) fn watch(
        client: &Client,
        namespace: Option<&str>,
        sets: &Objects<StoredSet>,
    ) -> (JoinSet<()>, Stores) {
        let mut tasks = JoinSet::new();
        let concerned = &sets.concerned;
        let (all, some) = (sets.store.clone(), concerned.clone());
        let tell_all = move || {
            for set in all.state() {
                let _ = some.send(ObjectRef::from_obj(&*set));
            }
        };
        let label = Some(labels::SET_NAME);
        let stores = Stores {
            jobs: stores::keep(
                &mut tasks,
                scoped(client.clone(), namespace),
                None,
                by(concerned, tell_all.clone(), set_of_job),
            ),
            pods: stores::keep(
                &mut tasks,
                scoped(client.clone(), namespace),
                label,
                by(concerned, tell_all.clone(), set_by_label),
            ),
            services: stores::keep(
                &mut tasks,
                scoped(client.clone(), namespace),
                label,
                by(concerned, tell_all.clone(), set_by_owner),
            ),
            stateful_sets: stores::keep(
                &mut tasks,
                scoped(client.clone(), namespace),
                label,
                by(concerned, tell_all.clone(), set_by_owner),
            ),
            claims: stores::keep(
                &mut tasks,
                scoped(client.clone(), namespace),
                label,
                by(concerned, tell_all.clone(), set_by_owner),
            ),
            volumes: stores::keep(
                &mut tasks,
                Api::all(client.clone()),
                label,
                by(concerned, tell_all.clone(), set_of_volume),
            ),
            nodes: stores::keep(
                &mut tasks,
                Api::all(client.clone()),
                None,
                by(concerned, tell_all, set_on_node),
            ),
        };
        (tasks, stores)
    }

    /// Until every watch has listed what there is.
    pub(super) async fn filled(&self) {
        // An error means that the task was ended: the process shuts down.
        let _ = self.jobs.wait_until_ready().await;
        let _ = self.pods.wait_until_ready().await;
        let _ = self.services.wait_until_ready().await;
        let _ = self.stateful_sets.wait_until_ready().await;
        let _ = self.claims.wait_until_ready().await;
        let _ = self.volumes.wait_until_ready().await;
        let _ = self.nodes.wait_until_ready().await;
    }
}

/// Tells of the sets whose objects changed.
fn by<K>(
    concerned: &Concerned,
    tell_all: impl Fn() + Send + 'static,
    set: fn(&K) -> Option<ObjectRef<StoredSet>>,
) -> impl Fn(News<'_, K>) + Send + 'static
where
    K: 'static,
{
    let concerned = concerned.clone();
    move |news| match news {
        News::Of(object) => {
            if let Some(set) = set(object) {
                let _ = concerned.send(set);
            }
        }
        News::All => tell_all(),
    }
}

fn set_by_owner<K: Resource>(child: &K) -> Option<ObjectRef<StoredSet>> {
    let owner = crate::cache::Owner::of(child.meta(), "SampleSet")?;
    Some(ObjectRef::new(&owner.name).within(&child.namespace()?))
}

/// The pods of a StatefulSet are its own; their label may be cut, and then they
/// are found through their StatefulSet, which changes with them.
fn set_by_label(pod: &Pod) -> Option<ObjectRef<StoredSet>> {
    let name = pod.labels().get(labels::SET_NAME)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

fn set_of_volume(volume: &PersistentVolume) -> Option<ObjectRef<StoredSet>> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectRef::new(claim.name.as_deref()?).within(claim.namespace.as_deref()?))
}

/// A set whose label a node carries.
fn set_on_node(node: &PartialObjectMeta<Node>) -> Option<ObjectRef<StoredSet>> {
    let mut carried = node.labels().keys();
    let set = carried.find_map(|label| label.strip_prefix(labels::NODE_PREFIX))?;
    let (namespace, name) = set.split_once('.')?;
    Some(ObjectRef::new(name).within(namespace))
}

fn set_of_job(job: &StoredSampleJob) -> Option<ObjectRef<StoredSet>> {
    let job = job.0.as_ref().ok()?;
    let set = job.spec.sample_set_ref.as_ref()?.name.as_deref()?;
    Some(ObjectRef::new(set).within(job.metadata.namespace.as_deref()?))
}
