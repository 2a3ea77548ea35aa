//! The probes of one container that runs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use rustix::process::Signal;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Machine;
use super::exec::{Exec, Session};
use super::folder::Folder;
use super::probes::{self, Handle, Outcome, Verdict};
use crate::events::Weight;
use crate::shim::Started;

/// Probes a container as long as it is kept.
pub(super) struct Watching {
    pub(super) verdict: Arc<Verdict>,
    pub(super) attempt: i32,
    task: JoinHandle<()>,
}

impl Watching {
    pub(super) fn start(
        machine: Arc<Machine>,
        pod: Arc<Pod>,
        container: Container,
        folder: Folder,
        started: Started,
        changed: Arc<Notify>,
    ) -> Watching {
        let attempt = folder.look(&container).restarts;
        // What was told is of this start, not of one before.
        let told = pod.status.iter().flat_map(|status| {
            let init = status.init_container_statuses.iter().flatten();
            init.chain(status.container_statuses.iter().flatten())
        });
        let mut told = told.filter(|told| told.restart_count == attempt);
        let told = told.find(|told| told.name == container.name && is_running(told));
        let verdict = Arc::new(Verdict::of(&container, told));
        let address = folder.address().unwrap_or(machine.gateway());
        let probed = Probed {
            machine,
            pod,
            container: container.name.clone(),
            folder,
            started,
        };
        let task = probes::watch(container, address, Arc::clone(&verdict), changed, probed);
        Watching {
            verdict,
            attempt,
            task: tokio::spawn(task),
        }
    }
}

fn is_running(told: &ContainerStatus) -> bool {
    let state = told.state.as_ref();
    state.is_some_and(|state| state.running.is_some())
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Probed {
    machine: Arc<Machine>,
    pod: Arc<Pod>,
    container: String,
    folder: Folder,
    started: Started,
}

impl Handle for Probed {
    async fn run(&self, command: Vec<String>) -> Outcome {
        let exec = Exec {
            command,
            ..Exec::default()
        };
        let session = Session::start(&self.folder, &self.container, &exec);
        let session = session.await.map_err(|error| error.to_string())?;
        let (code, said) = session.output().await.map_err(|error| error.to_string())?;
        match code {
            0 => Ok(()),
            _ => Err(said.trim().to_owned()),
        }
    }

    fn kill(&self, probe: &str, why: &str) {
        let (started, machine, pod) = (self.started, self.machine.clone(), self.pod.clone());
        let spec = pod.spec.as_ref();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
        let grace = grace
            .and_then(|grace| u64::try_from(grace).ok())
            .unwrap_or(30);
        let probe = probe.to_lowercase();
        let message = format!(
            "Container {} failed {probe} probe, will be restarted: {why}",
            self.container
        );
        // On its own: this container's probes end before the container does.
        tokio::spawn(async move {
            machine
                .event(&pod, Weight::Normal, "Killing", &message)
                .await;
            started.first.signal(Signal::TERM);
            tokio::time::sleep(Duration::from_secs(grace)).await;
            started.first.signal(Signal::KILL);
        });
    }

    async fn complain(&self, probe: &str, why: &str) {
        let message = format!("{probe} probe failed: {why}");
        self.machine
            .event(&self.pod, Weight::Warning, "Unhealthy", &message)
            .await;
    }
}
