//! What users do in the namespace of the operator, and the processes of its pods.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;

use anyhow::Context;
use api::PaddleJob;
use bench::usage;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::watch::Watch;

/// Where the operator is, and the jobs that it looks after.
pub(crate) const NAME: &str = "paddle-system";

/// The namespace of the operator.
pub(crate) struct Namespace {
    pub(crate) client: Client,
}

impl Namespace {
    pub(crate) fn new(client: &Client) -> Namespace {
        Namespace {
            client: client.clone(),
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), NAME)
    }

    pub(crate) async fn watch<K>(&self) -> anyhow::Result<Watch<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned + Send + 'static,
    {
        Watch::start(self.api()).await
    }

    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let object: K = serde_json::from_value(object)?;
        self.api().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Deletes a job and waits until its pods are gone.
    pub(crate) async fn delete_job(&self, name: &str) -> anyhow::Result<()> {
        let jobs: Api<PaddleJob> = self.api();
        jobs.delete(name, &DeleteParams::background()).await?;
        self.are_gone(name).await
    }

    /// Waits until no pod has a name that begins so.
    pub(crate) async fn are_gone(&self, prefix: &str) -> anyhow::Result<()> {
        let mut pods = self.watch::<Pod>().await?;
        let gone =
            |pods: &BTreeMap<String, Pod>| named(pods, prefix).next().is_none().then_some(());
        pods.until("the pods are gone", gone).await
    }
}

/// Those whose names begin so.
pub(crate) fn named<'a>(
    pods: &'a BTreeMap<String, Pod>,
    prefix: &str,
) -> impl Iterator<Item = &'a Pod> {
    let is_named = move |pod: &&Pod| pod.name_any().starts_with(prefix);
    pods.values().filter(is_named)
}

/// The status of a pod's only container.
fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let status = pod.status.as_ref()?;
    status.container_statuses.as_ref()?.first()
}

/// Whether its container runs.
pub(crate) fn is_running(pod: &Pod) -> bool {
    let state = container(pod).and_then(|container| container.state.as_ref());
    state.is_some_and(|state| state.running.is_some())
}

/// The first process of a pod's container: it is on this machine, as its node is.
pub(crate) fn process_of(pod: &Pod) -> anyhow::Result<u32> {
    let id = container(pod).and_then(|container| container.container_id.as_deref());
    let id = id
        .and_then(|id| id.split_once("://"))
        .context("no container")?
        .1;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // Processes may end meanwhile.
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if group.contains(id)
            && let Ok(age) = usage::age(pid)
        {
            found.push((age, pid));
        }
    }
    let oldest = found.into_iter().max();
    let name = pod.name_any();
    Ok(oldest.with_context(|| format!("{name} has no process"))?.1)
}
