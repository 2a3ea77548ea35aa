//! The SampleSet controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{SampleSet, SampleSetStatus, set_condition};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::Client;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use plan::sampleset::{self, Plan, Seen, Settings, Urgency};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

mod apply;
mod context;
mod observe;

pub(crate) use context::{StoredSampleJob, StoredSet};
pub(crate) use observe::seen_secret;

use context::{Context, Stores};

use crate::events::Reporter;
use crate::stores::interrupted;
use crate::{Clock, Error, Metrics, clock, identity, pods, status};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "37987177.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "sampleset-controller";
/// How many sets are worked on at once.
const CONCURRENCY: u16 = 8;
/// Figures alone are written at most so often.
const FIGURES_EVERY: Duration = Duration::from_secs(1);
/// How soon to look again at what no watch tells of.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// The condition that says what the API server would not do.
const REFUSED: &str = "Refused";

/// How the controller runs.
#[derive(Clone, Debug, Default)]
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
    let (sets, writer) = reflector::store();
    let (tasks, stores) = Stores::watch(&client, namespace, &sets, &concerned);
    // Nothing is decided before every cache is filled.
    tokio::select! {
        () = stores.filled() => {}
        () = shutdown.clone() => return,
    }
    let context = Arc::new(Context::new(
        client.clone(),
        options.settings,
        (options.clock, options.metrics),
        stores,
        concerned,
    ));
    let api: Api<StoredSet> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let forgetful = Arc::clone(&context);
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .inspect(move |event| match event {
            Ok(watcher::Event::Delete(set)) => forgetful.forget(identity(&set.meta().uid)),
            Ok(_) => {}
            Err(error) => interrupted("SampleSet", error),
        })
        .touched_objects();
    let listed = sets.clone();
    let work = Controller::for_stream(stream, sets)
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

async fn timed_reconcile(stored: Arc<StoredSet>, context: Arc<Context>) -> Result<Action, Error> {
    let start = Instant::now();
    let result = reconcile(stored, &context).await;
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    context.metrics.count(NAME, outcome, start.elapsed());
    result
}

/// The only place where the steps meet.
async fn reconcile(stored: Arc<StoredSet>, context: &Context) -> Result<Action, Error> {
    let now = context.clock.now();
    let set = match &stored.0 {
        Ok(set) => set,
        Err(invalid) => {
            let (namespace, name) = (&invalid.metadata.namespace, &invalid.metadata.name);
            tracing::warn!(?namespace, ?name, error = %invalid, "a SampleSet can't be read");
            return Ok(Action::await_change());
        }
    };
    let uid = identity(&set.metadata.uid);
    let version = identity(&set.metadata.resource_version);
    if context.memories.is_superseded(uid, version) {
        return Ok(Action::await_change());
    }
    let seen = observe::observe(context, set, now).await?;
    let mut plan = sampleset::plan(set, &seen, &context.settings, now);
    let applied = apply::apply(context, set, &plan).await?;
    if applied.is_over {
        return Ok(Action::await_change());
    }
    refuse(&mut plan.status, set, applied.refusal.as_deref(), now);
    let retry = match applied.refusal {
        Some(_) => Some(context.memories.back_off(uid)),
        None => {
            context.memories.reset_back_off(uid);
            None
        }
    };
    let later = publish(context, set, &plan, now).await?;
    let planned = plan.wake_at.map(|at| clock::until(at, now));
    let wake = [planned, retry, later, look_again(context, uid, &seen)];
    let wake = wake.into_iter().flatten().min();
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
}

/// When to look again at what no watch tells of: why a pod does not start, and the jobs
/// that a set which is to go waits for.
fn look_again(context: &Context, uid: &str, seen: &Seen) -> Option<Duration> {
    let is_stuck = seen.pods.iter().any(pods::is_stuck);
    if is_stuck {
        // It may be for want of the servers' Secret, which somebody may have deleted.
        context.accesses.forget(uid);
    }
    (is_stuck || !seen.jobs.is_empty()).then_some(LOOK_AGAIN)
}

/// Says what the API server would not do, or no longer.
fn refuse(status: &mut SampleSetStatus, set: &SampleSet, refusal: Option<&str>, now: Timestamp) {
    let (conditions, generation) = (&mut status.conditions, set.metadata.generation);
    match refusal {
        Some(why) => set_condition(
            conditions,
            REFUSED,
            true,
            "ByApiServer",
            why,
            generation,
            now,
        ),
        None => conditions.retain(|condition| condition.type_ != REFUSED),
    }
}

/// Writes the status, if it changed; returns how long it has to wait, if it does.
async fn publish(
    context: &Context,
    set: &SampleSet,
    plan: &Plan,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let uid = identity(&set.metadata.uid);
    match sampleset::urgency(set.status.as_ref(), &plan.status) {
        Urgency::Never => {}
        Urgency::Eventually if let Some(rest) = context.memories.rest(uid, FIGURES_EVERY) => {
            return Ok(Some(rest));
        }
        Urgency::Eventually | Urgency::Now => {
            let (client, memories) = (&context.client, &context.memories);
            status::replace::<SampleSet>(client, memories, &set.metadata, &plan.status).await?;
            tell_phase(set, &plan.status);
        }
    }
    Reporter::new::<SampleSet>(&context.client, NAME, &set.metadata)
        .tell_all(&plan.events, now)
        .await;
    Ok(None)
}

fn tell_phase(set: &SampleSet, status: &SampleSetStatus) {
    let before = set.status.as_ref().and_then(|status| status.phase);
    if let Some(phase) = status.phase.filter(|phase| Some(*phase) != before) {
        let namespace = identity(&set.metadata.namespace);
        let name = identity(&set.metadata.name);
        tracing::info!("sampleset {namespace}/{name} is {phase}");
    }
}

fn back_off(stored: Arc<StoredSet>, error: &Error, context: Arc<Context>) -> Action {
    let meta = stored.meta();
    if error.is_conflict() {
        // The cache was out of date: the watch will bring the news.
        return Action::requeue(Duration::from_secs(1));
    }
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    tracing::warn!(namespace, name, %error, "sampleset {namespace}/{name}: the pass failed and is repeated");
    Action::requeue(context.memories.back_off(identity(&meta.uid)))
}
