//! The PaddleJob controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use plan::paddlejob::{self, Settings};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;

mod apply;
mod context;
mod observe;
mod publish;
mod stored;
mod watch;
mod wire;

use context::Context;
use stored::StoredJob;

use crate::cache::WRITTEN_FOR;
use crate::clock;
use crate::stores::interrupted;
use crate::{Clock, Error, Metrics, identity};

/// The lease of this controller: the id of the Go operator, so that old and
/// new never run at once.
pub const LEASE: &str = "b2a304f2.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "paddlejob-controller";
/// How many jobs are worked on at once; each has requests of its own in parallel.
const CONCURRENCY: u16 = 16;

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
    let Options {
        namespace,
        settings,
        clock,
        metrics,
    } = options;
    let shutdown = shutdown.shared();
    let (reader, writer) = reflector::store();
    let (concerned, changed) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let sets = watch::sets(
        &mut tasks,
        &client,
        namespace.as_deref(),
        &reader,
        &concerned,
    );
    let context = Context::new(client.clone(), settings, clock, metrics, sets);
    let context = Arc::new(context);
    // Nothing is decided before every cache is filled: a pod that is not in an
    // empty cache is not lost.
    tokio::select! {
        () = watch::children(&mut tasks, &context, namespace.as_deref(), &concerned) => {}
        () = shutdown.clone() => return,
    }
    let listed = reader.clone();
    let (stored, forgetful) = (reader.clone(), Arc::clone(&context));
    let jobs = watcher(
        crate::scoped::<StoredJob>(client, namespace.as_deref()),
        watcher::Config::default(),
    )
    .default_backoff()
    .reflect(writer)
    .inspect(move |event| match event {
        Ok(watcher::Event::Delete(job)) => forgetful.memories.forget(identity(&job.meta().uid)),
        Ok(watcher::Event::InitDone) => {
            let jobs = stored.state();
            let uids = jobs.iter().filter_map(|job| job.meta().uid.clone());
            forgetful.memories.keep(&uids.collect());
        }
        Ok(_) => {}
        Err(error) => interrupted(&StoredJob::kind(&()), error),
    })
    .touched_objects();
    let work = Controller::for_stream(jobs, reader)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(UnboundedReceiverStream::new(changed))
        .graceful_shutdown_on(shutdown.clone())
        .run(timed_reconcile, back_off, context)
        .for_each(|_| std::future::ready(()));
    // Told to end before the first list of jobs, a Controller would wait for
    // that list for ever; no pass has begun by then.
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

async fn timed_reconcile(stored: Arc<StoredJob>, context: Arc<Context>) -> Result<Action, Error> {
    let start = Instant::now();
    let result = reconcile(stored, Arc::clone(&context)).await;
    let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
    context.metrics.count(NAME, outcome, start.elapsed());
    result
}

/// The only place where the steps meet.
async fn reconcile(stored: Arc<StoredJob>, context: Arc<Context>) -> Result<Action, Error> {
    let now = context.clock.now();
    let job = match &*stored {
        StoredJob::Good(job) => job,
        StoredJob::Bad(bad) => return publish::unreadable(&context, bad, now).await,
    };
    let (uid, version) = (
        identity(&job.metadata.uid),
        identity(&job.metadata.resource_version),
    );
    if context.memories.is_superseded(uid, version) {
        return Ok(Action::await_change());
    }
    let seen = observe::observe(&context, job, now).await?;
    let mut plan = paddlejob::plan(job, &seen, &context.settings, now);
    let applied = apply::apply(&context, job, &plan).await?;
    let mut wake = plan.wake_at.map(|at| clock::until(at, now));
    if !seen.creating.is_empty() {
        wake = wake.into_iter().chain([WRITTEN_FOR]).min();
    }
    let is_refused = applied.refusal.is_some();
    if let Some(refusal) = applied.refusal {
        paddlejob::refuse(&mut plan, job, refusal, now);
        wake = wake
            .into_iter()
            .chain([context.memories.back_off(uid)])
            .min();
    }
    if !applied.is_over {
        let later = publish::publish(&context, job, &plan, now).await?;
        wake = later.into_iter().chain(wake).min();
    }
    if !is_refused {
        context.memories.reset_back_off(uid);
    }
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
}

fn back_off(stored: Arc<StoredJob>, error: &Error, context: Arc<Context>) -> Action {
    let meta = stored.meta();
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    if error.is_conflict() {
        // The cache was out of date: the watch will bring the news.
        return Action::requeue(Duration::from_secs(1));
    }
    tracing::warn!(namespace, name, %error, "paddlejob {namespace}/{name}: the pass failed and is repeated");
    Action::requeue(context.memories.back_off(identity(&meta.uid)))
}
