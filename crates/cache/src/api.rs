//! The HTTP surface.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, body::Bytes};
use cache_api::{MAX_WAIT_SECONDS, NewJob, Refusal};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use crate::figures::Figures;
use crate::jobs::{Jobs, Posted};
use crate::metrics::Metrics;

/// The longest job, with all its paths.
const MAX_BODY: usize = 1 << 20;
/// The longest id and owner.
const MAX_ID: usize = 128;

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) jobs: Jobs,
    pub(crate) figures: Figures,
    pub(crate) metrics: Metrics,
    pub(crate) token: Arc<str>,
}

/// `?since=&wait=`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Poll {
    since: Option<u64>,
    wait: Option<u64>,
}

impl Poll {
    /// How long a change may take; not at all when it has changed already.
    fn patience(self, revision: u64) -> Duration {
        let wait = self.wait.unwrap_or_default().min(MAX_WAIT_SECONDS);
        match self.since == Some(revision) {
            true => Duration::from_secs(wait),
            false => Duration::ZERO,
        }
    }
}

/// Everything that is answered.
pub(crate) fn router(service: Service) -> Router {
    let guarded = Router::new()
        .route("/v1/jobs", get(list).post(post))
        .route("/v1/jobs/{id}", get(job).delete(cancel))
        .route("/v1/cache", get(cache))
        .layer(middleware::from_fn_with_state(service.clone(), admit));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(async || "ok"))
        .route("/metrics", get(metrics))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "this can't be done at this path",
            )
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(service)
}

fn refusal(status: StatusCode, message: impl Into<String>) -> Response {
    let message = message.into();
    (status, Json(Refusal { message })).into_response()
}

/// Lets in who knows the token. It takes as long for a wrong one.
async fn admit(State(service): State<Service>, request: Request, next: Next) -> Response {
    let mut given = request.headers().get_all(header::AUTHORIZATION).iter();
    let token = given.next().and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = token.map_or("", |(_, token)| token.trim());
    let is_token: bool = token.as_bytes().ct_eq(service.token.as_bytes()).into();
    match is_token && given.next().is_none() {
        true => next.run(request).await,
        false => refusal(
            StatusCode::UNAUTHORIZED,
            "this is not the token of this set",
        ),
    }
}

async fn list(State(service): State<Service>) -> Response {
    Json(service.jobs.all()).into_response()
}

async fn post(State(service): State<Service>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("a job may have {MAX_BODY} bytes at most");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, message);
        }
        Err(_) => return refusal(StatusCode::BAD_REQUEST, "the job was cut off"),
    };
    let mut reader = serde_json::Deserializer::from_slice(&body);
    let job: NewJob = match serde_path_to_error::deserialize(&mut reader) {
        Ok(job) => job,
        // The place alone: what stands there may be a key.
        Err(error) => {
            let message = format!("this is not a job: {} is not as expected", error.path());
            return refusal(StatusCode::BAD_REQUEST, message);
        }
    };
    if let Err(message) = check(&job) {
        return refusal(StatusCode::BAD_REQUEST, message);
    }
    match on_disk(move || service.jobs.post(job)).await {
        Ok(Posted::New(job)) => (StatusCode::CREATED, Json(job)).into_response(),
        Ok(Posted::Known(job)) => Json(job).into_response(),
        Ok(Posted::Conflict) => {
            let message = "another job has this id; the same id means the same job";
            refusal(StatusCode::CONFLICT, message)
        }
        Ok(Posted::Full) => {
            let message = "too many jobs wait already; delete some";
            refusal(StatusCode::SERVICE_UNAVAILABLE, message)
        }
        Err(response) => response,
    }
}

async fn job(
    State(service): State<Service>,
    Path(id): Path<String>,
    poll: Result<Query<Poll>, QueryRejection>,
) -> Response {
    let Ok(Query(poll)) = poll else {
        return bad_poll();
    };
    let mut changes = service.jobs.changes();
    let Some(known) = service.jobs.job(&id) else {
        return unknown();
    };
    let change = async {
        // Jobs also change by being forgotten.
        while service
            .jobs
            .job(&id)
            .is_some_and(|job| job.revision == known.revision)
        {
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    // Too late is as good: the answer is what there is.
    let _ = tokio::time::timeout(poll.patience(known.revision), change).await;
    match service.jobs.job(&id) {
        Some(job) => Json(job).into_response(),
        None => unknown(),
    }
}

async fn cancel(State(service): State<Service>, Path(id): Path<String>) -> Response {
    match on_disk(move || service.jobs.cancel(&id)).await {
        Ok(Some(job)) if job.state.has_ended() => Json(job).into_response(),
        Ok(Some(job)) => (StatusCode::ACCEPTED, Json(job)).into_response(),
        Ok(None) => unknown(),
        Err(response) => response,
    }
}

async fn cache(
    State(service): State<Service>,
    poll: Result<Query<Poll>, QueryRejection>,
) -> Response {
    let Ok(Query(poll)) = poll else {
        return bad_poll();
    };
    let mut changes = service.figures.changes();
    let revision = changes.borrow().revision;
    let change = changes.wait_for(|cache| cache.revision != revision);
    let _ = tokio::time::timeout(poll.patience(revision), change).await;
    Json(service.figures.current()).into_response()
}

async fn metrics(State(service): State<Service>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match service.metrics.encode(&service.figures.current()) {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn unknown() -> Response {
    refusal(StatusCode::NOT_FOUND, "there is no job with this id")
}

fn bad_poll() -> Response {
    let message = "since is a revision and wait a number of seconds, as in ?since=7&wait=30";
    refusal(StatusCode::BAD_REQUEST, message)
}

/// Work with the disk, away from those who answer.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|_| Err(std::io::Error::other("the server is ending")));
    done.map_err(|error| {
        tracing::error!(%error, "jobs can't be kept");
        let message = format!("the job can't be kept on disk: {error}");
        refusal(StatusCode::INSUFFICIENT_STORAGE, message)
    })
}

fn check(job: &NewJob) -> Result<(), String> {
    let is_name = |name: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        (1..=MAX_ID).contains(&name.len()) && name.chars().all(known) && !name.starts_with('.')
    };
    for (field, name) in [("id", &job.id), ("owner", &job.owner)] {
        if !is_name(name) {
            return Err(format!(
                "{field} must be letters, digits, `-` and `.`, at most {MAX_ID}, and not begin \
                 with `.`"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
