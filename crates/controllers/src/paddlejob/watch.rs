//! The watches that fill the caches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use plan::paddlejob::SampleSetView;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::context::Context;
use super::stored::StoredJob;
use super::wire::{IntoChild, WireConfigMap, WirePod, WirePodGroup, WireService};
use crate::cache::{Cache, Child};
use crate::drive::{Concerned, Objects};
use crate::scoped;
use crate::stores::{self, News, StoredSet, interrupted};

/// A cluster without SampleSets or Volcano, or a manager that may not see them, runs jobs
/// all the same; so they are not waited for longer than this.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(5);

/// Watches the sets that jobs use, and tells the jobs of what matters to them.
pub(super) fn sets(
    tasks: &mut JoinSet<()>,
    client: &Client,
    namespace: Option<&str>,
    jobs: &Objects<StoredJob>,
) -> Store<StoredSet> {
    let (jobs, concerned) = (jobs.store.clone(), jobs.concerned.clone());
    let known: Mutex<HashMap<ObjectRef<StoredSet>, SampleSetView>> = Mutex::default();
    let tell = move |news: News<'_, StoredSet>| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let set = match news {
            News::All => {
                known.clear();
                None
            }
            News::Of(set) => {
                let view = set.0.as_ref().map(SampleSetView::of).unwrap_or_default();
                let before = known.insert(ObjectRef::from_obj(set), view.clone());
                // Figures change every second; few of them matter here.
                if before == Some(view) && set.meta().deletion_timestamp.is_none() {
                    return;
                }
                Some(set.meta())
            }
        };
        for job in jobs.state() {
            if uses(&job, set) {
                concerned.look_at(ObjectRef::from_obj(&*job));
            }
        }
    };
    stores::keep(tasks, scoped(client.clone(), namespace), None, tell)
}

/// Whether a job uses the set, or any.
fn uses(job: &StoredJob, set: Option<&ObjectMeta>) -> bool {
    let StoredJob::Good(job) = job else {
        return false;
    };
    let used = job.spec.sample_set_ref.as_ref();
    used.is_some_and(|used| {
        set.is_none_or(|set| used.name == set.name && job.metadata.namespace == set.namespace)
    })
}

/// Watches the children of all jobs, by tasks that end when they are dropped. Returns
/// when every cache is filled.
pub(super) async fn children(
    tasks: &mut JoinSet<()>,
    context: &Arc<Context>,
    namespace: Option<&str>,
    concerned: &Concerned<StoredJob>,
) {
    let mut filled = Vec::new();
    let client = || context.common.client.clone();
    filled.push(follow(
        tasks,
        context,
        |c| &c.pods,
        scoped::<WirePod>(client(), namespace),
        api::labels::RES_TYPE,
        concerned,
    ));
    filled.push(follow(
        tasks,
        context,
        |c| &c.config_maps,
        scoped::<WireConfigMap>(client(), namespace),
        api::labels::RES_NAME,
        concerned,
    ));
    filled.push(follow(
        tasks,
        context,
        |c| &c.services,
        scoped::<WireService>(client(), namespace),
        api::labels::RES_NAME,
        concerned,
    ));
    let groups = context.settings.volcano.then(|| {
        follow(
            tasks,
            context,
            |c| &c.pod_groups,
            scoped::<WirePodGroup>(client(), namespace),
            api::labels::RES_NAME,
            concerned,
        )
    });
    for filled in filled {
        // An error means that the task was ended: the process shuts down.
        let _ = filled.await;
    }
    let listed = context.sets.wait_until_ready();
    let others = async {
        let _ = listed.await;
        if let Some(groups) = groups {
            let _ = groups.await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE_WITH_OTHERS, others).await;
}

/// Keeps a cache up to date with the objects that have a label.
fn follow<K, V>(
    tasks: &mut JoinSet<()>,
    context: &Arc<Context>,
    cache: fn(&Context) -> &Cache<V>,
    api: Api<K>,
    label: &str,
    concerned: &Concerned<StoredJob>,
) -> oneshot::Receiver<()>
where
    K: Resource<DynamicType = ()>
        + IntoChild<V>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
    V: Send + Sync + 'static,
{
    let (filled, is_filled) = oneshot::channel();
    let mut filled = Some(filled);
    let context = Arc::clone(context);
    let concerned = concerned.clone();
    let events = watcher(api, watcher::Config::default().labels(label)).default_backoff();
    tasks.spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    interrupted(&K::kind(&()), &error);
                    continue;
                }
            };
            let done = matches!(event, watcher::Event::InitDone);
            let Some(event) = slim(event) else { continue };
            for (namespace, owner) in cache(&context).apply(event) {
                concerned.look_at(ObjectRef::new(&owner.name).within(&namespace));
            }
            if done && let Some(filled) = filled.take() {
                let _ = filled.send(());
            }
        }
    });
    is_filled
}

/// The same event with what is kept of the object; `None` when it is nobody's.
fn slim<K: IntoChild<V>, V>(event: watcher::Event<K>) -> Option<watcher::Event<Child<V>>> {
    Some(match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into_child()?),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into_child()?),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into_child()?),
        watcher::Event::InitDone => watcher::Event::InitDone,
    })
}
