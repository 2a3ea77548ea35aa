//! Objects as a watch shows them, and the pace at which a loop tries again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::channel::mpsc::{self, UnboundedReceiver};
use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Namespace (empty for what has none) and name.
pub(crate) type Key = (String, String);

/// The objects of one kind, each as the view of it that a loop decides on.
pub(crate) struct Mirror<V> {
    events: UnboundedReceiver<Event<(Key, Option<V>)>>,
    /// Takes in what the watch shows, however long a pass of the loop lasts: over a
    /// connection only what somebody reads makes room for the rest.
    _follower: JoinSet<()>,
    objects: BTreeMap<Key, V>,
    /// A list that is being received.
    listing: BTreeMap<Key, V>,
    is_complete: bool,
}

impl<V: PartialEq + Send + 'static> Mirror<V> {
    /// Mirrors what an API shows. `view` leaves out what does not matter.
    pub(crate) fn new<K>(api: Api<K>, view: fn(K) -> Option<V>) -> Mirror<V>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (seen, events) = mpsc::unbounded();
        let mut follower = JoinSet::new();
        follower.spawn(async move {
            // Nobody listens when the loop has ended.
            let _ = follow(api, view).map(Ok).forward(seen).await;
        });
        Mirror {
            events,
            _follower: follower,
            objects: BTreeMap::new(),
            listing: BTreeMap::new(),
            is_complete: false,
        }
    }

    /// Whether all that was there at the beginning has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// What is there, by namespace and name.
    pub(crate) fn objects(&self) -> &BTreeMap<Key, V> {
        &self.objects
    }

    /// Waits until a view has changed. It may be dropped at any time.
    pub(crate) async fn changed(&mut self) {
        loop {
            // The watch begins anew whenever it ends.
            let Some(event) = self.events.next().await else {
                return std::future::pending().await;
            };
            if self.apply(event) | self.catch_up() {
                return;
            }
        }
    }

    /// Takes in what has been shown already; says whether a view has changed.
    pub(crate) fn catch_up(&mut self) -> bool {
        let mut is_changed = false;
        while let Some(Some(event)) = self.events.next().now_or_never() {
            is_changed |= self.apply(event);
        }
        is_changed
    }

    fn apply(&mut self, event: Event<(Key, Option<V>)>) -> bool {
        match event {
            Event::Init => {
                self.listing.clear();
                false
            }
            Event::InitApply((key, view)) => {
                self.listing.extend(view.map(|view| (key, view)));
                false
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                let is_changed = !self.is_complete || self.objects != listed;
                self.objects = listed;
                self.is_complete = true;
                is_changed
            }
            Event::Apply((key, Some(view))) => {
                let is_changed = self.objects.get(&key) != Some(&view);
                self.objects.insert(key, view);
                is_changed
            }
            Event::Apply((key, None)) | Event::Delete((key, _)) => {
                self.objects.remove(&key).is_some()
            }
        }
    }
}

fn follow<K, V>(
    api: Api<K>,
    view: fn(K) -> Option<V>,
) -> impl Stream<Item = Event<(Key, Option<V>)>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    V: Send + 'static,
{
    let url = api.resource_url().to_owned();
    let keyed = move |object: K| {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        (key, view(object))
    };
    let events = watch(api, watcher::Config::default()).default_backoff();
    events.flat_map(move |event| {
        let events = match event {
            Ok(Event::Init) => vec![Event::Init],
            Ok(Event::InitApply(object)) => vec![Event::InitApply(keyed(object))],
            Ok(Event::InitDone) => vec![Event::InitDone],
            Ok(Event::Apply(object)) => vec![Event::Apply(keyed(object))],
            Ok(Event::Delete(object)) => vec![Event::Delete(keyed(object))],
            // Of a kind that is not served nothing is there.
            Err(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
            ) if status.code == 404 => vec![Event::Init, Event::InitDone],
            Err(error) => {
                tracing::warn!(%url, %error, "the watch is interrupted");
                Vec::new()
            }
        };
        futures::stream::iter(events)
    })
}

/// When to try again what has failed: soon, then less and less often.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
    at: Option<Instant>,
}

impl Retry {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(30);

    /// Takes note of how a pass has ended.
    pub(crate) fn note<E: std::fmt::Display>(&mut self, what: &str, result: Result<(), E>) {
        let Err(error) = result else {
            *self = Retry::default();
            return;
        };
        // The first time it is mostly somebody else's write that came between.
        match self.failures {
            0 => tracing::debug!(%error, "{what}: will be tried again"),
            _ => tracing::warn!(%error, "{what}: will be tried again"),
        }
        let delay = Retry::FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        self.at = Some(Instant::now() + delay.min(Retry::LONGEST));
    }

    /// Waits until it is time; for ever when nothing has failed.
    pub(crate) async fn due(&mut self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
    }
}

/// Something that is gone needs nothing done to it.
pub(crate) fn unless_gone<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        result => result.map(Some),
    }
}

/// Nor has anything to be done when another is there under its name: a watch
/// shows it, and then the next pass decides anew.
pub(crate) fn unless_outdated<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        // What a patch with the uid of the other is told.
        Err(kube::Error::Api(status))
            if status.code == 422 && status.message.contains("metadata.uid:") =>
        {
            Ok(None)
        }
        result => unless_gone(result),
    }
}
