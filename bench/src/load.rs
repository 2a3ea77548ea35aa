//! Creating many pods or jobs at once and waiting until they run.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use api::{PaddleJob, Phase};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Two parameter servers and two workers.
pub(crate) const PODS_PER_JOB: usize = 4;
/// How many requests the client has under way.
const PARALLEL: usize = 16;
/// Something is broken when it takes longer.
const TIMEOUT: Duration = Duration::from_secs(900);

/// A namespace with what was created in it.
pub(crate) struct Load {
    client: Client,
    namespace: String,
}

/// How long it took from the first request on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Until every pod was Running.
    pub(crate) pods: Duration,
    /// Until every status said Running.
    pub(crate) status: Duration,
}

impl Load {
    pub(crate) async fn new(client: &Client, name: &str) -> anyhow::Result<Load> {
        let load = Load {
            client: client.clone(),
            namespace: name.to_owned(),
        };
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .context("is the cluster fresh?")?;
        Ok(load)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates bare pods, by turns of these kinds; returns how long it took until
    /// all of them ran.
    pub(crate) async fn create_pods(
        &self,
        count: usize,
        kinds: &[Pod],
    ) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let pods = kinds.iter().cycle().take(count).map(|kind| json!(kind));
        let running = self.wait_for::<Pod>(count, is_running);
        tokio::try_join!(running, self.create_all::<Pod>(pods))?;
        Ok(start.elapsed())
    }

    /// The pods that the operator makes of a job, to be created without it.
    pub(crate) async fn pods_of_a_job(&self) -> anyhow::Result<Vec<Pod>> {
        self.create_jobs(1).await?;
        let pods = self.api::<Pod>().list(&ListParams::default()).await?;
        let bare = pods.items.into_iter().map(|pod| Pod {
            metadata: ObjectMeta {
                generate_name: Some("bare-".to_owned()),
                labels: pod.metadata.labels,
                annotations: pod.metadata.annotations,
                ..ObjectMeta::default()
            },
            spec: pod.spec.map(|spec| PodSpec {
                node_name: None,
                ..spec
            }),
            status: None,
        });
        Ok(bare.collect())
    }

    /// Creates jobs of 2 parameter servers and 2 workers.
    pub(crate) async fn create_jobs(&self, count: usize) -> anyhow::Result<Took> {
        let role = json!({"replicas": 2, "template": template()});
        let jobs =
            (0..count).map(|i| job(&format!("job-{i}"), json!({"ps": role, "worker": role})));
        self.create_and_wait(jobs, count, count * PODS_PER_JOB)
            .await
    }

    /// Creates one job of so many workers.
    pub(crate) async fn create_collective(&self, name: &str, workers: usize) -> anyhow::Result<()> {
        let spec = json!({"worker": {"replicas": workers, "template": template()}});
        let watched = name.to_owned();
        let runs = move |job: &PaddleJob| job.name_any() == watched && is_job_running(job);
        let created = self.create_all::<PaddleJob>(std::iter::once(job(name, spec)));
        tokio::try_join!(self.wait_for::<PaddleJob>(1, runs), created)?;
        Ok(())
    }

    async fn create_and_wait(
        &self,
        jobs: impl Iterator<Item = Value>,
        count: usize,
        pods: usize,
    ) -> anyhow::Result<Took> {
        let start = Instant::now();
        let timed = |wait: Duration| async move { anyhow::Ok(wait) };
        let pods = async {
            self.wait_for::<Pod>(pods, |pod: &Pod| {
                is_running(pod) && pod.name_any().starts_with("job-")
            })
            .await?;
            timed(start.elapsed()).await
        };
        let status = async {
            let runs = |job: &PaddleJob| is_job_running(job) && job.name_any().starts_with("job-");
            self.wait_for::<PaddleJob>(count, runs).await?;
            timed(start.elapsed()).await
        };
        let (pods, status, ()) =
            tokio::try_join!(pods, status, self.create_all::<PaddleJob>(jobs))?;
        Ok(Took { pods, status })
    }

    async fn create_all<K>(&self, objects: impl Iterator<Item = Value>) -> anyhow::Result<()>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug,
    {
        let api = &self.api::<K>();
        let params = &PostParams::default();
        let tasks: Vec<_> = objects.collect();
        stream::iter(tasks)
            .map(|object| async move {
                let object: K = serde_json::from_value(object)?;
                api.create(params, &object).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
    }

    /// Waits until so many objects are as wanted.
    async fn wait_for<K>(&self, count: usize, wanted: impl Fn(&K) -> bool) -> anyhow::Result<()>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let mut found = HashSet::new();
        let objects = watcher(self.api::<K>(), watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut objects = std::pin::pin!(objects);
        let all = async {
            while found.len() < count {
                let object = objects.try_next().await?.context("the watch ended")?;
                if wanted(&object) {
                    found.insert(object.name_any());
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(TIMEOUT, all)
            .await
            .context("it takes too long")?
    }

    /// Deletes the namespace and waits until it is gone.
    pub(crate) async fn delete(self) -> anyhow::Result<()> {
        let jobs: Api<PaddleJob> = self.api();
        jobs.delete_collection(&DeleteParams::background(), &Default::default())
            .await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let uid = namespaces
            .get(&self.namespace)
            .await?
            .uid()
            .unwrap_or_default();
        namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        let gone = kube::runtime::wait::await_condition(
            namespaces,
            &self.namespace,
            kube::runtime::wait::conditions::is_deleted(&uid),
        );
        tokio::time::timeout(TIMEOUT, gone)
            .await
            .context("the namespace is not deleted")??;
        Ok(())
    }
}

fn job(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A pod of the template, with nothing added.
pub(crate) fn empty_pod() -> anyhow::Result<Pod> {
    let mut pod: Pod = serde_json::from_value(template())?;
    pod.metadata.generate_name = Some("bare-".to_owned());
    Ok(pod)
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "paddle", "image": "paddle"}]}})
}

fn is_running(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Running")
}

fn is_job_running(job: &PaddleJob) -> bool {
    job.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}
