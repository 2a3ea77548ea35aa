//! What every pass over a SampleSet shares: the client, what the watches show,
//! and what this process remembers.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::{SampleSet, labels};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use plan::names;
use plan::sampleset::{Kind, Settings};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::NAME;
use crate::cache::Owner;
use crate::common::Common;
use crate::drive::{Concerned, Objects, Options};
use crate::memory::FIGURES;
use crate::runtime::Servers;
use crate::stores::{self, News, StoredSampleJob, StoredSet};
use crate::{identity, scoped};

/// What every pass shares.
pub(super) struct Context {
    pub(super) common: Common,
    pub(super) settings: Settings,
    pub(super) servers: Servers,
    pub(super) stores: Stores,
    pub(super) concerned: Concerned<StoredSet>,
    /// Children by the uid of their set whose name somebody else's object has. It is
    /// not watched, since it lacks our label.
    foreign: Mutex<BTreeSet<(String, Kind)>>,
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
        concerned: Concerned<StoredSet>,
    ) -> Context {
        Context {
            common: Common::new(NAME, client.clone(), &options, FIGURES),
            settings: options.settings,
            servers: Servers::new(client),
            stores,
            concerned,
            foreign: Mutex::default(),
        }
    }

    fn foreign(&self) -> MutexGuard<'_, BTreeSet<(String, Kind)>> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody else's object had the name of a child when it was last asked.
    pub(super) fn is_foreign(&self, set: &str, kind: Kind) -> bool {
        self.foreign().contains(&(set.to_owned(), kind))
    }

    /// The children of a set whose names were taken when it was last asked.
    pub(super) fn all_foreign(&self, set: &str) -> Vec<Kind> {
        let foreign = self.foreign();
        let kinds = foreign.iter().filter(|(whose, _)| whose == set);
        kinds.map(|(_, kind)| *kind).collect()
    }

    /// Marks whether somebody else's object has the name of a child.
    pub(super) fn note_foreign(&self, set: &str, kind: Kind, is_foreign: bool) {
        let mark = (set.to_owned(), kind);
        match is_foreign {
            true => self.foreign().insert(mark),
            false => self.foreign().remove(&mark),
        };
    }

    /// Only these sets are still there.
    pub(super) fn keep(&self, uids: &HashSet<String>) {
        self.common.memories.keep(uids);
        self.servers.keep(uids);
        self.foreign().retain(|(whose, _)| uids.contains(whose));
    }

    /// The set is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.common.memories.forget(uid);
        self.servers.forget(uid);
        self.foreign().retain(|(whose, _)| whose != uid);
    }
}

impl Stores {
    /// Starts the watches. Their tasks end when they are dropped.
    pub(super) fn watch(
        client: &Client,
        namespace: Option<&str>,
        sets: &Objects<StoredSet>,
    ) -> (JoinSet<()>, Stores) {
        let mut watch = Watch {
            tasks: JoinSet::new(),
            sets,
        };
        let (client, all) = (|| client.clone(), sets.store.clone());
        let label = Some(labels::SET_NAME);
        let stores = Stores {
            jobs: watch.keep(scoped(client(), namespace), None, set_of_job),
            pods: watch.keep(scoped(client(), namespace), label, set_by_label),
            services: watch.keep(scoped(client(), namespace), label, set_by_owner),
            stateful_sets: watch.keep(scoped(client(), namespace), label, set_by_owner),
            claims: watch.keep(scoped(client(), namespace), label, set_by_owner),
            volumes: watch.keep(Api::all(client()), label, set_of_volume),
            nodes: watch.keep(Api::all(client()), None, move |node| {
                sets_on_node(&all, node)
            }),
        };
        (watch.tasks, stores)
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

/// Tells the sets of what they depend on.
struct Watch<'a> {
    tasks: JoinSet<()>,
    sets: &'a Objects<StoredSet>,
}

impl Watch<'_> {
    /// Keeps objects up to date, and makes the sets be looked at whose they are.
    fn keep<K, Sets>(
        &mut self,
        api: Api<K>,
        label: Option<&str>,
        whose: impl Fn(&K) -> Sets + Send + 'static,
    ) -> Store<K>
    where
        Sets: IntoIterator<Item = ObjectRef<StoredSet>>,
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Send + Sync + 'static,
    {
        let (sets, concerned) = (self.sets.store.clone(), self.sets.concerned.clone());
        let tell = move |news: News<'_, K>| match news {
            News::Of(object) => whose(object)
                .into_iter()
                .for_each(|set| concerned.look_at(set)),
            News::All => {
                for set in sets.state() {
                    concerned.look_at(ObjectRef::from_obj(&*set));
                }
            }
        };
        stores::keep(&mut self.tasks, api, label, tell)
    }
}

fn set_by_owner<K: Resource>(child: &K) -> Option<ObjectRef<StoredSet>> {
    let owner = Owner::of(child.meta(), "SampleSet")?;
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

/// The sets that a node is labelled for, or should be: somebody may have taken the label
/// away, and a node that registers anew has none.
fn sets_on_node(
    sets: &Store<StoredSet>,
    node: &PartialObjectMeta<Node>,
) -> Vec<ObjectRef<StoredSet>> {
    let sets = sets.state();
    let on_it = sets.iter().filter(|stored| {
        let set = stored.0.as_ref();
        set.is_ok_and(|set| carries_label(node, set) || holds_partition(node, set))
    });
    on_it.map(|set| ObjectRef::from_obj(&**set)).collect()
}

fn carries_label(node: &PartialObjectMeta<Node>, set: &SampleSet) -> bool {
    let meta = &set.metadata;
    let label = names::node_label(identity(&meta.namespace), identity(&meta.name));
    node.labels().contains_key(&label)
}

fn holds_partition(node: &PartialObjectMeta<Node>, set: &SampleSet) -> bool {
    let status = set.status.as_ref();
    let cache = status.and_then(|status| status.cache_status.as_ref());
    let mut partitions = cache.into_iter().flat_map(|cache| &cache.partitions);
    partitions.any(|partition| partition.node.is_some() && partition.node == node.metadata.name)
}

fn set_of_job(job: &StoredSampleJob) -> Option<ObjectRef<StoredSet>> {
    let job = job.0.as_ref().ok()?;
    let set = job.spec.sample_set_ref.as_ref()?.name.as_deref()?;
    Some(ObjectRef::new(set).within(job.metadata.namespace.as_deref()?))
}

#[cfg(test)]
mod tests {
    use api::{CacheStatus, PartitionStatus, SampleSetStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::core::DeserializeGuard;
    use kube::runtime::{reflector, watcher};

    use super::*;

    /// A set with a partition on a node.
    fn set(name: &str, node: &str) -> StoredSet {
        let mut set = SampleSet::new(name, api::SampleSetSpec::default());
        set.metadata.namespace = Some("default".to_owned());
        let partition = PartitionStatus {
            node: Some(node.to_owned()),
            ..PartitionStatus::default()
        };
        let cache = CacheStatus {
            partitions: vec![partition],
            ..CacheStatus::default()
        };
        set.status = Some(SampleSetStatus {
            cache_status: Some(cache),
            ..SampleSetStatus::default()
        });
        DeserializeGuard(Ok(set))
    }

    #[test]
    fn a_node_concerns_all_sets_that_it_is_labelled_for_or_should_be() {
        let (sets, mut writer) = reflector::store();
        let long = "a".repeat(60);
        for set in [
            set("moved", "n2"),
            set("lost", "n1"),
            set(&long, "n2"),
            set("other", "n2"),
        ] {
            writer.apply_watcher_event(&watcher::Event::Apply(set));
        }
        let carried = ["moved", &long].map(|set| {
            let label = names::node_label("default", set);
            (label, "a-runtime-0".to_owned())
        });
        let node = PartialObjectMeta::<Node> {
            metadata: ObjectMeta {
                name: Some("n1".to_owned()),
                labels: Some(carried.into()),
                ..ObjectMeta::default()
            },
            ..PartialObjectMeta::default()
        };
        let concerned = sets_on_node(&sets, &node).into_iter();
        let concerned: BTreeSet<String> = concerned.map(|set| set.name).collect();
        let on_it = [long, "lost".to_owned(), "moved".to_owned()];
        assert_eq!(concerned, BTreeSet::from(on_it));
    }
}
