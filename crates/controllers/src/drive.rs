//! What every controller does around its passes: it watches its kind, takes passes when
//! something changed, counts them, and repeats what failed.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::common::Common;
use crate::runtime::Tell;
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
    /// How many objects are worked on at once.
    const CONCURRENCY: u16;

    /// What every controller has.
    fn common(&self) -> &Common;

    /// Forgets all objects but those of these uids: the others went while nobody
    /// watched.
    fn keep(&self, uids: &HashSet<String>);

    /// Hears of a change of an object, before it is worked on.
    fn note(&self, event: &watcher::Event<Self::Object>);

    /// One pass over an object: observe, plan, apply, publish.
    fn pass(&self, object: &Self::Object) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// Makes objects be looked at.
#[derive(Clone)]
pub(crate) struct Concerned<K: Resource<DynamicType = ()>>(UnboundedSender<ObjectRef<K>>);

impl<K: Resource<DynamicType = ()> + 'static> Concerned<K> {
    /// Makes an object be looked at.
    pub(crate) fn look_at(&self, object: ObjectRef<K>) {
        // Nobody listens any more when the process shuts down.
        let _ = self.0.send(object);
    }

    /// Makes the object be looked at when somebody has something to tell of it.
    pub(crate) fn tell(&self, meta: &ObjectMeta) -> Tell
    where
        K: Clone,
    {
        let concerned = self.clone();
        let object = ObjectRef::new(identity(&meta.name)).within(identity(&meta.namespace));
        Arc::new(move || concerned.look_at(object.clone()))
    }
}

/// The objects of a controller, as a watch shows them, and who is to be looked at.
pub(crate) struct Objects<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// What the watch shows.
    pub(crate) store: Store<K>,
    /// Makes an object be looked at.
    pub(crate) concerned: Concerned<K>,
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
            concerned: Concerned(concerned),
            writer,
            changed,
        }
    }
}

/// Takes passes until `shutdown`, then lets those end that run. `ready` is called when
/// all objects are listed and work begins. Nothing is decided before every cache is
/// `filled`: what is not in an empty cache is not lost.
pub(crate) async fn drive<P: Passes>(
    api: Api<P::Object>,
    objects: Objects<P::Object>,
    passes: Arc<P>,
    filled: impl Future<Output = ()>,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let shutdown = shutdown.shared();
    tokio::select! {
        () = filled => {}
        () = shutdown.clone() => return,
    }
    let (noting, listed) = (Arc::clone(&passes), objects.store.clone());
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(objects.writer)
        .inspect(move |event| match event {
            Ok(watcher::Event::InitDone) => {
                let objects = listed.state();
                let uids = objects
                    .iter()
                    .filter_map(|object| object.meta().uid.clone());
                noting.keep(&uids.collect());
            }
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
    if passes.common().memories.is_superseded(uid, version) {
        return Ok(Action::await_change());
    }
    let start = Instant::now();
    let result = passes.pass(&object).await;
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    let common = passes.common();
    common.metrics.count(common.name, outcome, start.elapsed());
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
    Action::requeue(passes.common().memories.back_off(identity(&meta.uid)))
}
