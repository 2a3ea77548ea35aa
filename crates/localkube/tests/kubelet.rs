//! Logs and commands go to the machine that runs the pod.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod support;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, RawQuery};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, LogParams};
use kube::{Client, Config};
use serde_json::json;
use support::File;
use tokio::io::AsyncReadExt;
use tower::ServiceExt;

/// Says what it was asked for.
async fn logs(Path(path): Path<String>, RawQuery(query): RawQuery) -> Response {
    match &*path {
        "default/waits/c" => {
            let why = "container \"c\" in pod \"waits\" is waiting to start: ContainerCreating";
            (StatusCode::BAD_REQUEST, why).into_response()
        }
        _ => format!("{path} {}", query.unwrap_or_default()).into_response(),
    }
}

/// Speaks the protocol of commands: a byte for the channel, then what is said.
async fn exec(
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    upgrade: WebSocketUpgrade,
) -> Response {
    let told = format!("\u{1}{path} {}", query.unwrap_or_default());
    let talk = move |mut socket: WebSocket| async move {
        let ended = format!("\u{3}{}", json!({"metadata": {}, "status": "Success"}));
        for message in [told, ended] {
            let message = Message::Binary(message.into_bytes().into());
            socket.send(message).await.unwrap();
        }
        socket.close().await.unwrap();
    };
    upgrade
        .protocols(["v5.channel.k8s.io", "v4.channel.k8s.io"])
        .on_upgrade(talk)
}

fn kubelet() -> Router {
    Router::new()
        .route("/containerLogs/{*path}", get(logs))
        .route("/exec/{*path}", get(exec).post(exec))
}

struct Fixture {
    router: Router,
    _file: File,
}

impl Fixture {
    async fn new(name: &str, kubelet: Router) -> Fixture {
        let file = File::new(&format!("kubelet-{name}"));
        let api = localkube::Api::open(&file.0).await.unwrap();
        let fixture = Fixture {
            router: localkube::http::router(api, kubelet),
            _file: file,
        };
        for (pod, containers) in [
            ("one", &["c"][..]),
            ("two", &["a", "b"]),
            ("waits", &["c"]),
            ("homeless", &["c"]),
        ] {
            let containers = containers
                .iter()
                .map(|name| json!({"name": name, "image": "x"}));
            let containers = containers.collect::<Vec<_>>();
            let spec = json!({
                "initContainers": if pod == "two" { json!([{"name": "i", "image": "x"}]) } else { json!([]) },
                "containers": containers,
            });
            let body = json!({"metadata": {"name": pod}, "spec": spec});
            assert_eq!(fixture.post("", &body).await, StatusCode::CREATED);
            if pod != "homeless" {
                let body = json!({"metadata": {"name": pod}, "target": {"name": "n"}});
                let path = format!("/{pod}/binding");
                assert_eq!(fixture.post(&path, &body).await, StatusCode::CREATED);
            }
        }
        fixture
    }

    async fn post(&self, path: &str, body: &serde_json::Value) -> StatusCode {
        let request = Request::post(format!("/api/v1/namespaces/default/pods{path}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    /// The code, and the text or the message of an answer.
    async fn get(&self, path: &str) -> (u16, String) {
        let request = Request::get(format!("/api/v1/namespaces/default/pods/{path}"))
            .body(Body::empty())
            .unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        let Ok(status) = serde_json::from_str::<serde_json::Value>(&body) else {
            return (code, body);
        };
        let message = status.get("message").and_then(|message| message.as_str());
        (code, message.unwrap().to_owned())
    }
}

#[tokio::test]
async fn logs_are_asked_of_the_machine() {
    let fixture = Fixture::new("logs", kubelet()).await;
    for (path, wanted) in [
        ("one/log", (200, "default/one/c ")),
        (
            "one/log?follow=true&tailLines=3&timestamps=1&sinceSeconds=5&limitBytes=9&previous=false",
            (
                200,
                "default/one/c follow=true&timestamps=true&tailLines=3&sinceSeconds=5&limitBytes=9",
            ),
        ),
        (
            "one/log?sinceTime=2026-01-02T03:04:05Z",
            (200, "default/one/c sinceTime=2026-01-02T03%3A04%3A05Z"),
        ),
        ("two/log?container=i", (200, "default/two/i ")),
        // Nothing was written so far.
        ("homeless/log", (200, "")),
        ("none/log", (404, "pods \"none\" not found")),
        (
            "two/log",
            (
                400,
                "a container name must be specified for pod two, choose one of: [i a b]",
            ),
        ),
        (
            "two/log?container=q",
            (400, "container q is not valid for pod two"),
        ),
        (
            "one/log?tailLines=-1",
            (
                422,
                "PodLogOptions \"one\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
        ),
        (
            "waits/log",
            (
                400,
                "container \"c\" in pod \"waits\" is waiting to start: ContainerCreating",
            ),
        ),
        (
            "homeless/exec?command=ls",
            (400, "pod homeless does not have a host assigned"),
        ),
        (
            "two/exec?command=ls",
            (
                400,
                "a container name must be specified for pod two, choose one of: [i a b]",
            ),
        ),
        // This machine knows no such thing.
        (
            "one/attach",
            (404, "the server could not find the requested resource"),
        ),
    ] {
        let (code, text) = fixture.get(path).await;
        assert_eq!((code, &*text), wanted, "{path}");
    }
    assert_eq!(
        fixture.post("/one/log", &json!({})).await,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn without_a_machine_it_says_so() {
    let fixture = Fixture::new("none", Router::new()).await;
    let (code, message) = fixture.get("one/log").await;
    assert_eq!(code, 503);
    assert!(message.contains("no machine"), "{message}");
}

/// A client of Kubernetes runs a command: the connection is upgraded twice on
/// its way, and the words arrive.
#[tokio::test]
async fn a_command_talks_over_a_web_socket() {
    let fixture = Fixture::new("exec", kubelet()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = fixture.router.clone();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let pods: Api<Pod> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let params = AttachParams::default().container("b").stderr(false);
    let mut process = pods.exec("two", ["echo", "a b"], &params).await.unwrap();
    let mut told = String::new();
    let mut stdout = process.stdout().unwrap();
    stdout.read_to_string(&mut told).await.unwrap();
    assert_eq!(told, "default/two/b output=1&command=echo&command=a+b");
    let status = process.take_status().unwrap().await.unwrap();
    assert_eq!(status.status.as_deref(), Some("Success"));
    process.join().await.unwrap();
    let told = pods.logs("one", &LogParams::default()).await.unwrap();
    assert_eq!(told, "default/one/c ");
    let refused = match pods.exec("two", ["ls"], &AttachParams::default()).await {
        Ok(_) => panic!("two containers, and none is named"),
        Err(error) => error.to_string(),
    };
    assert!(refused.contains("400"), "{refused}");
    server.abort();
}
