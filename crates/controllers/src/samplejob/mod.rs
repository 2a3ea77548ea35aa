//! The SampleJob controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{SampleJob, SampleJobStatus};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use plan::samplejob::{self, Plan, Settings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

mod apply;
mod context;
mod observe;

use context::{Context, Stores, concern};

use crate::events::Reporter;
use crate::memory::Memories;
use crate::runtime::{Accesses, Servers};
use crate::sampleset::StoredSampleJob;
use crate::stores::interrupted;
use crate::{Clock, Error, Metrics, clock, identity, status};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "778668173.batch.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "samplejob-controller";
/// How many jobs are worked on at once.
const CONCURRENCY: u16 = 8;
/// Progress alone is written at most so often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// How the controller runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only namespace that it looks at; `None`: all.
    pub namespace: Option<String>,
    /// What its decisions depend on.
    pub settings: Settings,
    /// Its clock.
    pub clock: Clock,
    /// Its figures.
    pub metrics: Metrics,
}

/// Runs the controller until `shutdown`, then lets running passes end.
/// `ready` is called when the caches are filled and work begins.
pub async fn run(
    client: Client,
    options: Options,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let shutdown = shutdown.shared();
    let namespace = options.namespace.as_deref();
    let (concerned, changed) = mpsc::unbounded_channel();
    let (jobs, writer) = reflector::store();
    let (tasks, stores) = Stores::watch(&client, namespace, &jobs, &concerned);
    // Nothing is decided before every cache is filled.
    tokio::select! {
        () = stores.filled() => {}
        () = shutdown.clone() => return,
    }
    let context = Arc::new(Context {
        client: client.clone(),
        settings: options.settings,
        clock: options.clock,
        metrics: options.metrics,
        memories: Memories::default(),
        servers: Servers::default(),
        accesses: Accesses::default(),
        stores,
        concerned,
    });
    let api: Api<StoredSampleJob> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let noting = Arc::clone(&context);
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .inspect(move |event| note(&noting, event))
        .touched_objects();
    let listed = jobs.clone();
    let work = Controller::for_stream(stream, jobs)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(UnboundedReceiverStream::new(changed))
        .graceful_shutdown_on(shutdown.clone())
        .run(timed_reconcile, back_off, context)
        .for_each(|_| std::future::ready(()));
    // Told to end before the first list, a Controller would wait for it for ever.
    let unlisted = async {
        tokio::select! {
            _ = listed.wait_until_ready() => ready(),
            () = shutdown => return,
        }
        std::future::pending().await
    };
    tokio::select! {
        () = work => {},
        () = unlisted => {},
    }
    drop(tasks);
}

/// What happens to one job concerns those that wait for it, and the schedule that
/// made it.
fn note(context: &Context, event: &watcher::Result<watcher::Event<StoredSampleJob>>) {
    use watcher::Event::{Apply, Delete};
    let stored = match event {
        Ok(Apply(stored) | Delete(stored)) => stored,
        Ok(_) => return,
        Err(error) => return interrupted("SampleJob", error),
    };
    if matches!(event, Ok(Delete(_))) {
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

async fn timed_reconcile(
    stored: Arc<StoredSampleJob>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let start = Instant::now();
    let result = reconcile(stored, &context).await;
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    context.metrics.count(NAME, outcome, start.elapsed());
    result
}

/// The only place where the steps meet.
async fn reconcile(stored: Arc<StoredSampleJob>, context: &Context) -> Result<Action, Error> {
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
    let version = identity(&job.metadata.resource_version);
    if context.memories.is_superseded(uid, version) {
        return Ok(Action::await_change());
    }
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
    let (uid, none) = (identity(&job.metadata.uid), SampleJobStatus::default());
    let (old, new) = (job.status.as_ref().unwrap_or(&none), &plan.status);
    if old != new {
        let is_progress = without_progress(old) == without_progress(new);
        if is_progress && let Some(rest) = context.memories.rest(uid, PROGRESS_EVERY) {
            return Ok(Some(rest));
        }
        let (client, memories) = (&context.client, &context.memories);
        status::replace::<SampleJob>(client, memories, &job.metadata, new).await?;
        if let Some(phase) = new.phase.filter(|phase| Some(*phase) != old.phase) {
            let namespace = identity(&job.metadata.namespace);
            let name = identity(&job.metadata.name);
            tracing::info!("samplejob {namespace}/{name} is {phase}");
        }
    }
    Reporter::new::<SampleJob>(&context.client, NAME, &job.metadata)
        .tell_all(&plan.events, now)
        .await;
    Ok(None)
}

fn without_progress(status: &SampleJobStatus) -> SampleJobStatus {
    SampleJobStatus {
        progress: None,
        message: None,
        ..status.clone()
    }
}

fn back_off(stored: Arc<StoredSampleJob>, error: &Error, context: Arc<Context>) -> Action {
    let meta = stored.meta();
    if error.is_conflict() {
        // The cache was out of date: the watch will bring the news.
        return Action::requeue(Duration::from_secs(1));
    }
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    tracing::warn!(namespace, name, %error, "samplejob {namespace}/{name}: the pass failed and is repeated");
    Action::requeue(context.memories.back_off(identity(&meta.uid)))
}
