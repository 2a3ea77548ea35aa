//! The steps of a pod's life.

use std::io;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};
use rustix::process::Signal;

use super::Keeper;
use super::failures::RETRY;
use crate::events::Weight;
use crate::node::container::Parts;
use crate::node::environment::Sources;
use crate::node::lifecycle::{Seen, Trouble, containers};
use crate::node::volumes::Volumes;
use crate::node::{register, tail};

impl Keeper {
    /// Remembers what failed, to try it again, and says so once.
    pub(super) async fn note(&mut self, name: &str, done: Result<(), Trouble>) {
        let is_news = self.failed.note(name, done, Timestamp::now());
        if let Some(trouble) = self.failed.trouble(name).filter(|_| is_news) {
            let reason = match trouble.reason.as_str() {
                "ContainerCreating" => "FailedMount",
                "ErrImagePull" | "CreateContainerConfigError" | "CreateContainerError" => "Failed",
                reason => reason,
            };
            self.machine
                .event(&self.pod, Weight::Warning, reason, &trouble.message)
                .await;
        }
    }

    /// The volumes and the sandbox.
    pub(super) async fn prepare(&mut self) -> Result<(), Trouble> {
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
            machine: &self.machine,
            pod: &self.pod,
            dir: &self.folder.volumes(),
        };
        self.volumes = volumes.prepare().await?;
        Ok(())
    }

    pub(super) async fn start(&mut self, name: &str) -> Result<(), Trouble> {
        let found = containers(&self.pod).find(|container| container.name == name);
        let Some(container) = found.cloned() else {
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
        if register::asks_for_gpus(&container) && register::gpus() == 0 {
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
    pub(super) async fn stop(&mut self, until: Timestamp, doom: Option<Trouble>, seen: &Seen) {
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
    pub(super) async fn finish(&mut self) {
        self.machine.end_sandbox(&self.folder);
        self.folder.forget_roots();
        self.release_volumes().await;
        self.machine.names.refresh();
    }

    /// All of it goes, at once.
    pub(super) async fn destroy(&mut self) {
        for container in containers(&self.pod) {
            // Also without its shim, should somebody have killed that.
            if let Some(started) = self.folder.started(&container.name) {
                started.first.signal(Signal::KILL);
                started.first.end().await;
                started.shim.end().await;
            }
        }
        self.watching.clear();
        self.machine.end_sandbox(&self.folder);
        let heard = tail::all_heard(&self.folder).await;
        if let Err(error) = self.folder.remove() {
            tracing::warn!(pod = %self.pod.name_any(), %error, "the pod's folder stays");
        }
        drop(heard);
        self.release_volumes().await;
        self.machine.names.refresh();
    }

    async fn release_volumes(&self) {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        self.machine.release_volumes(uid).await;
    }

    /// Tells the API that nothing of the pod is left.
    pub(super) async fn confirm(&self) {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: self.pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let mut pause = RETRY.0;
        loop {
            match self.api().delete(&self.pod.name_any(), &now).await {
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return,
                Err(error) => tracing::warn!(pod = %self.pod.name_any(), %error, "delete"),
                Ok(_) => return,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }
}
