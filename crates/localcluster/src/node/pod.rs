//! The life of one pod: looks, decides, does the next step, and tells the API.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::container::Parts;
use super::environment::Sources;
use super::folder::Folder;
use super::lifecycle::{self, ContainerSeen, Seen, State, Step, Trouble};
use super::volumes::{Source, Volumes};
use super::watching::Watching;
use super::{Machine, register, report, tail};
use crate::events::Weight;
use crate::process::{Process, asynchronous};
use crate::shim::Started;

/// How soon something that failed is tried again, at first and at last.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));

/// The keeper of one pod.
pub(super) struct Keeper {
    machine: Arc<Machine>,
    /// The pod as the API has it; none: it is gone.
    news: watch::Receiver<Option<Arc<Pod>>>,
    /// The node goes down.
    stopping: watch::Receiver<bool>,
    folder: Folder,
    /// What is known of the pod: from the API, or from the answer to our last report.
    pod: Arc<Pod>,
    volumes: BTreeMap<String, Source>,
    /// What failed, by container; the pod itself has no name.
    failed: BTreeMap<String, Failure>,
    /// Why it was ended, if it was; kept here too, in case that the disk is full.
    doom: Option<Trouble>,
    /// When containers that shall end are killed.
    kill_at: Option<Timestamp>,
    watching: BTreeMap<String, Watching>,
    /// A probe has changed its mind.
    changed: Arc<Notify>,
}

struct Failure {
    trouble: Trouble,
    again_at: Timestamp,
    pause: Duration,
    /// It is tried again now.
    is_due: bool,
}

impl Keeper {
    pub(super) fn new(
        machine: Arc<Machine>,
        pod: Arc<Pod>,
        news: watch::Receiver<Option<Arc<Pod>>>,
        stopping: watch::Receiver<bool>,
    ) -> Keeper {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        Keeper {
            folder: Folder::of(&machine.dir, &uid),
            machine,
            news,
            stopping,
            pod,
            volumes: BTreeMap::new(),
            failed: BTreeMap::new(),
            doom: None,
            kill_at: None,
            watching: BTreeMap::new(),
            changed: Arc::default(),
        }
    }

    /// Until the pod is gone, or the node.
    pub(super) async fn keep(mut self) {
        if let Err(error) = self.folder.adopt(&self.pod) {
            tracing::warn!(pod = %self.pod.name_any(), %error, "the pod's folder");
        }
        loop {
            let news = self.news.borrow_and_update().clone();
            match news {
                Some(pod) => self.learn(pod),
                // Somebody took it away without waiting for us.
                None => return self.destroy().await,
            }
            self.watch_containers(&self.look());
            let seen = self.look();
            if let Err(error) = self.tell(&seen).await {
                tracing::debug!(pod = %self.pod.name_any(), %error, "status");
            }
            let step = lifecycle::next(&self.pod, &self.without_due(&seen), Timestamp::now());
            if !matches!(step, Step::Stop { .. }) {
                self.kill_at = None;
                if self.is_over(&seen) {
                    tail::end(&self.folder);
                }
            }
            match step {
                Step::Wait(None) if *self.stopping.borrow() && self.is_over(&seen) => return,
                Step::Wait(until) => self.wait(until, &seen).await,
                Step::Prepare => {
                    let done = self.prepare().await;
                    self.note("", done).await;
                }
                Step::Start(name) => {
                    let done = self.start(&name).await;
                    self.note(&name, done).await;
                }
                Step::Stop { until, doom } => self.stop(until, doom, &seen).await,
                Step::Finish => self.finish(),
                Step::Remove => {
                    self.destroy().await;
                    return self.confirm().await;
                }
            }
        }
    }

    fn is_over(&self, seen: &Seen) -> bool {
        let spec = self.pod.spec.as_ref();
        spec.is_none_or(|spec| lifecycle::phase(&self.pod, spec, seen).is_final())
    }

    /// The newer of two states of the pod.
    fn learn(&mut self, pod: Arc<Pod>) {
        let version = |pod: &Pod| {
            let version = pod.metadata.resource_version.as_deref();
            version
                .and_then(|version| version.parse::<u64>().ok())
                .unwrap_or(0)
        };
        if version(&pod) > version(&self.pod) {
            self.pod = pod;
            // It may be what something waited for.
            for failure in self.failed.values_mut() {
                failure.is_due = true;
            }
        }
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        let spec = self.pod.spec.iter();
        spec.flat_map(|spec| {
            spec.init_containers
                .iter()
                .flatten()
                .chain(&spec.containers)
        })
    }

    fn look(&self) -> Seen {
        let doom = self.doom.clone().or_else(|| self.folder.doom());
        let containers = self.containers().map(|container| {
            let mut seen = self.folder.look(container);
            seen.trouble = self
                .failed
                .get(&container.name)
                .map(|failure| failure.trouble.clone());
            if let Some(watching) = self.watching.get(&container.name) {
                seen.is_ready = watching.verdict.is_ready.load(Ordering::Relaxed);
                seen.has_started = watching.verdict.has_started.load(Ordering::Relaxed);
            }
            (container.name.clone(), seen)
        });
        Seen {
            has_sandbox: self.folder.sandbox().is_some(),
            address: self.folder.address(),
            trouble: self.failed.get("").map(|failure| failure.trouble.clone()),
            containers: containers.collect(),
            is_node_stopping: *self.stopping.borrow(),
            doom,
        }
    }

    /// The containers that were seen to run.
    fn running(&self, seen: &Seen) -> impl Iterator<Item = (String, Started)> {
        let runs = |(_, seen): &(&String, &ContainerSeen)| matches!(seen.state, State::Running(_));
        let names = seen.containers.iter().filter(runs);
        names.filter_map(|(name, _)| Some((name.clone(), self.folder.started(name)?)))
    }

    /// The end of anything that was seen to live: one that has ended since is no news
    /// otherwise.
    fn ends(&self, seen: &Seen) -> BoxFuture<'static, ()> {
        let shims = self.running(seen).map(|(_, started)| started.shim);
        let mut ends: Vec<_> = shims.map(|shim| exit_of(shim).boxed()).collect();
        if seen.has_sandbox {
            ends.push(match self.folder.sandbox() {
                Some(sandbox) => exit_of(sandbox).boxed(),
                None => std::future::ready(()).boxed(),
            });
        }
        match ends.is_empty() {
            true => std::future::pending().boxed(),
            false => select_all(ends).map(drop).boxed(),
        }
    }

    /// What was seen, but for what is tried again now.
    fn without_due(&self, seen: &Seen) -> Seen {
        let mut seen = seen.clone();
        for (name, failure) in self.failed.iter().filter(|(_, failure)| failure.is_due) {
            match seen.containers.get_mut(name) {
                Some(container) => container.trouble = None,
                None => seen.trouble = None,
            }
            tracing::trace!(name, reason = failure.trouble.reason, "again");
        }
        seen
    }

    /// Probes each container that runs, from its start to its end.
    fn watch_containers(&mut self, seen: &Seen) {
        let runs = |name: &String| match seen.containers.get(name) {
            Some(ContainerSeen {
                state: State::Running(_),
                restarts,
                ..
            }) => Some(*restarts),
            _ => None,
        };
        self.watching
            .retain(|name, watching| runs(name) == Some(watching.attempt));
        let new: Vec<Container> = self
            .containers()
            .filter(|container| !self.watching.contains_key(&container.name))
            .filter(|container| runs(&container.name).is_some())
            .cloned()
            .collect();
        for container in new {
            let name = container.name.clone();
            let Some(started) = self.folder.started(&name) else {
                continue;
            };
            let watching = Watching::start(
                Arc::clone(&self.machine),
                Arc::clone(&self.pod),
                container,
                self.folder.clone(),
                started,
                Arc::clone(&self.changed),
            );
            self.watching.insert(name, watching);
        }
    }

    /// Tells the API, if there is something new.
    async fn tell(&mut self, seen: &Seen) -> kube::Result<()> {
        let mut status = report::status(&self.pod, seen, &self.machine.address(), Timestamp::now());
        if let Some(trouble) = &seen.trouble {
            explain(&mut status, trouble);
        }
        if Some(&status) == self.pod.status.as_ref() {
            return Ok(());
        }
        let meta = &self.pod.metadata;
        let patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        let pods: Api<Pod> = Api::namespaced(
            self.machine.client.clone(),
            meta.namespace.as_deref().unwrap_or_default(),
        );
        let told = pods
            .patch_status(
                &self.pod.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        self.pod = Arc::new(told);
        Ok(())
    }

    /// Waits until a time, or until something happens.
    async fn wait(&mut self, until: Option<Timestamp>, seen: &Seen) {
        let again = self.failed.values().filter(|failure| !failure.is_due);
        let until = again.map(|failure| failure.again_at).chain(until).min();
        let ends = self.ends(seen);
        let was_stopping = seen.is_node_stopping;
        let stopping = async {
            match was_stopping {
                true => std::future::pending().await,
                false => drop(self.stopping.wait_for(|stop| *stop).await),
            }
        };
        tokio::select! {
            _ = self.news.changed() => {}
            () = ends => {}
            () = sleep_until(until) => {}
            () = stopping => {}
            () = self.changed.notified() => {}
        }
        let now = Timestamp::now();
        for failure in self.failed.values_mut() {
            failure.is_due |= failure.again_at <= now;
        }
    }

    /// Remembers what failed, to try it again, and says so once.
    async fn note(&mut self, name: &str, done: Result<(), Trouble>) {
        let Err(trouble) = done else {
            self.failed.remove(name);
            return;
        };
        let before = self.failed.get(name);
        if before.is_none_or(|before| before.trouble != trouble) {
            let reason = match trouble.reason.as_str() {
                "ContainerCreating" => "FailedMount",
                "ErrImagePull" | "CreateContainerConfigError" | "CreateContainerError" => "Failed",
                reason => reason,
            };
            self.machine
                .event(&self.pod, Weight::Warning, reason, &trouble.message)
                .await;
        }
        let pause = before.map_or(RETRY.0, |before| (before.pause * 2).min(RETRY.1));
        let failure = Failure {
            trouble,
            pause,
            again_at: Timestamp::now() + pause,
            is_due: false,
        };
        self.failed.insert(name.to_owned(), failure);
    }

    /// The volumes and the sandbox.
    async fn prepare(&mut self) -> Result<(), Trouble> {
        self.prepare_volumes().await?;
        let failed = |error: io::Error| {
            let message = format!("Failed to create pod sandbox: {error}");
            Trouble::new("FailedCreatePodSandBox", message)
        };
        let sandbox = self.machine.make_sandbox(&self.folder, &self.pod);
        sandbox.await.map_err(failed)?;
        self.machine.names.refresh();
        Ok(())
    }

    async fn prepare_volumes(&mut self) -> Result<(), Trouble> {
        let volumes = Volumes {
            client: &self.machine.client,
            pod: &self.pod,
            dir: &self.folder.volumes(),
            hidden: &self.machine.dir,
        };
        self.volumes = volumes.prepare().await?;
        Ok(())
    }

    async fn start(&mut self, name: &str) -> Result<(), Trouble> {
        let Some(container) = self
            .containers()
            .find(|container| container.name == name)
            .cloned()
        else {
            return Ok(());
        };
        let (Some(sandbox), Some(spec)) = (self.folder.sandbox(), self.pod.spec.clone()) else {
            return Ok(());
        };
        let has_command = container
            .command
            .as_ref()
            .is_some_and(|command| !command.is_empty());
        let image_name = container.image.as_deref().unwrap_or_default();
        let image = self.machine.images.find(image_name, has_command);
        let image = image.map_err(|why| Trouble::new("ErrImagePull", why.to_string()))?;
        // After a restart of this program, and when what they hold has changed.
        self.prepare_volumes().await?;
        let sources = Sources {
            client: &self.machine.client,
            pod: &self.pod,
            container: &container,
        };
        let hostname = self.machine.hostname(&self.pod);
        let failed = |error: io::Error| Trouble::new("CreateContainerError", error.to_string());
        let own_dir = self.folder.new_attempt(&container.name).map_err(failed)?;
        let parts = Parts {
            spec: &spec,
            sandbox,
            variables: sources.variables(&image.environment, &hostname).await?,
            image: &image,
            volumes: &self.volumes,
            pod_dir: self.folder.path(),
            own_dir: &own_dir,
            hidden: &self.machine.dir,
        };
        let run = parts.run(&container)?;
        let started = self.folder.start(&own_dir, &run).await;
        started.map_err(failed)?;
        if asks_for_gpus(&container) && register::gpus() == 0 {
            let message = format!("this machine has no GPU: container {name} runs on CPU");
            self.machine
                .event(&self.pod, Weight::Warning, "RunsOnCPU", &message)
                .await;
        }
        let message = format!("Started container {name}");
        self.machine
            .event(&self.pod, Weight::Normal, "Started", &message)
            .await;
        Ok(())
    }

    /// Ends what runs, politely until the time is up.
    async fn stop(&mut self, until: Timestamp, doom: Option<Trouble>, seen: &Seen) {
        if let Some(doom) = doom.filter(|_| seen.doom.is_none()) {
            if let Err(error) = self.folder.write_doom(&doom) {
                tracing::warn!(pod = %self.pod.name_any(), %error, "doom");
            }
            self.doom = Some(doom);
        }
        let is_first = self.kill_at.is_none();
        let kill_at = self.kill_at.map_or(until, |at| at.min(until));
        self.kill_at = Some(kill_at);
        let running: Vec<_> = self.running(seen).collect();
        if running.is_empty() {
            return;
        }
        let is_time = Timestamp::now() >= kill_at;
        for (name, started) in &running {
            if is_first {
                let message = format!("Stopping container {name}");
                self.machine
                    .event(&self.pod, Weight::Normal, "Killing", &message)
                    .await;
            }
            match is_time {
                true => started.first.signal(Signal::KILL),
                false if is_first => started.first.signal(Signal::TERM),
                false => {}
            }
        }
        // Once killed, only the end is waited for.
        self.wait((!is_time).then_some(kill_at), seen).await;
    }

    /// The sandbox goes; logs and volumes stay until the pod does.
    fn finish(&mut self) {
        self.machine.end_sandbox(&self.folder);
        self.folder.forget_roots();
        self.machine.names.refresh();
    }

    async fn destroy(&mut self) {
        for container in self.containers() {
            // Also without its shim, should somebody have killed that.
            if let Some(started) = self.folder.started(&container.name) {
                started.first.signal(Signal::KILL);
                exit_of(started.first).await;
                exit_of(started.shim).await;
            }
        }
        self.watching.clear();
        self.machine.end_sandbox(&self.folder);
        let heard = tail::all_heard(&self.folder).await;
        if let Err(error) = self.folder.remove() {
            tracing::warn!(pod = %self.pod.name_any(), %error, "the pod's folder stays");
        }
        drop(heard);
        self.machine.names.refresh();
    }

    /// Tells the API that nothing of the pod is left.
    async fn confirm(&self) {
        let meta = &self.pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.machine.client.clone(), namespace);
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: meta.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let mut pause = RETRY.0;
        loop {
            match pods.delete(&self.pod.name_any(), &now).await {
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return,
                Err(error) => tracing::warn!(pod = %self.pod.name_any(), %error, "delete"),
                Ok(_) => return,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }
}

fn asks_for_gpus(container: &Container) -> bool {
    let limits = container
        .resources
        .iter()
        .filter_map(|resources| resources.limits.as_ref());
    limits.flatten().any(|(name, _)| name == register::GPU)
}

/// Why containers are not made yet is said on each of them.
fn explain(status: &mut PodStatus, trouble: &Trouble) {
    let init = status.init_container_statuses.iter_mut().flatten();
    for container in init.chain(status.container_statuses.iter_mut().flatten()) {
        let waiting = container
            .state
            .as_mut()
            .and_then(|state| state.waiting.as_mut());
        if let Some(waiting) = waiting {
            waiting.message = Some(trouble.message.clone());
        }
    }
}

/// Until a process ends.
async fn exit_of(process: Process) {
    let handle = process.open().map(asynchronous);
    if let Some(Ok(handle)) = handle {
        let _ = handle.readable().await;
    }
}

async fn sleep_until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let rest = time.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(rest).unwrap_or_default()).await;
}
