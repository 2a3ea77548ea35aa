//! The watches that fill the caches.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::context::Context;
use super::stored::StoredJob;
use super::wire::{IntoChild, WireConfigMap, WirePod, WireService};
use crate::cache::{Cache, Child};
use crate::scoped;
use crate::stores::interrupted;

/// Watches the children of all jobs. Returns when every cache is filled, with
/// the tasks (which end when they are dropped) and the jobs whose children changed.
pub(super) async fn children(
    context: &Arc<Context>,
    namespace: Option<&str>,
) -> (
    JoinSet<()>,
    impl Stream<Item = ObjectRef<StoredJob>> + use<>,
) {
    let mut tasks = JoinSet::new();
    let (changed, jobs) = mpsc::unbounded_channel();
    let mut filled = Vec::new();
    let client = || context.client.clone();
    filled.push(follow(
        &mut tasks,
        context,
        |c| &c.pods,
        scoped::<WirePod>(client(), namespace),
        api::labels::RES_TYPE,
        &changed,
    ));
    filled.push(follow(
        &mut tasks,
        context,
        |c| &c.config_maps,
        scoped::<WireConfigMap>(client(), namespace),
        api::labels::RES_NAME,
        &changed,
    ));
    filled.push(follow(
        &mut tasks,
        context,
        |c| &c.services,
        scoped::<WireService>(client(), namespace),
        api::labels::RES_NAME,
        &changed,
    ));
    for filled in filled {
        // An error means that the task was ended: the process shuts down.
        let _ = filled.await;
    }
    (tasks, UnboundedReceiverStream::new(jobs))
}

/// Keeps a cache up to date with the objects that have a label.
fn follow<K, V>(
    tasks: &mut JoinSet<()>,
    context: &Arc<Context>,
    cache: fn(&Context) -> &Cache<V>,
    api: Api<K>,
    label: &str,
    changed: &mpsc::UnboundedSender<ObjectRef<StoredJob>>,
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
    let changed = changed.clone();
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
                // Nobody listens any more when the process shuts down.
                let _ = changed.send(ObjectRef::new(&owner.name).within(&namespace));
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
