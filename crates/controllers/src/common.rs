//! What every controller has, and the writes that every kind gets: of its status,
//! its finalizers, and events about it.

use std::fmt::{Debug, Display};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource};
use plan::{Event, Urgency};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::drive::Options;
use crate::events::Reporter;
use crate::memory::{Memories, Pace};
use crate::{Clock, Error, Metrics, identity, status, writes};

/// What every controller has.
pub(crate) struct Common {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) memories: Memories,
    /// Its name in metrics and events.
    pub(crate) name: &'static str,
}

/// What a pass has to tell of an object.
pub(crate) struct Report<'a, Status> {
    pub(crate) urgency: Urgency,
    pub(crate) status: &'a Status,
    /// What to tell once the status has landed.
    pub(crate) events: &'a [Event],
}

impl Common {
    /// That of a controller which has just started.
    pub(crate) fn new<Settings>(
        name: &'static str,
        client: Client,
        options: &Options<Settings>,
        pace: Pace,
    ) -> Common {
        Common {
            client,
            clock: options.clock.clone(),
            metrics: options.metrics.clone(),
            memories: Memories::new(pace),
            name,
        }
    }

    /// The API of a kind in a namespace.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Writes the status, if it changed, then tells the events; returns how long that
    /// has to wait, if it does.
    pub(crate) async fn publish<K, Phase>(
        &self,
        object: &K,
        report: Report<'_, K::Status>,
        phase: impl Fn(&K::Status) -> Option<Phase>,
        now: Timestamp,
    ) -> Result<Option<Duration>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + HasStatus + 'static,
        K::Status: Serialize,
        Phase: Display + PartialEq,
    {
        let meta = object.meta();
        let wait = self.memories.wait(identity(&meta.uid), report.urgency);
        if wait.is_some() {
            return Ok(wait);
        }
        if report.urgency != Urgency::Never {
            self.write_status::<K>(meta, report.status).await?;
            let before = object.status().and_then(&phase);
            if let Some(phase) = phase(report.status).filter(|now| Some(now) != before.as_ref()) {
                let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
                let kind = K::kind(&()).to_lowercase();
                tracing::info!("{kind} {namespace}/{name} is {phase}");
            }
        }
        self.tell::<K>(meta, report.events, now).await;
        Ok(None)
    }

    /// Replaces the status.
    pub(crate) async fn write_status<K>(
        &self,
        meta: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + 'static,
    {
        let written = status::replace::<K>(&self.client, meta, status).await?;
        if let Some(written) = written {
            self.note_written(meta, &written);
        }
        Ok(())
    }

    /// Tells of all that a plan found worth telling.
    pub(crate) async fn tell<K>(&self, meta: &ObjectMeta, events: &[Event], now: Timestamp)
    where
        K: Resource<DynamicType = ()>,
    {
        Reporter::new::<K>(&self.client, self.name, meta)
            .tell_all(events, now)
            .await;
    }

    /// Replaces the finalizers, provided that nobody else wrote meanwhile.
    pub(crate) async fn set_finalizers<K>(
        &self,
        meta: &ObjectMeta,
        finalizers: &[String],
    ) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let patch = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let api = self.api::<K>(identity(&meta.namespace));
        let (kind, name) = (K::kind(&()), identity(&meta.name));
        if let Some(written) = writes::patch(&api, "patch", kind, name, &patch).await? {
            self.note_written(meta, &written);
        }
        Ok(())
    }

    /// Remembers what we made of an object, until the watch shows it.
    fn note_written(&self, old: &ObjectMeta, new: &ObjectMeta) {
        let (uid, version) = (identity(&old.uid), identity(&old.resource_version));
        self.memories
            .note_written(uid, version, new.resource_version.as_deref());
    }
}
