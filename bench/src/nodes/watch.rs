//! Waiting for what a watch shows.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Something is broken when it takes longer.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The objects of a kind, followed by a watch.
pub(crate) struct Watch<K: 'static> {
    events: BoxStream<'static, watcher::Result<watcher::Event<K>>>,
    objects: BTreeMap<String, K>,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Returns when the objects that there are have been listed: what happens from now on is
    /// seen at once.
    pub(crate) async fn start(api: Api<K>) -> anyhow::Result<Watch<K>> {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut watch = Watch {
            events: events.boxed(),
            objects: BTreeMap::new(),
        };
        let listed = async {
            while !watch.next().await? {}
            anyhow::Ok(())
        };
        tokio::time::timeout(TIMEOUT, listed).await??;
        Ok(watch)
    }

    /// Takes in the next event; whether it ends a list.
    async fn next(&mut self) -> anyhow::Result<bool> {
        let event = self.events.try_next().await?.context("the watch ended")?;
        match event {
            watcher::Event::Init => self.objects.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                self.objects.insert(object.name_any(), object);
            }
            watcher::Event::Delete(object) => {
                self.objects.remove(&object.name_any());
            }
            watcher::Event::InitDone => return Ok(true),
        }
        Ok(false)
    }

    /// Waits until `look` finds what it looks for in the objects by name.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        look: impl Fn(&BTreeMap<String, K>) -> Option<T>,
    ) -> anyhow::Result<T> {
        let found = async {
            loop {
                if let Some(found) = look(&self.objects) {
                    return anyhow::Ok(found);
                }
                self.next().await?;
            }
        };
        let found = tokio::time::timeout(TIMEOUT, found).await;
        found.with_context(|| format!("waited in vain: {what}"))?
    }
}
