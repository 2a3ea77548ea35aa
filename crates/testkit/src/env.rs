//! Where a scenario takes place: a namespace of its own with a manager, a
//! puppet kubelet and a mirror of what the API shows.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::PaddleJob;
use controllers::Clock;
use jiff::SignedDuration;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource, ResourceExt};

use crate::accounts;
use crate::builders::{JobBuilder, job};
use crate::job::Job;
use crate::manager::{Manager, Request, Requests};
use crate::puppet::Kubelet;
use crate::rules;
use crate::wait;
use crate::world::{Mirror, World};

/// Where a scenario takes place.
pub struct Env {
    /// Talks to the API, as its user.
    pub client: Client,
    /// The namespace, which nothing else uses.
    pub namespace: String,
    /// Plays the kubelets of the namespace.
    pub kubelet: Kubelet,
    /// The clock of the manager.
    pub clock: Clock,
    /// How managers reach the same API, each by connections of its own.
    config: kube::Config,
    /// The manager looks at all namespaces.
    watches_all: bool,
    mirror: Arc<Mirror>,
    manager: tokio::sync::Mutex<Option<Manager>>,
    requests: Requests,
}

impl Env {
    /// Makes a namespace and starts a manager for it, or for all of them.
    pub async fn start(
        client: &Client,
        config: &kube::Config,
        name: &str,
        watches_all: bool,
    ) -> Result<Env> {
        let env = Env::without_manager(client.clone(), config, name, watches_all).await?;
        env.start_manager().await?;
        Ok(env)
    }

    /// Another namespace with a puppet, for a manager that looks at all of them.
    pub async fn beside(&self) -> Result<Env> {
        ensure!(self.watches_all, "the manager looks at one namespace only");
        let name = format!("{}-too", self.namespace);
        let mut env = Env::without_manager(self.client.clone(), &self.config, &name, true).await?;
        env.clock = self.clock.clone();
        Ok(env)
    }

    async fn without_manager(
        client: Client,
        config: &kube::Config,
        name: &str,
        watches_all: bool,
    ) -> Result<Env> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let meta = |name: &str| ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata: meta(name),
            ..Namespace::default()
        };
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("create namespace {name}"))?;
        // A control plane makes it some time later, and takes no pod before.
        let account = ServiceAccount {
            metadata: meta("default"),
            ..ServiceAccount::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
        match accounts.create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.context("create the service account")?),
        }
        let mirror = Mirror::start(&client, name).await?;
        Ok(Env {
            kubelet: Kubelet::start(client.clone(), name, Arc::clone(&mirror)),
            client,
            namespace: name.to_owned(),
            clock: Clock::default(),
            config: config.clone(),
            watches_all,
            mirror,
            manager: tokio::sync::Mutex::default(),
            requests: Requests::default(),
        })
    }

    /// Starts the manager, unless it runs.
    pub async fn start_manager(&self) -> Result<()> {
        let mut manager = self.manager.lock().await;
        if manager.is_none() {
            let namespace = (!self.watches_all).then(|| self.namespace.clone());
            let started =
                Manager::start(&self.config, namespace, &self.clock, &self.requests).await?;
            *manager = Some(started);
        }
        Ok(())
    }

    /// Stops the manager, if it runs.
    pub async fn stop_manager(&self) -> Result<()> {
        match self.manager.lock().await.take() {
            Some(manager) => manager.stop().await,
            None => Ok(()),
        }
    }

    /// Talks to the API as a manager with this account does.
    pub fn client_of(&self, account: &str) -> Result<Client> {
        Ok(Client::try_from(accounts::config_of(
            account,
            &self.config,
        ))?)
    }

    /// The requests that managers of this scenario have sent.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.all()
    }

    /// The API of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a job, as a user does.
    pub async fn create(&self, builder: JobBuilder) -> Result<Job<'_>> {
        let job = builder.build();
        let made = self
            .api::<PaddleJob>()
            .create(&PostParams::default(), &job)
            .await
            .with_context(|| format!("create job {}", job.name_any()))?;
        Ok(self.job(&made))
    }

    /// A job that was created in some other way.
    pub fn job(&self, job: &PaddleJob) -> Job<'_> {
        Job::new(self, job)
    }

    /// Looks at the world as it is known now.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.mirror.world.borrow())
    }

    /// Waits until `look` finds what it looks for.
    pub async fn until<T>(&self, what: &str, look: impl FnMut(&World) -> Option<T>) -> Result<T> {
        wait::until(&self.mirror, what, look).await
    }

    /// Waits until a pod of this name is there and `judge` is content with it.
    pub async fn pod_until(
        &self,
        name: &str,
        what: &str,
        judge: impl Fn(&Pod) -> bool,
    ) -> Result<Arc<Pod>> {
        self.until(&format!("pod {name} {what}"), |world| {
            world.pods.get(name).filter(|pod| judge(pod)).cloned()
        })
        .await
    }

    /// Waits until there is no pod of this name.
    pub async fn pod_gone(&self, name: &str) -> Result<()> {
        self.until(&format!("pod {name} is gone"), |world| {
            world.pods.get(name).is_none().then_some(())
        })
        .await
    }

    /// Deletes a pod, as a user does.
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("delete pod {name}"))?;
        Ok(())
    }

    /// Waits until the manager has dealt with everything that was there before:
    /// another job goes all its way, so every watch has brought what came
    /// earlier. Then "it did not happen" means something.
    pub async fn let_pass(&self) -> Result<()> {
        let number = self.look(|world| world.jobs.all.len());
        let name = format!("marker-{number}");
        let pod = format!("{name}-worker-0");
        self.kubelet.hold(&pod, crate::Stage::Ready);
        let marker = self.create(job(&name).workers(1)).await?;
        marker.reaches(api::Phase::Running).await?;
        self.kubelet.exit(&pod, 0, "").await?;
        marker.reaches(api::Phase::Completed).await?;
        self.pod_gone(&pod).await?;
        marker.delete().await
    }

    /// Puts the manager's clock forward and makes it look at a job. Its timers
    /// are real ones and do not notice.
    pub async fn advance(&self, seconds: i64, job: &Job<'_>) -> Result<()> {
        self.clock.advance(SignedDuration::from_secs(seconds));
        job.touch().await
    }

    /// Rules that hold in every scenario.
    pub(crate) fn check(&self) -> Result<()> {
        let surprises = self.kubelet.surprises();
        ensure!(surprises.is_empty(), "the puppet met {surprises:#?}");
        let starts = self.kubelet.all_starts();
        self.look(|world| rules::check(world, &starts))
    }

    /// Everything that there is, for a person who wants to know what went wrong.
    pub fn describe(&self) -> String {
        self.look(|world| {
            let mut text = String::new();
            for job in world.jobs.now.values() {
                let mut job = PaddleJob::clone(job);
                job.metadata.managed_fields = None;
                let yaml = serde_saphyr::to_string(&job).unwrap_or_else(|e| e.to_string());
                let _ = writeln!(text, "--- job\n{yaml}");
                let phases = world.phases(&job.name_any());
                let _ = writeln!(text, "phases: {phases:?}");
            }
            for pod in world.pods.now.values() {
                let status = pod.status.clone().unwrap_or_default();
                let deleted = pod.metadata.deletion_timestamp.is_some();
                let _ = writeln!(
                    text,
                    "--- pod {} uid {} version {:?} phase {:?} reason {:?} ip {:?} deleted {deleted}\n    annotations {:?}\n    containers {:?}",
                    pod.name_any(),
                    pod.uid().unwrap_or_default(),
                    pod.resource_version(),
                    status.phase,
                    status.reason,
                    status.pod_ip,
                    pod.annotations(),
                    states(pod),
                );
            }
            let ours = |map: &&Arc<ConfigMap>| world.jobs.get(&map.name_any()).is_some();
            for map in world.config_maps.now.values().filter(ours) {
                let _ = writeln!(text, "--- config map {} {:?}", map.name_any(), map.data);
            }
            let services: Vec<&String> = world.services.now.keys().collect();
            let _ = writeln!(text, "--- services {services:?}");
            for event in world.events.now.values() {
                let about = event.involved_object.name.as_deref().unwrap_or_default();
                let reason = event.reason.as_deref().unwrap_or_default();
                let message = event.message.as_deref().unwrap_or_default();
                let _ = writeln!(text, "--- event {about} {reason}: {message}");
            }
            text
        })
    }

    /// Removes all that the scenario left. It does not wait for the namespace.
    pub async fn stop(self) -> Result<()> {
        let stopped = self.stop_manager().await;
        let (all, now) = (ListParams::default(), DeleteParams::default());
        // Jobs first: nothing comes back. Then pods, whose kubelet is about to
        // leave, without waiting for it.
        self.api::<PaddleJob>()
            .delete_collection(&now, &all)
            .await?;
        self.api::<Pod>()
            .delete_collection(&DeleteParams::default().grace_period(0), &all)
            .await?;
        self.kubelet.remove_nodes().await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &now).await?;
        stopped
    }
}

fn states(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    let inits = status.init_container_statuses.into_iter().flatten();
    inits
        .chain(status.container_statuses.into_iter().flatten())
        .map(|container| {
            let state = serde_json::to_string(&container.state).unwrap_or_default();
            format!("{} ready {} {state}", container.name, container.ready)
        })
        .collect()
}
