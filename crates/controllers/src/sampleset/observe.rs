//! Observing: what is seen of a set's children, of its servers, and of who uses
//! it. It reads and never writes.

use std::collections::BTreeSet;

use api::{PaddleJob, SampleJob, SampleSet, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::storage::v1::CSIDriver;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use plan::sampleset::{self, Child, Kind, Seen, ServiceView, StatefulSetView, VolumeView, volume};
use plan::{names, paddlejob, samplejob};
use serde::de::DeserializeOwned;

use super::context::Context;
use super::target::Target;
use crate::error::code;
use crate::stores::StoredSampleJob;
use crate::{Error, pods, runtime};

/// What the watches show, and what has to be asked for.
pub(super) async fn observe(
    context: &Context,
    set: &SampleSet,
    now: Timestamp,
) -> Result<Seen, Error> {
    let on = Target::new(context, set);
    let is_going = set.metadata.deletion_timestamp.is_some();
    // No watch tells when somebody else's object goes.
    for kind in context.all_foreign(on.uid) {
        on.uid_of(kind).await?;
    }
    let mut seen = on.children();
    if is_going && on.everything_goes().await? {
        // Nothing is waited for, and what else could be asked may be gone already.
        seen.everything_goes = true;
        return Ok(seen);
    }
    on.pods(&mut seen, now).await?;
    on.servers(&mut seen).await?;
    let status = set.status.as_ref();
    let is_made = status.is_some_and(|status| status.volume.is_some());
    seen.has_csi_driver = is_made || on.has_csi_driver().await?;
    if is_going {
        seen.jobs = on.users().await?;
    }
    seen.owner_is_gone = on.owner_is_gone().await?;
    let needed = sampleset::secrets_needed(set, &seen, &context.settings, now);
    let client = &context.common.client;
    (seen.volume_secret, seen.source_secret) =
        runtime::secrets(client, on.namespace, needed).await?;
    Ok(seen)
}

fn volume_view(metadata: &ObjectMeta, phase: Option<&str>) -> VolumeView {
    VolumeView {
        is_bound: phase == Some("Bound"),
        is_released: phase == Some("Released"),
        is_going: metadata.deletion_timestamp.is_some(),
    }
}

impl Target<'_> {
    fn children(&self) -> Seen {
        let stores = &self.context.stores;
        let applied = |meta: &ObjectMeta| annotation(meta, labels::APPLIED);
        let is_going = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let node_label = names::node_label(self.namespace, self.name);
        let nodes = stores.nodes.state();
        Seen {
            volume: self.child(&stores.volumes, Kind::PersistentVolume, |volume| {
                let status = volume.status.as_ref();
                volume_view(
                    &volume.metadata,
                    status.and_then(|status| status.phase.as_deref()),
                )
            }),
            claim: self.child(&stores.claims, Kind::PersistentVolumeClaim, |claim| {
                let status = claim.status.as_ref();
                volume_view(
                    &claim.metadata,
                    status.and_then(|status| status.phase.as_deref()),
                )
            }),
            service: self.child(&stores.services, Kind::Service, |service| ServiceView {
                applied: applied(&service.metadata),
                is_going: is_going(&service.metadata),
            }),
            stateful_set: self.child(&stores.stateful_sets, Kind::StatefulSet, |servers| {
                let spec = servers.spec.as_ref();
                StatefulSetView {
                    applied: applied(&servers.metadata),
                    local_paths: annotation(&servers.metadata, labels::LOCAL_PATHS),
                    replicas: spec.and_then(|spec| spec.replicas).unwrap_or(1),
                    is_going: is_going(&servers.metadata),
                }
            }),
            labelled_nodes: nodes
                .iter()
                .filter_map(|node| {
                    let value = node.labels().get(&node_label)?.clone();
                    Some((node.name_any(), value))
                })
                .collect(),
            ..Seen::default()
        }
    }

    /// The child of a kind, by its name.
    fn child<K, T>(&self, store: &Store<K>, kind: Kind, view: impl Fn(&K) -> T) -> Child<T>
    where
        K: Resource<DynamicType = ()> + Clone,
    {
        let mut reference = ObjectRef::new(&self.name_of(kind));
        if kind != Kind::PersistentVolume {
            reference = reference.within(self.namespace);
        }
        match store.get(&reference) {
            Some(child) if self.owns(child.meta()) => Child::Ours(view(&child)),
            Some(_) => Child::Foreign,
            None if self.context.is_foreign(self.uid, kind) => Child::Foreign,
            None => Child::Missing,
        }
    }

    /// The runtime servers' pods, and which of their nodes are lost.
    async fn pods(&self, seen: &mut Seen, now: Timestamp) -> Result<(), Error> {
        let all = self.context.stores.pods.state();
        seen.pods = pods::of_set(all.iter().map(|pod| &**pod), self.namespace, self.name);
        let client = &self.context.common.client;
        pods::mark_lost(client, &mut seen.pods, now).await?;
        for pod in &mut seen.pods {
            if pod.is_stuck() && pod.trouble.is_none() && pod.ip.is_none() {
                pod.trouble = pods::complaint(client, self.namespace, pod).await?;
            }
        }
        let is_going = self.set.metadata.deletion_timestamp.is_some();
        if !is_going && seen.lacks_pods() {
            seen.pod_refusal = self.pod_refusal().await?;
        }
        Ok(())
    }

    /// Why a pod is missing, as far as the StatefulSet tells.
    async fn pod_refusal(&self) -> Result<Option<String>, Error> {
        let name = self.name_of(Kind::StatefulSet);
        let stored = &self.context.stores.stateful_sets;
        let stored = stored.get(&ObjectRef::new(&name).within(self.namespace));
        let Some(uid) = stored.and_then(|servers| servers.uid()) else {
            return Ok(None);
        };
        pods::refusal(&self.context.common.client, self.namespace, &uid).await
    }

    /// What the servers say, if it is known how to reach them.
    async fn servers(&self, seen: &mut Seen) -> Result<(), Error> {
        let (servers, meta) = (&self.context.servers, &self.set.metadata);
        let asked = sampleset::asks(self.set);
        let tell = self.context.concerned.tell(meta);
        let answers = servers.ask(self.uid, meta, &seen.pods, &asked, &tell);
        match answers.await? {
            Child::Ours(answers) => {
                seen.server_secret = Child::Ours(());
                seen.answers = answers;
            }
            Child::Foreign => seen.server_secret = Child::Foreign,
            Child::Missing => {}
        }
        Ok(())
    }

    /// Whoever may not ask is not told that it is missing.
    async fn has_csi_driver(&self) -> Result<bool, Error> {
        let drivers: Api<CSIDriver> = Api::all(self.context.common.client.clone());
        match drivers.get_metadata_opt(volume::CSI_DRIVER).await {
            Err(error) if code(&error) == Some(403) => Ok(true),
            found => Ok(found.map_err(Error::Observe)?.is_some()),
        }
    }

    /// Whether the namespace of the set, or the kind, is being deleted.
    async fn everything_goes(&self) -> Result<bool, Error> {
        let client = &self.context.common.client;
        let namespace = goes::<Namespace>(Api::all(client.clone()), self.namespace);
        let kind = "samplesets.batch.paddlepaddle.org";
        let kind = goes::<CustomResourceDefinition>(Api::all(client.clone()), kind);
        Ok(namespace.await? || kind.await?)
    }

    /// The PaddleJobs that work on the data of the set.
    async fn users(&self) -> Result<BTreeSet<String>, Error> {
        let jobs: Api<DeserializeGuard<PaddleJob>> = self.context.common.api(self.namespace);
        let jobs = jobs.list(&ListParams::default()).await;
        let jobs = jobs.map_err(Error::Observe)?.items.into_iter();
        let jobs = jobs.filter_map(|job| job.0.ok());
        let using = jobs.filter(|job| paddlejob::uses_data(job, self.name));
        Ok(using.filter_map(|job| job.metadata.name).collect())
    }

    /// Whether who started the operation that is under way is gone, or no longer sees to
    /// it: the watch may not show him yet, so the API server is asked.
    async fn owner_is_gone(&self) -> Result<bool, Error> {
        let status = self.set.status.as_ref();
        let Some(lock) = status.and_then(|status| status.operation.as_ref()) else {
            return Ok(false);
        };
        let owns = |job: &StoredSampleJob| job.meta().uid.as_ref() == Some(&lock.owner);
        if lock.owner == self.uid {
            return Ok(false);
        }
        let known = self.context.stores.jobs.state();
        if let Some(owner) = known.iter().find(|job| owns(job)) {
            let sees_to = |job: &SampleJob| samplejob::sees_to(job, self.set);
            return Ok(owner.0.as_ref().is_ok_and(|job| !sees_to(job)));
        }
        let jobs: Api<StoredSampleJob> = self.context.common.api(self.namespace);
        let jobs = jobs.list_metadata(&ListParams::default()).await;
        let mut jobs = jobs.map_err(Error::Observe)?.items.into_iter();
        Ok(!jobs.any(|job| job.metadata.uid.as_ref() == Some(&lock.owner)))
    }
}

fn annotation(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(key).cloned()
}

/// Whether something is gone or being deleted.
async fn goes<K>(api: Api<K>, name: &str) -> Result<bool, Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.get_metadata_opt(name).await {
        Err(error) if code(&error) == Some(403) => Ok(false),
        found => {
            let found = found.map_err(Error::Observe)?;
            Ok(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()))
        }
    }
}
