//! Garbage harms nothing: no panic, no hang, nothing that can't be read again.
//!
//! It is thrown for two seconds; `LOCALKUBE_GARBAGE_SECONDS` makes it more.
//! `LOCALKUBE_GARBAGE_SEED` repeats a run.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod support;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use support::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// A generator of numbers (splitmix64): the same for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

const WORDS: [&str; 44] = [
    "api",
    "apis",
    "v1",
    "namespaces",
    "default",
    "pods",
    "configmaps",
    "services",
    "events",
    "nodes",
    "statefulsets",
    "apps",
    "events.k8s.io",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
    "example.com",
    "widgets",
    "a",
    "b",
    "status",
    "scale",
    "log",
    "exec",
    "attach",
    "binding",
    "eviction",
    "finalize",
    "openapi",
    "v3",
    "version",
    "healthz",
    "..",
    "%2e%2e",
    "%00",
    "%ff%fe",
    "%2F",
    "a%20b",
    "A",
    "-",
    "%25",
    "é",
    "secrets",
    "leases",
    "",
];
const NAMES: [&str; 34] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "fieldValidation",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "gracePeriodSeconds",
    "propagationPolicy",
    "fieldManager",
    "force",
    "follow",
    "tailLines",
    "sinceTime",
    "sinceSeconds",
    "container",
    "command",
    "stdin",
    "tty",
    "includeObject",
    "pretty",
    "metadata",
    "spec",
    "containers",
    "name",
    "image",
    "finalizers",
    "labels",
    "annotations",
    "replicas",
    "$patch",
];
const TEXTS: [&str; 30] = [
    "",
    "true",
    "1",
    "-1",
    "0",
    "18446744073709551615",
    "9223372036854775807",
    "1e999",
    "x",
    "a=b",
    "a in (b,c)",
    "!a",
    "a notin (",
    "metadata.name=a",
    "All",
    "Strict",
    "Object",
    "2026-01-01T00:00:00Z",
    "-9999-01-01T00:00:00Z",
    "\u{0}",
    "..",
    "a/b",
    "é\u{202e}",
    "None",
    "W10",
    "bnVsbA",
    "ClusterIP",
    "Always",
    "1Gi",
    "-0.0000000001Ki",
];
const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "",
];

fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.pick(&TEXTS)),
        3 => json!(dice.pick(&[0, 1, -1, i64::MAX, i64::MIN, 80, 65_536])),
        4 => json!(dice.pick(&[0.5, -1e308, 1e308])),
        5 => json!(u64::MAX),
        6 | 7 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => (0..dice.below(5))
            .map(|_| {
                let name = if dice.below(4) == 0 {
                    &TEXTS[..]
                } else {
                    &NAMES[..]
                };
                (dice.pick(name).to_owned(), value(dice, depth - 1))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// Something that could be meant well, with a part of it spoilt.
fn spoilt(dice: &mut Dice) -> Value {
    let metadata = json!({"name": dice.pick(&["a", "b", "..", "A"]), "labels": {"x": "y"}});
    let container = json!({
        "name": "c", "image": "x", "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    let pod = json!({
        "containers": [container], "volumes": [{"name": "v"}], "tolerations": [{"operator": "Exists"}],
    });
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}},
            "x-kubernetes-validations": [{"rule": "self.size < 9"}]},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let mut object = match dice.below(7) {
        0 => json!({"metadata": metadata, "spec": pod}),
        1 => json!({"metadata": metadata, "data": {"k": "v"}}),
        2 => {
            json!({"metadata": metadata, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
        }
        3 => json!({"metadata": metadata, "spec": {"serviceName": "s", "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}),
        4 => json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size"}}}]}}),
        5 => json!({"metadata": metadata, "involvedObject": {"kind": "Pod"}, "reason": "R"}),
        _ => json!({"metadata": metadata, "spec": {"size": 1}, "target": {"name": "n"}}),
    };
    for _ in 0..dice.below(4) {
        spoil(dice, &mut object);
    }
    object
}

fn spoil(dice: &mut Dice, at: &mut Value) {
    if dice.below(5) == 0 {
        *at = value(dice, 3);
        return;
    }
    match at {
        Value::Object(map) if !map.is_empty() => {
            let index = dice.below(map.len());
            let (_, inner) = map.iter_mut().nth(index).unwrap();
            spoil(dice, inner);
        }
        Value::Array(items) if !items.is_empty() => {
            let index = dice.below(items.len());
            spoil(dice, &mut items[index]);
        }
        at => *at = value(dice, 2),
    }
}

fn json_patch(dice: &mut Dice) -> Value {
    let place = |dice: &mut Dice| -> String {
        let steps = (0..dice.below(5)).map(|_| format!("/{}", dice.pick(&NAMES)));
        steps.collect()
    };
    (0..dice.below(6))
        .map(|_| {
            json!({
                "op": dice.pick(&["add", "remove", "replace", "copy", "move", "test", "x"]),
                "path": place(dice), "from": place(dice), "value": value(dice, 2),
            })
        })
        .collect()
}

fn body(dice: &mut Dice) -> Vec<u8> {
    let deep = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(10_000), close.repeat(10_000))
    };
    match dice.below(16) {
        0 => Vec::new(),
        1 => dice.bytes(2000),
        2 => deep("[", "1", "]").into_bytes(),
        3 => deep(r#"{"a":"#, "1", "}").into_bytes(),
        4 => deep("- ", "a", "").into_bytes(),
        5 => format!("{{\"spec\": {}}}", "9".repeat(dice.below(5000))).into_bytes(),
        6 => b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n".to_vec(),
        7 | 8 => json_patch(dice).to_string().into_bytes(),
        9 => {
            let mut text = spoilt(dice).to_string().into_bytes();
            let at = dice.below(text.len());
            text[at] = dice.next().to_le_bytes()[0];
            text
        }
        10 => value(dice, 4).to_string().into_bytes(),
        _ => spoilt(dice).to_string().into_bytes(),
    }
}

fn path(dice: &mut Dice) -> String {
    let known = [
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/services/a",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events/a",
        "/apis/apps/v1/namespaces/default/statefulsets",
        "/apis/apps/v1/namespaces/default/statefulsets/a",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        "/apis/example.com/v1/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/widgets/a",
        "/api/v1/nodes",
        "/api/v1/namespaces",
    ];
    let mut path = match dice.below(4) {
        0 => String::new(),
        _ => dice.pick(&known).to_owned(),
    };
    for _ in 0..dice.below(if path.is_empty() { 9 } else { 2 }) {
        path.push('/');
        path.push_str(dice.pick(&WORDS));
    }
    path.push_str(if path.is_empty() { "/?" } else { "?" });
    for _ in 0..dice.below(4) {
        let text = percent_encoding::utf8_percent_encode(
            dice.pick(&TEXTS),
            percent_encoding::NON_ALPHANUMERIC,
        );
        path.push_str(&format!("{}={text}&", dice.pick(&NAMES)));
    }
    path
}

fn request(dice: &mut Dice) -> Option<Request<Body>> {
    let methods = [
        Method::GET,
        Method::POST,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    // Some paths are none, and never come as far as to us.
    let uri: axum::http::Uri = path(dice).parse().ok()?;
    let mut request = Request::builder().method(dice.pick(&methods)).uri(uri);
    if let Ok(accept) = HeaderValue::from_bytes(&dice.bytes(20)) {
        request = request.header("accept", accept);
    }
    if dice.below(3) == 0 {
        request = request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    }
    request = request.header("content-type", dice.pick(&TYPES));
    request.body(Body::from(body(dice))).ok()
}

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
