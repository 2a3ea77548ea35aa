//! What every pass over a SampleJob shares: the client, what the watches show, and
//! what this process remembers.

use api::{SampleJob, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt};
use plan::names;
use plan::samplejob::Settings;
use tokio::task::JoinSet;

use super::NAME;
use crate::common::Common;
use crate::drive::{Concerned, Objects, Options};
use crate::memory::FIGURES;
use crate::runtime::Servers;
use crate::scoped;
use crate::stores::{self, News, StoredSampleJob, StoredSet};

/// What every pass shares.
pub(super) struct Context {
    pub(super) common: Common,
    pub(super) settings: Settings,
    pub(super) servers: Servers,
    pub(super) stores: Stores,
    pub(super) concerned: Concerned<StoredSampleJob>,
}

/// What the watches show.
pub(super) struct Stores {
    pub(super) jobs: Store<StoredSampleJob>,
    pub(super) sets: Store<StoredSet>,
    pub(super) pods: Store<Pod>,
}

impl Context {
    pub(super) fn new(
        client: Client,
        options: Options<Settings>,
        stores: Stores,
        concerned: Concerned<StoredSampleJob>,
    ) -> Context {
        Context {
            common: Common::new(NAME, client.clone(), &options, FIGURES),
            settings: options.settings,
            servers: Servers::new(client),
            stores,
            concerned,
        }
    }

    /// The job is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.common.memories.forget(uid);
        self.servers.forget(uid);
    }
}

impl Stores {
    /// Starts the watches of what jobs depend on. Their tasks end when they are
    /// dropped.
    pub(super) fn watch(
        client: &Client,
        namespace: Option<&str>,
        jobs: &Objects<StoredSampleJob>,
    ) -> (JoinSet<()>, Stores) {
        let mut tasks = JoinSet::new();
        let (jobs, concerned) = (&jobs.store, &jobs.concerned);
        let of_set = {
            let (jobs, concerned) = (jobs.clone(), concerned.clone());
            move |news: News<'_, StoredSet>| match news {
                News::Of(set) => concern(&jobs, &concerned, |job| uses(job, set.meta())),
                News::All => concern(&jobs, &concerned, |_| true),
            }
        };
        let of_pod = {
            let (jobs, concerned) = (jobs.clone(), concerned.clone());
            move |news: News<'_, Pod>| match news {
                News::Of(pod) => concern(&jobs, &concerned, |job| runs_on(job, pod)),
                News::All => concern(&jobs, &concerned, |_| true),
            }
        };
        let pods = scoped(client.clone(), namespace);
        let stores = Stores {
            jobs: jobs.clone(),
            sets: stores::keep(&mut tasks, scoped(client.clone(), namespace), None, of_set),
            pods: stores::keep(&mut tasks, pods, Some(labels::SET_NAME), of_pod),
        };
        (tasks, stores)
    }

    /// Until every watch has listed what there is.
    pub(super) async fn filled(&self) {
        // An error means that the task was ended: the process shuts down.
        let _ = self.sets.wait_until_ready().await;
        let _ = self.pods.wait_until_ready().await;
    }
}

/// Makes jobs that have not ended be looked at.
pub(super) fn concern(
    jobs: &Store<StoredSampleJob>,
    concerned: &Concerned<StoredSampleJob>,
    which: impl Fn(&SampleJob) -> bool,
) {
    for stored in jobs.state() {
        let Ok(job) = &stored.0 else { continue };
        let phase = job.status.as_ref().and_then(|status| status.phase);
        let is_over = phase.is_some_and(api::SampleJobPhase::is_terminal);
        if !is_over && which(job) {
            concerned.look_at(ObjectRef::from_obj(&*stored));
        }
    }
}

fn uses(job: &SampleJob, set: &ObjectMeta) -> bool {
    let used = job.spec.sample_set_ref.as_ref();
    let used = used.and_then(|used| used.name.as_deref());
    job.metadata.namespace == set.namespace && used == set.name.as_deref()
}

fn runs_on(job: &SampleJob, pod: &Pod) -> bool {
    let used = job.spec.sample_set_ref.as_ref();
    let used = used.and_then(|used| used.name.as_deref());
    let label = used.map(names::label_value);
    job.metadata.namespace == pod.metadata.namespace
        && pod.labels().get(labels::SET_NAME) == label.as_ref()
}
