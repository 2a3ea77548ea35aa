//! What a real API server took and refused, with which words: asked again here.
//!
//! `refusals.jsonl` was recorded from kube-apiserver. With `LOCALKUBE_RECORD=1`
//! the same requests go to the (new) cluster of the current kubeconfig, and the file is
//! written anew: what we answer differently shows in the next run without it.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};
use support::File;

const NAMESPACE: &str = "refusals";

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    type_: &str,
    body: &Value,
) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", type_)
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .unwrap();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

/// The first line of what is told; the real one adds what has changed.
fn told((code, answer): (u16, Value)) -> (u16, Option<String>) {
    let message = answer.get("message").and_then(Value::as_str);
    let message = message.and_then(|message| message.lines().next());
    let message = message.filter(|_| code >= 400).map(str::to_owned);
    (code, message)
}

async fn ask(client: &Client, request: &Value) -> (u16, Option<String>) {
    let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap();
    let body = request.get("body").unwrap();
    told(send(client, text("method"), text("path"), text("type"), body).await)
}

#[tokio::test]
async fn what_the_real_one_refuses_is_refused_in_the_same_words() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/refusals.jsonl");
    let recorded = std::fs::read_to_string(&path).unwrap();
    let mut requests: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_recording = std::env::var_os("LOCALKUBE_RECORD").is_some();
    let file = File::new("refusals");
    let client = if is_recording {
        Client::try_default().await.unwrap()
    } else {
        let api = localkube::Api::open(&file.0).await.unwrap();
        let router = localkube::http::router(api, axum::Router::new());
        Client::new(router.into_service(), "default")
    };
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    let made = send(
        &client,
        "POST",
        "/api/v1/namespaces",
        "application/json",
        &namespace,
    )
    .await;
    assert_eq!(made.0, 201, "{}", made.1);
    let mut different = Vec::new();
    for request in &mut requests {
        let (code, message) = ask(&client, request).await;
        let now = json!({"code": code, "message": message});
        let is_same = now.as_object().is_some_and(|now| {
            now.iter()
                .all(|(key, value)| request.get(key) == Some(value))
        });
        if !is_same {
            different.push(format!("{request}\n    {now}"));
            let request = request.as_object_mut().unwrap();
            request.insert("code".to_owned(), json!(code));
            request.insert("message".to_owned(), json!(message));
        }
    }
    if is_recording {
        let lines = requests.iter().map(|request| format!("{request}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        let path = format!("/api/v1/namespaces/{NAMESPACE}");
        send(&client, "DELETE", &path, "application/json", &json!({})).await;
        return;
    }
    assert!(requests.len() > 200);
    assert!(different.is_empty(), "{}", different.join("\n"));
}
