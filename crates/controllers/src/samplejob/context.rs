//! What every pass over a SampleJob shares: the client, what the watches show, and
//! what this process remembers.

use std::sync::Arc;

use api::{SampleJob, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt};
use plan::names;
use plan::samplejob::Settings;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::drive::{Objects, Options};
use crate::memory::Memories;
use crate::runtime::{Accesses, Servers, Tell};
use crate::sampleset::{StoredSampleJob, StoredSet};
use crate::stores::{self, News};
use crate::{Clock, Metrics, identity, scoped};

/// Who is to be looked at.
pub(super) type Concerned = UnboundedSender<ObjectRef<StoredSampleJob>>;

/// What every pass shares.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) memories: Memories,
    pub(super) servers: Servers,
    pub(super) accesses: Accesses,
    pub(super) stores: Stores,
    pub(super) concerned: Concerned,
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
        concerned: Concerned,
    ) -> Context {
        Context {
            client,
            settings: options.settings,
            clock: options.clock,
            metrics: options.metrics,
            memories: Memories::default(),
            servers: Servers::default(),
            accesses: Accesses::default(),
            stores,
            concerned,
        }
    }

    /// The job is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.memories.forget(uid);
        self.servers.forget(uid);
    }

    /// Makes the job be looked at when the servers have something to tell.
    pub(super) fn tell(&self, job: &SampleJob) -> Tell {
        let concerned = self.concerned.clone();
        let job =
            ObjectRef::new(identity(&job.metadata.name)).within(identity(&job.metadata.namespace));
        Arc::new(move || {
            // Nobody listens any more when the process shuts down.
            let _ = concerned.send(job.clone());
        })
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
    concerned: &Concerned,
    which: impl Fn(&SampleJob) -> bool,
) {
    for stored in jobs.state() {
        let Ok(job) = &stored.0 else { continue };
        let phase = job.status.as_ref().and_then(|status| status.phase);
        let is_over = phase.is_some_and(api::SampleJobPhase::is_terminal);
        if !is_over && which(job) {
            let _ = concerned.send(ObjectRef::from_obj(&*stored));
        }
    }
}

fn uses(job: &SampleJob, set: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> bool {
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
