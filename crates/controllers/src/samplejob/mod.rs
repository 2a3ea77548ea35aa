//! The SampleJob controller.

use std::sync::Arc;
use std::time::Duration;

use api::{SampleJob, SampleJobStatus};
use futures::FutureExt;
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, Resource};
use plan::Urgency;
use plan::samplejob::{self, Plan, Settings};

mod apply;
mod context;
mod observe;

use context::{Context, Stores, concern};

use crate::drive::{self, Objects, Options, Passes};
use crate::events::Reporter;
use crate::memory::Memories;
use crate::sampleset::StoredSampleJob;
use crate::{Error, Metrics, clock, identity, scoped, status};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "778668173.batch.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "samplejob-controller";
/// Progress alone is written at most so often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Runs the controller until `shutdown`, then lets running passes end.
/// `ready` is called when the caches are filled and work begins.
pub async fn run(
    client: Client,
    options: Options<Settings>,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let shutdown = shutdown.shared();
    let namespace = options.namespace.clone();
    let namespace = namespace.as_deref();
    let jobs = Objects::new();
    let (_tasks, stores) = Stores::watch(&client, namespace, &jobs);
    // Nothing is decided before every cache is filled.
    tokio::select! {
        () = stores.filled() => {}
        () = shutdown.clone() => return,
    }
    let concerned = jobs.concerned.clone();
    let context = Arc::new(Context::new(client.clone(), options, stores, concerned));
    drive::drive(scoped(client, namespace), jobs, context, ready, shutdown).await;
}

impl Passes for Context {
    type Object = StoredSampleJob;
    const NAME: &'static str = NAME;
    const CONCURRENCY: u16 = 8;

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn memories(&self) -> &Memories {
        &self.memories
    }

    fn note(&self, event: &watcher::Event<StoredSampleJob>) {
        note(self, event);
    }

    async fn pass(&self, job: &StoredSampleJob) -> Result<Action, Error> {
        reconcile(job, self).await
    }
}

/// What happens to one job concerns those that wait for it, and the schedule that
/// made it.
fn note(context: &Context, event: &watcher::Event<StoredSampleJob>) {
    use watcher::Event::{Apply, Delete};
    let (Apply(stored) | Delete(stored)) = event else {
        return;
    };
    if matches!(event, Delete(_)) {
        context.forget(identity(&stored.meta().uid));
    }
    let Ok(job) = &stored.0 else { return };
    let owners = job.metadata.owner_references.iter().flatten();
    let owners: Vec<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    concern(&context.stores.jobs, &context.concerned, |other| {
        let is_rival = other.metadata.namespace == job.metadata.namespace
            && other.spec.sample_set_ref == job.spec.sample_set_ref
            && other.metadata.uid != job.metadata.uid;
        is_rival || owners.contains(&identity(&other.metadata.uid))
    });
}

/// The only place where the steps meet.
async fn reconcile(stored: &StoredSampleJob, context: &Context) -> Result<Action, Error> {
    let now = context.clock.now();
    let job = match &stored.0 {
        Ok(job) => job,
        Err(invalid) => {
            let (namespace, name) = (&invalid.metadata.namespace, &invalid.metadata.name);
            tracing::warn!(?namespace, ?name, error = %invalid, "a SampleJob can't be read");
            return Ok(Action::await_change());
        }
    };
    let uid = identity(&job.metadata.uid);
    let seen = observe::observe(context, job).await?;
    let plan = samplejob::plan(job, &seen, &context.settings, now);
    // The result is in the status before the lock is given back: who dies in
    // between gives it back later.
    if apply::apply(context, job, &seen, &plan).await? {
        return Ok(Action::await_change());
    }
    context.memories.reset_back_off(uid);
    let later = publish(context, job, &plan, now).await?;
    let wake = plan.wake_at.map(|at| clock::until(at, now));
    let wake = wake.into_iter().chain(later).min();
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
}

/// Writes the status, if it changed; returns how long it has to wait, if it does.
async fn publish(
    context: &Context,
    job: &SampleJob,
    plan: &Plan,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let uid = identity(&job.metadata.uid);
    match samplejob::urgency(job.status.as_ref(), &plan.status) {
        Urgency::Never => {}
        Urgency::Eventually if let Some(rest) = context.memories.rest(uid, PROGRESS_EVERY) => {
            return Ok(Some(rest));
        }
        Urgency::Eventually | Urgency::Soon | Urgency::Now => {
            let (client, memories) = (&context.client, &context.memories);
            status::replace::<SampleJob>(client, memories, &job.metadata, &plan.status).await?;
            tell_phase(job, &plan.status);
        }
    }
    Reporter::new::<SampleJob>(&context.client, NAME, &job.metadata)
        .tell_all(&plan.events, now)
        .await;
    Ok(None)
}

fn tell_phase(job: &SampleJob, status: &SampleJobStatus) {
    let before = job.status.as_ref().and_then(|status| status.phase);
    if let Some(phase) = status.phase.filter(|phase| Some(*phase) != before) {
        let namespace = identity(&job.metadata.namespace);
        let name = identity(&job.metadata.name);
        tracing::info!("samplejob {namespace}/{name} is {phase}");
    }
}
