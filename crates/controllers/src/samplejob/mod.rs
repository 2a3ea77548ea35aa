//! The SampleJob controller.

use std::collections::HashSet;
use std::sync::Arc;

use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, Resource};
use plan::samplejob::{self, Settings};

mod apply;
mod context;
mod observe;

use context::{Context, Stores, concern};

use crate::common::{Common, Report};
use crate::drive::{self, Objects, Options, Passes};
use crate::stores::{StoredSampleJob, readable};
use crate::{Error, clock, identity, scoped};

/// The lease of this controller: the id of the Go operator.
pub const LEASE: &str = "778668173.batch.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "samplejob-controller";

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
    let jobs = Objects::new();
    let (_tasks, stores) = Stores::watch(&client, namespace, &jobs);
    let concerned = jobs.concerned.clone();
    let context = Arc::new(Context::new(client.clone(), options, stores, concerned));
    let (api, filled) = (scoped(client, namespace), context.stores.filled());
    drive::drive(api, jobs, Arc::clone(&context), filled, ready, shutdown).await;
}

impl Passes for Context {
    type Object = StoredSampleJob;
    const CONCURRENCY: u16 = 8;

    fn common(&self) -> &Common {
        &self.common
    }

    fn keep(&self, uids: &HashSet<String>) {
        self.common.memories.keep(uids);
        self.servers.keep(uids);
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
    let common = &context.common;
    let now = common.clock.now();
    let Some(job) = readable(stored) else {
        return Ok(Action::await_change());
    };
    let seen = observe::observe(context, job).await?;
    let mut plan = samplejob::plan(job, &seen, &context.settings, now);
    // The result is in the status before the lock is given back: who dies in
    // between gives it back later.
    let applied = apply::apply(context, job, &seen, &plan).await?;
    if applied.is_over {
        return Ok(Action::await_change());
    }
    if let Some(why) = &applied.refusal {
        samplejob::refuse(&mut plan, job, why, now);
    }
    let report = Report {
        urgency: samplejob::urgency(job.status.as_ref(), &plan.status),
        status: &plan.status,
        events: &plan.events,
    };
    let later = common
        .publish(job, report, |status| status.phase, now)
        .await?;
    let uid = identity(&job.metadata.uid);
    let retry = common.memories.judge(uid, applied.refusal.is_some());
    let planned = plan.wake_at.map(|at| clock::until(at, now));
    Ok(clock::wake([planned, retry, later]))
}
