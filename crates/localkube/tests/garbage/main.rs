//! Garbage harms nothing: no panic, no hang, nothing that can't be read again.
//!
//! It is thrown for two seconds; `LOCALKUBE_GARBAGE_SECONDS` makes it more.
//! `LOCALKUBE_GARBAGE_SEED` repeats a run.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod dice;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use dice::{Dice, request};
use serde_json::{Value, json};
use support::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// Sends a request and reads the answer, or as much of a watch as there is.
async fn send(router: &Router, request: Request<Body>) -> u16 {
    let told = format!("{} {}", request.method(), request.uri());
    let answer = router.clone().oneshot(request);
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
    let answer = answer
        .unwrap_or_else(|_| unreachable!("{told} hangs"))
        .unwrap();
    let code = answer.status().as_u16();
    let read = axum::body::to_bytes(answer.into_body(), 64 << 20);
    let _ = tokio::time::timeout(Duration::from_millis(2), read).await;
    assert!(code < 500 || code == 503, "{told}: {code}");
    code
}

/// The API over a file again, once the one before has let go of it.
async fn reopened(file: &File) -> localkube::Api {
    for _ in 0..500 {
        match localkube::Api::open(&file.0).await {
            Ok(api) => return api,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    unreachable!("the store does not open again")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The memory of this process in MiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    size.unwrap_or(0) / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http() {
    let seconds = number("LOCALKUBE_GARBAGE_SECONDS").unwrap_or(2);
    let seed = number("LOCALKUBE_GARBAGE_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        now.subsec_nanos().into()
    });
    let file = File::new("garbage");
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, Router::new());
    let (mut dice, ends) = (Dice(seed), Instant::now() + Duration::from_secs(seconds));
    let mut codes = std::collections::BTreeMap::<u16, usize>::new();
    while Instant::now() < ends {
        if let Some(request) = request(&mut dice) {
            *codes.entry(send(&router, request).await).or_default() += 1;
        }
    }
    // It was garbage of all sorts, and some of it was good enough.
    let count = |code: u16| codes.get(&code).copied().unwrap_or(0);
    assert!(
        count(200) > 10 && count(400) > 10 && count(404) > 10,
        "seed {seed}: {codes:?}"
    );
    assert!(count(201) + count(422) > 10, "seed {seed}: {codes:?}");
    assert!(memory() < 700, "{} MiB after {codes:?}", memory());
    let good = Request::get("/api/v1/namespaces/default")
        .body(Body::empty())
        .unwrap();
    assert_eq!(send(&router, good).await, 200);
    // All that was taken can be read again.
    drop(router);
    let again = reopened(&file).await;
    assert!(again.revision() > 1);
}

/// Steps that copy copies would fill the machine, or break the stack.
#[tokio::test]
async fn a_patch_that_grows_is_refused() {
    let file = File::new("garbage-copies");
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, Router::new());
    let made = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(1000)}});
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .body(Body::from(made.to_string()))
        .unwrap();
    assert_eq!(send(&router, request).await, 201);
    let wide =
        |index: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/x{index}")});
    let deep = |_| json!({"op": "copy", "from": "/data", "path": "/data/x"});
    let many = |_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"});
    let patches: [Value; 3] = [
        (0..60).map(wide).collect(),
        (0..60).map(deep).collect(),
        (0..20_000).map(many).collect(),
    ];
    for patch in patches {
        let request = Request::patch("/api/v1/namespaces/default/configmaps/a")
            .header("content-type", "application/json-patch+json")
            .body(Body::from(patch.to_string()))
            .unwrap();
        assert_eq!(send(&router, request).await, 422);
    }
}

/// Lists that are long take long only in proportion.
#[tokio::test]
async fn long_lists_are_no_trap() {
    let file = File::new("garbage-lists");
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, Router::new());
    let containers: Vec<Value> = (0..40_000)
        .map(|index| json!({"name": format!("c{index}"), "image": "x"}))
        .collect();
    let pod = |containers: &[Value]| json!({"metadata": {"name": "a"}, "spec": {"containers": containers}});
    let small = Request::post("/api/v1/namespaces/default/pods")
        .body(Body::from(pod(&containers[..1]).to_string()))
        .unwrap();
    assert_eq!(send(&router, small).await, 201);
    let mut named = pod(&containers);
    named["metadata"]["name"] = json!("b");
    let large = Request::post("/api/v1/namespaces/default/pods")
        .body(Body::from(named.to_string()))
        .unwrap();
    assert_eq!(send(&router, large).await, 413);
    let all = pod(&containers).to_string();
    for (request, wanted) in [
        (Request::put("/api/v1/namespaces/default/pods/a"), 422),
        (
            Request::patch("/api/v1/namespaces/default/pods/a")
                .header("content-type", "application/strategic-merge-patch+json"),
            422,
        ),
    ] {
        let request = request.body(Body::from(all.clone())).unwrap();
        assert_eq!(send(&router, request).await, wanted);
    }
}

/// What is no TLS, and no HTTP within it, ends the connection and nothing else.
#[tokio::test]
async fn on_the_socket() {
    let file = File::new("garbage-socket");
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("garbage-socket");
    let credentials = localkube::Credentials::in_dir(&dir, &[]).unwrap();
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, Router::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let forever = std::future::pending();
    let server = tokio::spawn(localkube::serve(listener, router, credentials, forever));
    let mut roots = rustls::RootCertStore::empty();
    let authority = rustls::pki_types::pem::PemObject::from_pem_file(dir.join("ca.crt"));
    roots.add(authority.unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let mut dice = Dice(7);
    for round in 0..60 {
        let mut plain = TcpStream::connect(address).await.unwrap();
        if round % 2 == 0 {
            let _ = plain.write_all(&dice.bytes(500)).await;
            continue;
        }
        let name = "localhost".try_into().unwrap();
        let mut tls = connector.connect(name, plain).await.unwrap();
        let said = match round % 3 {
            0 => dice.bytes(500),
            1 => [b"GET /\0\xff HTTP/1.1\r\nHost: ".to_vec(), dice.bytes(50)].concat(),
            _ => b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nContent-Length: 1\r\n\r\n".to_vec(),
        };
        let _ = tls.write_all(&said).await;
    }
    let plain = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut tls = connector.connect(name, plain).await.unwrap();
    tls.write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 401 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    server.abort();
}
