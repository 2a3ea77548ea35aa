//! What every controller does around its passes: it watches its kind, takes passes when
//! something changed, counts them, and repeats what failed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::memory::Memories;
use crate::stores::interrupted;
use crate::{Clock, Error, Metrics, identity};

/// How a controller runs.
#[derive(Clone, Debug, Default)]
pub struct Options<Settings> {
    /// The only namespace that it looks at; `None`: all.
    pub namespace: Option<String>,
    /// What its decisions depend on.
    pub settings: Settings,
    /// Its clock.
    pub clock: Clock,
    /// Its figures.
    pub metrics: Metrics,
}

/// What the passes of a controller share.
pub(crate) trait Passes: Send + Sync + 'static {
    /// What it works on.
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync;
    /// The name of the controller in metrics and events.
    const NAME: &'static str;
    /// How many objects are worked on at once.
    const CONCURRENCY: u16;

    /// Its figures.
    fn metrics(&self) -> &Metrics;

    /// What it remembers of each object.
    fn memories(&self) -> &Memories;

    /// Hears of a change of an object, before it is worked on.
    fn note(&self, event: &watcher::Event<Self::Object>);

    /// One pass over an object: observe, plan, apply, publish.
    fn pass(&self, object: &Self::Object) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// The objects of a controller, as a watch shows them, and who is to be looked at.
pub(crate) struct Objects<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// What the watch shows.
    pub(crate) store: Store<K>,
    /// Makes an object be looked at.
    pub(crate) concerned: UnboundedSender<ObjectRef<K>>,
    writer: Writer<K>,
    changed: UnboundedReceiver<ObjectRef<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Objects<K> {
    /// Nothing yet.
    pub(crate) fn new() -> Objects<K> {
        let (store, writer) = reflector::store();
        let (concerned, changed) = unbounded_channel();
        Objects {
            store,
            concerned,
            writer,
            changed,
        }
    }
}

/// Takes passes until `shutdown`, then lets those end that run. `ready` is called when
/// all objects are listed and work begins.
pub(crate) async fn drive<P: Passes>(
    api: Api<P::Object>,
    objects: Objects<P::Object>,
    passes: Arc<P>,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let noting = Arc::clone(&passes);
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(objects.writer)
        .inspect(move |event| match event {
            Ok(event) => noting.note(event),
            Err(error) => interrupted(&P::Object::kind(&()), error),
        })
        .touched_objects();
    let listed = objects.store.clone();
    let work = Controller::for_stream(stream, objects.store)
        .with_config(Config::default().concurrency(P::CONCURRENCY))
        .reconcile_on(UnboundedReceiverStream::new(objects.changed))
        .graceful_shutdown_on(shutdown.clone())
        .run(timed, back_off, passes)
        .for_each(|_| std::future::ready(()));
    // Told to end before the first list, a Controller would wait for that list for
    // ever; no pass has begun by then.
    let unlisted = async {
        tokio::select! {
            _ = listed.wait_until_ready() => ready(),
            () = shutdown => return,
        }
        std::future::pending().await
    };
    tokio::select! {
        () = work => {},
        () = unlisted => {},
    }
}

async fn timed<P: Passes>(object: Arc<P::Object>, passes: Arc<P>) -> Result<Action, Error> {
    let meta = object.meta();
    let (uid, version) = (identity(&meta.uid), identity(&meta.resource_version));
    if passes.memories().is_superseded(uid, version) {
        return Ok(Action::await_change());
    }
    let start = Instant::now();
    let result = passes.pass(&object).await;
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    passes.metrics().count(P::NAME, outcome, start.elapsed());
    result
}

fn back_off<P: Passes>(object: Arc<P::Object>, error: &Error, passes: Arc<P>) -> Action {
    if error.is_conflict() {
        // The cache was out of date: the watch will bring the news.
        return Action::requeue(Duration::from_secs(1));
    }
    let meta = object.meta();
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    let kind = P::Object::kind(&()).to_lowercase();
    tracing::warn!(namespace, name, %error, "{kind} {namespace}/{name}: the pass failed and is repeated");
    Action::requeue(passes.memories().back_off(identity(&meta.uid)))
}
