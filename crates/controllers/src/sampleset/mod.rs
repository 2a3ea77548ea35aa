//! The SampleSet controller.

use std::collections::HashSet;
use std::sync::Arc;

use api::SampleSet;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, Resource};
use plan::sampleset::{self, Settings};

mod apply;
mod context;
mod observe;
mod target;

use context::{Context, Stores};

use crate::common::{Common, Report};
use crate::drive::{self, Objects, Options, Passes};
use crate::stores::{StoredSet, readable};
use crate::{Error, clock, identity, scoped};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "37987177.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "sampleset-controller";

/// Runs the controller until `shutdown`, then lets running passes end.
/// `ready` is called when the caches are filled and work begins.
pub async fn run(
    client: Client,
    options: Options<Settings>,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let namespace = options.namespace.clone();
    let namespace = namespace.as_deref();
    let sets = Objects::new();
    let (_tasks, stores) = Stores::watch(&client, namespace, &sets);
    let concerned = sets.concerned.clone();
    let context = Arc::new(Context::new(client.clone(), options, stores, concerned));
    let (api, filled) = (scoped(client, namespace), context.stores.filled());
    drive::drive(api, sets, Arc::clone(&context), filled, ready, shutdown).await;
}

impl Passes for Context {
    type Object = StoredSet;
    const CONCURRENCY: u16 = 8;

    fn common(&self) -> &Common {
        &self.common
    }

    fn keep(&self, uids: &HashSet<String>) {
        Context::keep(self, uids);
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
    let common = &context.common;
    let now = common.clock.now();
    let Some(set) = readable(stored) else {
        return Ok(Action::await_change());
    };
    let seen = observe::observe(context, set, now).await?;
    let mut plan = sampleset::plan(set, &seen, &context.settings, now);
    let applied = apply::apply(context, set, &plan).await?;
    let refusal = applied.refusal.as_deref();
    if applied.is_over {
        // A set that goes has no status, and no later pass.
        if set.metadata.deletion_timestamp.is_some() {
            let meta = &set.metadata;
            let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
            let stays = plan.events.iter().map(|event| event.message.as_str());
            for message in stays.chain(refusal) {
                tracing::warn!(namespace, name, message, "a set goes");
            }
            // A namespace that goes too takes no event.
            common.tell::<SampleSet>(meta, &plan.events, now).await;
        }
        return Ok(Action::await_change());
    }
    sampleset::refuse(&mut plan.status, set, refusal, now);
    let report = Report {
        urgency: sampleset::urgency(set.status.as_ref(), &plan.status),
        status: &plan.status,
        events: &plan.events,
    };
    let later = common
        .publish(set, report, |status| status.phase, now)
        .await?;
    let uid = identity(&set.metadata.uid);
    let retry = common.memories.judge(uid, refusal.is_some());
    let planned = plan.wake_at.map(|at| clock::until(at, now));
    Ok(clock::wake([planned, retry, later]))
}
