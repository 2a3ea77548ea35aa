//! The life of one pod: looks, decides, does the next step, and tells the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::folder::Folder;
use super::lifecycle::{self, ContainerSeen, Seen, State, Step, Trouble, containers};
use super::volumes::Source;
use super::watching::Watching;
use super::{Machine, report, tail};
use crate::shim::Started;
pub(super) use failures::RETRY;
use failures::{Failures, THE_POD};

mod failures;
mod steps;

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
    /// What failed and is tried again.
    failed: Failures,
    /// Why it was ended, if it was; kept here too, in case that the disk is full.
    doom: Option<Trouble>,
    /// When containers that shall end are killed.
    kill_at: Option<Timestamp>,
    watching: BTreeMap<String, Watching>,
    /// A probe has changed its mind.
    changed: Arc<Notify>,
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
            failed: Failures::default(),
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
            let step =
                lifecycle::next(&self.pod, &self.failed.without_due(&seen), Timestamp::now());
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
                    self.note(THE_POD, done).await;
                }
                Step::Start(name) => {
                    let done = self.start(&name).await;
                    self.note(&name, done).await;
                }
                Step::Stop { until, doom } => self.stop(until, doom, &seen).await,
                Step::Finish => self.finish().await,
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
            self.failed.try_again();
        }
    }

    fn look(&self) -> Seen {
        let doom = self.doom.clone().or_else(|| self.folder.doom());
        let containers = containers(&self.pod).map(|container| {
            let mut seen = self.folder.look(container);
            seen.trouble = self.failed.trouble(&container.name);
            if let Some(watching) = self.watching.get(&container.name) {
                seen.is_ready = watching.verdict.is_ready.load(Ordering::Relaxed);
                seen.has_started = watching.verdict.has_started.load(Ordering::Relaxed);
            }
            (container.name.clone(), seen)
        });
        Seen {
            has_sandbox: self.folder.sandbox().is_some(),
            address: self.folder.address(),
            trouble: self.failed.trouble(THE_POD),
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
        let mut ends: Vec<_> = shims.map(|shim| shim.end().boxed()).collect();
        if seen.has_sandbox {
            ends.push(match self.folder.sandbox() {
                Some(sandbox) => sandbox.end().boxed(),
                None => std::future::ready(()).boxed(),
            });
        }
        match ends.is_empty() {
            true => std::future::pending().boxed(),
            false => select_all(ends).map(drop).boxed(),
        }
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
        let new: Vec<Container> = containers(&self.pod)
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
        let status = report::status(&self.pod, seen, &self.machine.address(), Timestamp::now());
        if Some(&status) == self.pod.status.as_ref() {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": self.pod.metadata.uid}, "status": status});
        let told = self
            .api()
            .patch_status(
                &self.pod.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        self.pod = Arc::new(told);
        Ok(())
    }

    fn api(&self) -> Api<Pod> {
        let namespace = self.pod.namespace().unwrap_or_default();
        Api::namespaced(self.machine.client.clone(), &namespace)
    }

    /// Waits until a time, or until something happens.
    async fn wait(&mut self, until: Option<Timestamp>, seen: &Seen) {
        let until = self.failed.again_at().into_iter().chain(until).min();
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
        self.failed.wait_is_over(Timestamp::now());
    }
}

async fn sleep_until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let rest = time.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(rest).unwrap_or_default()).await;
}
