//! Publishing: the status, in one write and only if it changed, then events.

use std::time::Duration;

use api::{PaddleJob, PaddleJobStatus, labels};
use http::HeaderValue;
use http::header::ACCEPT;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::PostParams;
use kube::core::{PartialObjectMeta, Request};
use kube::runtime::controller::Action;
use plan::paddlejob::{self, Event, Plan, Urgency};
use serde_json::json;

use super::NAME;
use super::apply::remove_finalizer;
use super::context::Context;
use super::error::{Error, code};
use super::identity;
use super::stored::BadJob;
use crate::events::Reporter;

/// Asks for an object without its spec and status.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

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

/// Replaces the whole status, provided that nobody else wrote meanwhile. Of a
/// job that is put there the API server takes the status alone, so nothing else
/// is sent; a patch, or an answer with the whole job, would cost it more.
async fn write_status(
    context: &Context,
    meta: &ObjectMeta,
    status: &PaddleJobStatus,
) -> Result<(), Error> {
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    let version = identity(&meta.resource_version);
    let job = json!({
        "apiVersion": PaddleJob::api_version(&()),
        "kind": PaddleJob::kind(&()),
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": meta.uid,
            "resourceVersion": version,
        },
        "status": status,
    });
    let mut request = Request::new(PaddleJob::url_path(&(), Some(namespace)))
        .replace_subresource(
            "status",
            name,
            &PostParams::default(),
            job.to_string().into(),
        )
        .map_err(|error| Error::Publish(kube::Error::BuildRequest(error)))?;
    let accept = HeaderValue::from_static(METADATA_ONLY);
    request.headers_mut().insert(ACCEPT, accept);
    match context
        .client
        .request::<PartialObjectMeta<PaddleJob>>(request)
        .await
    {
        Ok(new) => context.memories.note_written(
            identity(&meta.uid),
            version,
            new.metadata.resource_version.as_deref(),
        ),
        // Deleted meanwhile: there is nobody to tell.
        Err(error) if code(&error) == Some(404) => {}
        // An API server without ratcheting lets nothing of an object be
        // written whose spec it would refuse today; the events remain.
        Err(error) if code(&error) == Some(422) => {
            tracing::warn!(namespace, name, %error, "paddlejob {namespace}/{name}: the status is refused");
        }
        Err(error) => return Err(Error::Publish(error)),
    }
    Ok(())
}

async fn tell(context: &Context, meta: &ObjectMeta, events: &[Event], now: Timestamp) {
    if events.is_empty() {
        return;
    }
    let about = k8s_openapi::api::core::v1::ObjectReference {
        api_version: Some("batch.paddlepaddle.org/v1".to_owned()),
        kind: Some("PaddleJob".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    };
    let reporter = Reporter {
        client: &context.client,
        component: NAME,
        about,
    };
    for Event {
        is_warning,
        reason,
        message,
    } in events
    {
        reporter.tell(*is_warning, reason, message, now).await;
    }
}
