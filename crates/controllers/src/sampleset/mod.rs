//! The SampleSet controller.

use std::sync::Arc;
use std::time::Duration;

use api::{SampleSet, SampleSetStatus};
use futures::FutureExt;
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, Resource};
use plan::Urgency;
use plan::sampleset::{self, Plan, Settings};

mod apply;
mod context;
mod observe;

pub(crate) use context::{StoredSampleJob, StoredSet};
pub(crate) use observe::seen_secret;

use context::{Context, Stores};

use crate::drive::{self, Objects, Options, Passes};
use crate::events::Reporter;
use crate::memory::Memories;
use crate::{Error, Metrics, clock, identity, scoped, status};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "37987177.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "sampleset-controller";
/// Figures alone are written at most so often.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

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
    let sets = Objects::new();
    let (_tasks, stores) = Stores::watch(&client, namespace, &sets);
    // Nothing is decided before every cache is filled.
    tokio::select! {
        () = stores.filled() => {}
        () = shutdown.clone() => return,
    }
    let concerned = sets.concerned.clone();
    let context = Arc::new(Context::new(client.clone(), options, stores, concerned));
    drive::drive(scoped(client, namespace), sets, context, ready, shutdown).await;
}

impl Passes for Context {
    type Object = StoredSet;
    const NAME: &'static str = NAME;
    const CONCURRENCY: u16 = 8;

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn memories(&self) -> &Memories {
        &self.memories
    }

    fn note(&self, event: &watcher::Event<StoredSet>) {
        if let watcher::Event::Delete(set) = event {
            self.forget(identity(&set.meta().uid));
        }
    }

    async fn pass(&self, set: &StoredSet) -> Result<Action, Error> {
        reconcile(set, self).await
    }
}

/// The only place where the steps meet.
async fn reconcile(stored: &StoredSet, context: &Context) -> Result<Action, Error> {
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
    let seen = observe::observe(context, set, now).await?;
    let mut plan = sampleset::plan(set, &seen, &context.settings, now);
    let applied = apply::apply(context, set, &plan).await?;
    if applied.is_over {
        return Ok(Action::await_change());
    }
    sampleset::refuse(&mut plan.status, set, applied.refusal.as_deref(), now);
    let retry = match applied.refusal {
        Some(_) => Some(context.memories.back_off(uid)),
        None => {
            context.memories.reset_back_off(uid);
            None
        }
    };
    let later = publish(context, set, &plan, now).await?;
    let planned = plan.wake_at.map(|at| clock::until(at, now));
    let wake = [planned, retry, later];
    let wake = wake.into_iter().flatten().min();
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
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
        Urgency::Eventually | Urgency::Soon | Urgency::Now => {
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
