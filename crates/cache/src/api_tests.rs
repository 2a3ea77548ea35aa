//! The HTTP surface, without a socket.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use axum::body::Body;
use axum::http::Method;
use cache_api::{Cache, Job, JobState};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::store::Store;

struct App {
    _dir: tempfile::TempDir,
    service: Service,
}

fn app() -> App {
    let dir = tempfile::tempdir().unwrap();
    let (store, found) = Store::open(dir.path().join("jobs")).unwrap();
    App {
        service: Service {
            jobs: Jobs::new(store, found).0,
            figures: Figures::new(None),
            metrics: Metrics::new(),
            token: Arc::from("the-token"),
        },
        _dir: dir,
    }
}

impl App {
    async fn send(
        &self,
        request: axum::http::request::Builder,
        body: Body,
    ) -> (StatusCode, Vec<u8>) {
        let request = request.body(body).unwrap();
        let response = router(self.service.clone()).oneshot(request).await.unwrap();
        let status = response.status();
        (
            status,
            response
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .to_vec(),
        )
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer the-token");
        let (status, answer) = self.send(request, Body::from(body.to_string())).await;
        (status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, &Value::Null).await
    }

    async fn post(&self, job: &Value) -> (StatusCode, Value) {
        self.ask(Method::POST, "/v1/jobs", job).await
    }

    async fn job(&self, path: &str) -> Job {
        serde_json::from_value(self.get(path).await.1).unwrap()
    }
}

fn clear(id: &str) -> Value {
    json!({"id": id, "owner": "uid", "task": {"type": "clear"}})
}

#[tokio::test]
async fn only_who_knows_the_token_is_let_in() {
    let app = app();
    let given = [
        vec![],
        vec!["the-token"],
        vec!["Bearer wrong"],
        vec!["Bearer "],
        vec!["Bearer the-token-and-more"],
        vec!["Basic the-token"],
        vec!["Bearer the-token", "Bearer wrong"],
    ];
    for headers in given {
        for path in ["/v1/jobs", "/v1/cache", "/v1/jobs/a"] {
            let mut request = Request::builder().uri(path);
            for header in &headers {
                request = request.header("authorization", *header);
            }
            let (status, body) = app.send(request, Body::empty()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{headers:?} {path}");
            let refusal: Refusal = serde_json::from_slice(&body).unwrap();
            assert!(!refusal.message.contains("the-token"));
        }
    }
    for path in ["/healthz", "/metrics"] {
        let (status, _) = app.send(Request::builder().uri(path), Body::empty()).await;
        assert_eq!(status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_job_is_posted_listed_and_cancelled() {
    let app = app();
    let (status, job) = app.post(&clear("a-1.b")).await;
    assert_eq!(
        (status, &job["state"]),
        (StatusCode::CREATED, &json!("queued"))
    );
    assert_eq!(
        app.post(&clear("a-1.b")).await,
        (StatusCode::OK, job.clone())
    );
    assert_eq!(app.get("/v1/jobs").await, (StatusCode::OK, json!([job])));
    let delete = || app.ask(Method::DELETE, "/v1/jobs/a-1.b", &Value::Null);
    let (status, job) = delete().await;
    assert_eq!(
        (status, &job["state"]),
        (StatusCode::OK, &json!("cancelled"))
    );
    assert_eq!(delete().await, (StatusCode::OK, job.clone()));
    assert_eq!(app.get("/v1/jobs/a-1.b").await, (StatusCode::OK, job));
    let unknown = app.ask(Method::DELETE, "/v1/jobs/other", &Value::Null);
    assert_eq!(unknown.await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn another_job_under_the_same_id_is_refused() {
    let app = app();
    app.post(&clear("a")).await;
    let mut other = clear("a");
    other["task"] = json!({"type": "clear", "paths": ["x"]});
    let (status, answer) = app.post(&other).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(answer["message"].as_str().unwrap().contains("same job"));
}

#[tokio::test]
async fn what_is_no_job_is_refused_without_a_word_of_its_values() {
    let app = app();
    let with_id = |id: &str| clear(id);
    let mut bad = vec![
        json!("SECRET"),
        json!({"id": "a"}),
        json!({"id": "a", "owner": "u", "task": {"type": "SECRET"}}),
        json!({"id": "a", "owner": "u", "task": {"type": "rmr", "SECRET": 1}}),
        json!({"id": "a", "owner": "u", "task": {"type": "sync"}, "credentials": {"metaurl": 5, "secretKey": "SECRET"}}),
        json!({"id": "a", "owner": "u", "task": {"type": "sync"}, "credentials": {"metaurl": ["SECRET"]}}),
        json!({"id": "a", "owner": "../u", "task": {"type": "clear"}}),
    ];
    bad.extend(["", ".", "..", "a/b", "../a", "a b", "ä", "a\0", ".a"].map(with_id));
    bad.push(with_id(&"a".repeat(129)));
    for job in bad {
        let (status, answer) = app.post(&job).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{job}");
        assert!(!answer.to_string().contains("SECRET"), "{answer}");
    }
    assert_eq!(app.get("/v1/jobs").await.1, json!([]));
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let app = app();
    let mut job = clear("a");
    job["task"]["paths"] = json!(["x".repeat(MAX_BODY)]);
    let (status, answer) = app.post(&job).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer["message"].is_string());
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_json() {
    let app = app();
    let (status, answer) = app.get("/v2").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(answer["message"].is_string());
    let (status, _) = app.ask(Method::PUT, "/v1/jobs", &Value::Null).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    for query in ["since=x", "wait=-1", "since=1&wait=1e9"] {
        for path in ["/v1/cache", "/v1/jobs/a"] {
            let (status, _) = app.get(&format!("{path}?{query}")).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        }
    }
}

#[tokio::test]
async fn a_sync_without_keys_asks_for_them() {
    let app = app();
    let mut job = json!({"id": "s", "owner": "u", "task": {"type": "sync", "source": "s3://b/"}});
    assert_eq!(app.post(&job).await.1["state"], "needs-credentials");
    job["credentials"] = json!({"metaurl": "redis://h/0"});
    assert_eq!(app.post(&job).await.1["state"], "queued");
}

#[tokio::test(start_paused = true)]
async fn a_poll_for_a_job_ends_with_a_change_or_in_time() {
    let app = app();
    app.post(&clear("a")).await;
    let before = app.job("/v1/jobs/a").await;
    let start = tokio::time::Instant::now();
    let path = format!("/v1/jobs/a?since={}&wait=20", before.revision);
    assert_eq!(app.job(&path).await, before);
    assert_eq!(start.elapsed().as_secs(), 20);
    let path = format!("/v1/jobs/a?since={}&wait=100000", before.revision);
    let change = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        app.service.jobs.next().await
    };
    let (job, _turn) = tokio::join!(app.job(&path), change);
    assert_eq!(job.state, JobState::Running);
    assert_eq!(start.elapsed().as_secs(), 27);
    assert_eq!(
        app.job(&path).await,
        job,
        "another revision is answered at once"
    );
    assert_eq!(start.elapsed().as_secs(), 27);
    let path = format!("/v1/jobs/a?since={}&wait=100000", job.revision);
    app.job(&path).await;
    assert_eq!(start.elapsed().as_secs(), 27 + MAX_WAIT_SECONDS);
}

#[tokio::test(start_paused = true)]
async fn a_poll_for_figures_ends_with_a_change() {
    let app = app();
    let (_, before) = app.get("/v1/cache").await;
    let start = tokio::time::Instant::now();
    let path = format!("/v1/cache?since={}&wait=30", before["revision"]);
    let change = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        app.service.figures.set_share(5);
    };
    let ((_, after), ()) = tokio::join!(app.get(&path), change);
    let cache: Cache = serde_json::from_value(after).unwrap();
    assert_eq!(cache.share, Some(5));
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn metrics_have_the_figures() {
    let app = app();
    app.service.figures.set_share(5);
    app.service.metrics.count("sync", &JobState::Cancelled);
    let (_, body) = app
        .send(Request::builder().uri("/metrics"), Body::empty())
        .await;
    let text = String::from_utf8(body).unwrap();
    for line in [
        "paddle_cache_share_bytes 5",
        r#"paddle_cache_jobs_total{type="sync",outcome="cancelled"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
