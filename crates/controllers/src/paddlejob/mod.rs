//! The PaddleJob controller.

use std::collections::HashSet;
use std::sync::Arc;

use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Client, Resource};
use plan::paddlejob::{self, EtcdWrite, Settings};
use tokio::task::JoinSet;

mod apply;
mod context;
mod ledger;
mod observe;
mod stored;
mod unreadable;
mod watch;
mod wire;

use context::Context;
use stored::StoredJob;

use crate::cache::WRITTEN_FOR;
use crate::common::{Common, Report};
use crate::drive::{self, Objects, Options, Passes};
use crate::{Error, Etcd, clock, identity, scoped};

/// The lease of this controller: the id of the Go operator, so that old and
/// new never run at once.
pub const LEASE: &str = "b2a304f2.paddlepaddle.org";

/// The name of this controller in metrics and events.
const NAME: &str = "paddlejob-controller";

/// How often it is tried to take the keys of a job that is gone away from etcd: for five
/// minutes.
const FORGETTING: u32 = 60;

/// What the controller works with.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// What decisions depend on.
    pub plan: Settings,
    /// The etcd servers of elastic jobs.
    pub etcd: Etcd,
}

/// Runs the controller until `shutdown`, then lets running passes end.
/// `ready` is called when the caches are filled and work begins.
pub async fn run(
    client: Client,
    options: Options<Means>,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let namespace = options.namespace.clone();
    let namespace = namespace.as_deref();
    let jobs = Objects::new();
    let mut tasks = JoinSet::new();
    let sets = watch::sets(&mut tasks, &client, namespace, &jobs);
    let context = Context::new(client.clone(), options, jobs.store.clone(), sets);
    let context = Arc::new(context);
    let concerned = jobs.concerned.clone();
    let filled = watch::children(&mut tasks, &context, namespace, &concerned);
    let api = scoped(client, namespace);
    drive::drive(api, jobs, Arc::clone(&context), filled, ready, shutdown).await;
}

impl Passes for Context {
    type Object = StoredJob;
    /// Each has requests of its own in parallel.
    const CONCURRENCY: u16 = 16;

    fn common(&self) -> &Common {
        &self.common
    }

    fn keep(&self, uids: &HashSet<String>) {
        self.common.memories.keep(uids);
        forget_keys(self, self.ledger.keep(|uid| uids.contains(uid)));
    }

    fn note(&self, event: &watcher::Event<StoredJob>) {
        if let watcher::Event::Delete(job) = event {
            let uid = identity(&job.meta().uid);
            self.common.memories.forget(uid);
            forget_keys(self, self.ledger.keep(|other| other != uid));
        }
    }

    async fn pass(&self, job: &StoredJob) -> Result<Action, Error> {
        reconcile(job, self).await
    }
}

/// Takes away what etcd knows of jobs that are gone, which nobody else would: when their pods
/// are too, since launchers that still run write anew.
fn forget_keys(context: &Context, gone: Vec<(String, EtcdWrite)>) {
    for (uid, removal) in gone {
        let (etcd, client) = (context.etcd.clone(), context.common.client.clone());
        let pods = Arc::clone(&context.pods);
        tokio::spawn(async move {
            for _ in 0..FORGETTING {
                let left = pods.of(&uid);
                let is_over = left.seen.is_empty() && left.unseen.is_empty();
                if is_over && etcd.write(&client, &removal).await.is_ok() {
                    return;
                }
                tokio::time::sleep(apply::ETCD_AGAIN).await;
            }
            tracing::warn!(?removal, "keys of a job that is gone stay in etcd");
        });
    }
}

/// The only place where the steps meet.
async fn reconcile(stored: &StoredJob, context: &Context) -> Result<Action, Error> {
    let common = &context.common;
    let now = common.clock.now();
    let job = match stored {
        StoredJob::Good(job) => &**job,
        StoredJob::Bad(bad) => return unreadable::tell(common, bad, now).await,
    };
    let seen = observe::observe(context, job, now).await?;
    let mut plan = paddlejob::plan(job, &seen, &context.settings, now);
    let applied = apply::apply(context, job, &plan).await?;
    let is_refused = applied.refusal.is_some() || applied.is_untold;
    if let Some(refusal) = applied.refusal {
        paddlejob::refuse(&mut plan, job, refusal, now);
    }
    let report = Report {
        urgency: paddlejob::urgency(job.status.as_ref(), &plan),
        status: &plan.status,
        events: &plan.events,
    };
    let later = match applied.is_over {
        true => None,
        false => {
            common
                .publish(job, report, |status| status.phase, now)
                .await?
        }
    };
    let uid = identity(&job.metadata.uid);
    let retry = common.memories.judge(uid, is_refused);
    let unseen = (!seen.creating.is_empty()).then_some(WRITTEN_FOR);
    let planned = plan.wake_at.map(|at| clock::until(at, now));
    Ok(clock::wake([planned, unseen, retry, later, applied.retry]))
}
