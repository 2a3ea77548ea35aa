//! A PaddleJob that is followed, and the pods of it that are listened to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::{PaddleJob, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::apply::Key;
use super::view::{Outcome, Progress};

/// A job that is followed.
pub(super) struct Job {
    pub(super) key: Key,
    /// Of the screen.
    pub(super) line: usize,
    /// Before the names of its pods, when there are several jobs.
    pub(super) prefix: String,
    pub(super) jobs: Store<PaddleJob>,
    pub(super) pods: Store<Pod>,
    pub(super) progress: Progress,
    pub(super) ended: Option<(Outcome, Duration)>,
    /// The lists of the job and of its pods were read.
    pub(super) is_known: (bool, bool),
    pub(super) is_gone: bool,
    /// The pods that are, or were, listened to.
    pub(super) heard: BTreeMap<String, HeardPod>,
}

/// A pod that is listened to.
#[derive(Default)]
pub(super) struct HeardPod {
    /// There was news of it.
    pub(super) is_known: bool,
    pub(super) is_gone: watch::Sender<bool>,
}

/// Where logs are written.
pub(crate) fn log_dir(dir: &Path, job: &Key) -> PathBuf {
    dir.join("logs").join(&job.namespace).join(&job.name)
}

impl Job {
    pub(super) fn own_pods(&self) -> impl Iterator<Item = Arc<Pod>> {
        let pods = self.pods.state().into_iter();
        pods.filter(|pod| is_of(pod, &self.key))
    }

    fn own(&self) -> Option<Arc<PaddleJob>> {
        let mut jobs = self.jobs.state().into_iter();
        jobs.find(|job| job.uid().as_ref() == Some(&self.key.uid))
    }

    /// The name of the SampleSet that it waits for, or has waited for.
    pub(super) fn data(&self) -> Option<String> {
        let job = self.own()?;
        job.spec.sample_set_ref.as_ref()?.name.clone()
    }

    /// What the API says of it now.
    pub(super) fn look(&mut self, time: Duration) {
        let outcome = match self.own() {
            Some(job) => {
                self.progress = Progress::of(&job);
                self.progress.outcome()
            }
            None => {
                self.is_gone = true;
                Some(Outcome::Deleted)
            }
        };
        // The first word counts: one that has ended may be deleted.
        self.ended = self.ended.or(outcome.map(|outcome| (outcome, time)));
    }

    /// Tells those who listen to pods that are gone.
    pub(super) fn say_who_is_gone(&mut self) {
        let there: BTreeSet<String> = self.own_pods().filter_map(|pod| pod.uid()).collect();
        for (uid, pod) in &mut self.heard {
            match there.contains(uid) {
                true => pod.is_known = true,
                false if pod.is_known => drop(pod.is_gone.send_replace(true)),
                // The news is still on its way.
                false => {}
            }
        }
    }
}

/// Pods of a job of the same name before it are not meant.
pub(super) fn is_of(pod: &Pod, job: &Key) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| owner.uid == job.uid)
}

pub(super) fn selector(job: &Key) -> String {
    format!("{}={}", labels::JOB_NAME, job.name)
}

/// `worker-0` of `resnet-worker-0`.
pub(super) fn pod_label(pod: &Pod, job: &str) -> String {
    let name = pod.name_any();
    let short = name
        .strip_prefix(job)
        .and_then(|name| name.strip_prefix('-'));
    short.unwrap_or(&name).to_owned()
}
