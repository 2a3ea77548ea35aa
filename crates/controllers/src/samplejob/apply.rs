//! Applying: writing what the plan says. Every step may be repeated.

use api::{SampleJob, SampleSet, SampleSetStatus};
use kube::Api;
use kube::api::DeleteParams;
use plan::samplejob::{Lock, Plan, Seen};
use serde_json::Value;

use super::context::Context;
use crate::writes::{self, failed, refusal};
use crate::{Error, identity, status};

const KIND: &str = "SampleJob";

/// What came of applying a plan.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Why the API server would not make a run, in its words.
    pub(super) refusal: Option<String>,
    /// The job itself was changed: the status waits for the next pass.
    pub(super) is_over: bool,
}

/// Writes what the plan says. Runs are made last: one that is refused keeps nothing else from
/// being done.
pub(super) async fn apply(
    context: &Context,
    job: &SampleJob,
    seen: &Seen,
    plan: &Plan,
) -> Result<Applied, Error> {
    // Named one by one, so that a new kind of step can't be forgotten here.
    let Plan {
        finalizers,
        lock,
        cancelled,
        posted,
        runs_created,
        runs_deleted,
        deletes_job,
        status: _,
        events: _,
        wake_at: _,
    } = plan;
    let on = Target {
        context,
        namespace: identity(&job.metadata.namespace),
        uid: identity(&job.metadata.uid),
    };
    let over = Applied {
        is_over: true,
        ..Applied::default()
    };
    if let Some(finalizers) = finalizers {
        let common = &context.common;
        common
            .set_finalizers::<SampleJob>(&job.metadata, finalizers)
            .await?;
        return Ok(over);
    }
    let servers = &context.servers;
    servers
        .operate(on.uid, on.namespace, cancelled, posted)
        .await?;
    for run in runs_deleted {
        on.delete(&run.name, &run.uid).await?;
    }
    if *deletes_job {
        on.delete(identity(&job.metadata.name), on.uid).await?;
        return Ok(over);
    }
    if let (Some(lock), Some(set)) = (lock, &seen.set) {
        on.lock(lock, set).await?;
    }
    let mut applied = Applied::default();
    for run in runs_created {
        let say = |_: &str, kind: &str, name: &str, words: &str| {
            format!("{kind} {name} can't be made: {words}")
        };
        let refused = refusal(on.create_run(run).await, say)?;
        applied.refusal = applied.refusal.or(refused);
    }
    Ok(applied)
}

/// The job that is worked on.
struct Target<'a> {
    context: &'a Context,
    namespace: &'a str,
    uid: &'a str,
}

impl Target<'_> {
    fn jobs(&self) -> Api<SampleJob> {
        self.context.common.api(self.namespace)
    }

    /// Takes or gives back the set, provided that nobody else did meanwhile.
    async fn lock(&self, lock: &Lock, set: &SampleSet) -> Result<(), Error> {
        let new = SampleSetStatus {
            operation: lock.operation.clone(),
            ..set.status.clone().unwrap_or_default()
        };
        // Not noted as a write of the job: nobody here would ever forget the set.
        let client = &self.context.common.client;
        let written = status::replace::<SampleSet>(client, &set.metadata, &new).await;
        written.map(drop)
    }

    async fn create_run(&self, run: &Value) -> Result<(), Error> {
        let name = run.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let run: SampleJob = serde_json::from_value(run.clone())
            .map_err(|error| failed("create", KIND, name, kube::Error::SerdeError(error)))?;
        writes::create(&self.jobs(), KIND, name, &run).await
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<(), Error> {
        writes::delete(&self.jobs(), KIND, name, uid, DeleteParams::background()).await
    }
}
