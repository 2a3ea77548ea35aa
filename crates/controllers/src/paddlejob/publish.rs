//! Publishing: the status, in one write and only if it changed, then events.

use std::time::Duration;

use api::{PaddleJob, PaddleJobStatus, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::controller::Action;
use plan::paddlejob::{self, Plan};
use plan::{Event, Urgency};

use super::NAME;
use super::apply::remove_finalizer;
use super::context::Context;
use super::stored::BadJob;
use crate::events::Reporter;
use crate::{Error, identity, status};

/// Publishes what a plan says; returns how long it has to wait, if it does.
pub(super) async fn publish(
    context: &Context,
    job: &PaddleJob,
    plan: &Plan,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let uid = identity(&job.metadata.uid);
    let urgency = paddlejob::urgency(job.status.as_ref(), plan);
    let wait = context.memories.wait(uid, urgency);
    if wait.is_some() {
        return Ok(wait);
    }
    if urgency != Urgency::Never {
        write_status(context, &job.metadata, &plan.status).await?;
        let before = job.status.as_ref().and_then(|status| status.phase);
        if let Some(phase) = plan.status.phase.filter(|phase| Some(*phase) != before) {
            let (namespace, name) = (
                identity(&job.metadata.namespace),
                identity(&job.metadata.name),
            );
            tracing::info!("paddlejob {namespace}/{name} is {phase}");
        }
    }
    tell(context, &job.metadata, &plan.events, now).await;
    Ok(None)
}

/// Tells the user what is wrong with an object that can't be read.
pub(super) async fn unreadable(
    context: &Context,
    bad: &BadJob,
    now: Timestamp,
) -> Result<Action, Error> {
    let meta = &bad.metadata;
    if context
        .memories
        .is_superseded(identity(&meta.uid), identity(&meta.resource_version))
    {
        return Ok(Action::await_change());
    }
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let has_old = finalizers.iter().any(|name| name == labels::GO_FINALIZER);
    if has_old && remove_finalizer(context, meta).await? {
        return Ok(Action::await_change());
    }
    let plan = paddlejob::unreadable(bad.status.clone(), meta.generation, &bad.error, now);
    if paddlejob::urgency(bad.status.as_ref(), &plan) != Urgency::Never {
        write_status(context, meta, &plan.status).await?;
    }
    tell(context, meta, &plan.events, now).await;
    Ok(Action::await_change())
}

async fn write_status(
    context: &Context,
    meta: &ObjectMeta,
    status: &PaddleJobStatus,
) -> Result<(), Error> {
    status::replace::<PaddleJob>(&context.client, &context.memories, meta, status).await
}

async fn tell(context: &Context, meta: &ObjectMeta, events: &[Event], now: Timestamp) {
    Reporter::new::<PaddleJob>(&context.client, NAME, meta)
        .tell_all(events, now)
        .await;
}
