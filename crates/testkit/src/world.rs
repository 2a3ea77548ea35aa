//! What the API shows of one namespace, followed by watches: how things are,
//! and every version that there was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::{PaddleJob, Phase};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Everything that scenarios judge by.
#[derive(Debug, Default)]
pub struct World {
    /// The jobs.
    pub jobs: History<PaddleJob>,
    /// The pods.
    pub pods: History<Pod>,
    /// The ConfigMaps.
    pub config_maps: History<ConfigMap>,
    /// The Services.
    pub services: History<Service>,
    /// The events.
    pub events: History<Event>,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct History<K> {
    /// As they are, by name.
    pub now: BTreeMap<String, Arc<K>>,
    /// Every version that the watch has shown, in order.
    pub all: Vec<Seen<K>>,
}

/// A version of an object.
#[derive(Debug)]
pub struct Seen<K> {
    /// The object.
    pub object: Arc<K>,
    /// It was deleted; this is how it was last.
    pub deleted: bool,
}

impl<K> Default for History<K> {
    fn default() -> Self {
        History {
            now: BTreeMap::new(),
            all: Vec::new(),
        }
    }
}

impl<K: ResourceExt> History<K> {
    /// The object with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<K>> {
        self.now.get(name)
    }

    /// Every version of the object with this uid.
    pub fn versions(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.all
            .iter()
            .map(|seen| &seen.object)
            .filter(move |object| object.uid().as_deref() == Some(uid))
    }

    /// The uids of all objects that ever had this name, in order.
    pub fn incarnations(&self, name: &str) -> Vec<String> {
        let mut known = BTreeSet::new();
        self.all
            .iter()
            .filter(|seen| seen.object.name_any() == name)
            .filter_map(|seen| seen.object.uid())
            .filter(|uid| known.insert(uid.clone()))
            .collect()
    }

    fn apply(&mut self, event: watcher::Event<K>, listing: &mut BTreeSet<String>) {
        let (object, deleted) = match event {
            watcher::Event::Init => {
                listing.clear();
                return;
            }
            watcher::Event::InitDone => {
                self.now.retain(|name, _| listing.contains(name));
                return;
            }
            watcher::Event::InitApply(object) => {
                listing.insert(object.name_any());
                (object, false)
            }
            watcher::Event::Apply(object) => (object, false),
            watcher::Event::Delete(object) => (object, true),
        };
        let object = Arc::new(object);
        if deleted {
            self.now.remove(&object.name_any());
        } else {
            self.now.insert(object.name_any(), Arc::clone(&object));
        }
        self.all.push(Seen { object, deleted });
    }
}

impl World {
    /// The phases that a job went through, in order and without repetition.
    pub fn phases(&self, job: &str) -> Vec<Phase> {
        let versions = self.jobs.all.iter().map(|seen| &seen.object);
        let mut phases: Vec<Phase> = versions
            .filter(|object| object.name_any() == job)
            .filter_map(|object| object.status.as_ref()?.phase)
            .collect();
        phases.dedup();
        phases
    }

    /// How often the annotations of a pod changed: each makes a kubelet try
    /// again at once.
    pub fn wake_ups(&self, uid: &str) -> usize {
        let mut all = self.pods.versions(uid).map(|pod| pod.annotations());
        let mut wake_ups = 0;
        if let Some(mut last) = all.next() {
            for next in all {
                wake_ups += usize::from(next != last);
                last = next;
            }
        }
        wake_ups
    }

    /// Messages of the events about an object with this reason.
    pub fn told(&self, object: &str, reason: &str) -> Vec<&str> {
        let events = self.events.now.values();
        events
            .filter(|event| event.involved_object.name.as_deref() == Some(object))
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message.as_deref())
            .collect()
    }
}

/// Keeps a [`World`] up to date.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) world: watch::Sender<World>,
    _watches: JoinSet<()>,
}

impl Mirror {
    /// Starts to watch a namespace; returns when the first lists are in.
    pub(crate) async fn start(client: &Client, namespace: &str) -> Result<Arc<Mirror>> {
        let world = watch::Sender::new(World::default());
        let mut watches = JoinSet::new();
        let listed = [
            follow::<PaddleJob>(&mut watches, client, namespace, &world, |w| &mut w.jobs),
            follow::<Pod>(&mut watches, client, namespace, &world, |w| &mut w.pods),
            follow::<ConfigMap>(&mut watches, client, namespace, &world, |w| {
                &mut w.config_maps
            }),
            follow::<Service>(&mut watches, client, namespace, &world, |w| &mut w.services),
            follow::<Event>(&mut watches, client, namespace, &world, |w| &mut w.events),
        ];
        for listed in listed {
            tokio::time::timeout(crate::wait::PATIENCE, listed)
                .await
                .context("the API does not answer a list")??;
        }
        Ok(Arc::new(Mirror {
            world,
            _watches: watches,
        }))
    }
}

fn follow<K>(
    watches: &mut JoinSet<()>,
    client: &Client,
    namespace: &str,
    world: &watch::Sender<World>,
    part: fn(&mut World) -> &mut History<K>,
) -> oneshot::Receiver<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (listed, is_listed) = oneshot::channel();
    let mut listed = Some(listed);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let world = world.clone();
    watches.spawn(async move {
        let mut listing = BTreeSet::new();
        let events = watcher(api, watcher::Config::default()).default_backoff();
        // A watch that breaks is taken up again; what was missed then shows up
        // as a scenario that waits in vain.
        let mut events = std::pin::pin!(events.into_stream());
        while let Some(event) = events.next().await {
            let Ok(event) = event else { continue };
            if matches!(event, watcher::Event::InitDone)
                && let Some(listed) = listed.take()
            {
                // Nobody waits any more when the scenario has ended.
                let _ = listed.send(());
            }
            world.send_modify(|world| part(world).apply(event, &mut listing));
        }
    });
    is_listed
}
