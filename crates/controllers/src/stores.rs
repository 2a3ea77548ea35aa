//! Objects that are kept up to date by watches: those of which there are few, so
//! that they can be kept whole.

use std::fmt::Debug;
use std::hash::Hash;

use api::{SampleJob, SampleSet};
use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// One bad object must not stop the watch that carries the others.
pub(crate) type StoredSet = DeserializeGuard<SampleSet>;
pub(crate) type StoredSampleJob = DeserializeGuard<SampleJob>;

/// The object, unless it can't be read.
pub(crate) fn readable<K: Resource<DynamicType = ()>>(stored: &DeserializeGuard<K>) -> Option<&K> {
    match &stored.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let (namespace, name) = (&invalid.metadata.namespace, &invalid.metadata.name);
            tracing::warn!(?namespace, ?name, error = %invalid, "a {} can't be read", K::kind(&()));
            None
        }
    }
}

/// What a watch has to tell.
pub(crate) enum News<'a, K> {
    /// An object came, changed or went.
    Of(&'a K),
    /// All was listed anew: something may be gone that nobody told of.
    All,
}

/// Keeps objects up to date, until the tasks are dropped, and tells of changes.
pub(crate) fn keep<K>(
    tasks: &mut JoinSet<()>,
    api: Api<K>,
    label: Option<&str>,
    tell: impl Fn(News<'_, K>) + Send + 'static,
) -> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync + 'static,
{
    let mut config = watcher::Config::default();
    if let Some(label) = label {
        config = config.labels(label);
    }
    let (reader, writer) = reflector::store();
    let events = watcher(api, config).default_backoff().reflect(writer);
    tasks.spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
            match event {
                Ok(Apply(object) | Delete(object)) => tell(News::Of(&object)),
                Ok(InitDone) => tell(News::All),
                Ok(Init | InitApply(_)) => {}
                Err(error) => interrupted(&K::kind(&K::DynamicType::default()), &error),
            }
        }
    });
    reader
}

/// Tells why a watch stopped for the moment.
pub(crate) fn interrupted(kind: &str, error: &watcher::Error) {
    if let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error
        && status.code == 404
    {
        let remedy = match kind {
            "PodGroup" => "install Volcano",
            _ => "apply its CRD (deploy/v1/crd.yaml)",
        };
        tracing::warn!(%kind, "the API server does not know this kind: {remedy}");
    } else {
        tracing::warn!(%kind, %error, "a watch was interrupted and goes on");
    }
}
