//! An HTTP server in front of the API server that passes everything on, except
//! when it does not: errors instead of answers, answers that get lost after the
//! deed was done, watches that break off, lag behind or are too old.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use futures::{FutureExt, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::faults::{Fault, Faults, WatchFault};

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Line = Result<Bytes, io::Error>;

/// The proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: PathBuf,
    faults: Faults,
    _server: JoinSet<()>,
}

impl Proxy {
    /// Listens on the loopback and passes on as the given client.
    pub async fn start(client: Client, random: fastrand::Rng) -> Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos-proxy.kubeconfig");
        // JSON is YAML.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
            "current-context": "proxy",
        });
        std::fs::write(&kubeconfig, config.to_string())
            .with_context(|| kubeconfig.display().to_string())?;
        let faults = Faults::new(random);
        let mut server = JoinSet::new();
        server.spawn(serve(listener, client, faults.clone()));
        Ok(Proxy {
            kubeconfig,
            faults,
            _server: server,
        })
    }

    /// A kubeconfig that leads through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Every kind of fault came at least once.
    pub fn has_done_everything(&self) -> Result<()> {
        self.faults.were_all_done()
    }
}

async fn serve(listener: TcpListener, client: Client, faults: Faults) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (client, faults) = (client.clone(), faults.clone());
        let answer = service_fn(move |request| {
            let (client, faults) = (client.clone(), faults.clone());
            async move { answer(request, client, faults).await }
        });
        // It ends with an error whenever a fault breaks the connection.
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        connections.spawn(async move { drop(connection.await) });
    }
}

/// An error here breaks the connection without an answer.
async fn answer(
    request: Request<Incoming>,
    client: Client,
    faults: Faults,
) -> io::Result<Response<Body>> {
    let is_watch = request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|part| part.starts_with("watch=")));
    if is_watch {
        return watch(request, client, faults).await;
    }
    match faults.of_request(request.method()) {
        None => {
            let (parts, body) = forward(request, client).await?.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            Ok(Response::from_parts(parts, whole(body)))
        }
        Some(Fault::Conflict) => refuse(StatusCode::CONFLICT, "Conflict"),
        Some(Fault::TooMany) => refuse(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        Some(Fault::Internal) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Some(Fault::DoneAndInternal) => {
            finish(request, client).await?;
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        }
        Some(Fault::DoneAndLost) => {
            finish(request, client).await?;
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// Passes a request on and returns when it is done.
async fn finish(request: Request<Incoming>, client: Client) -> io::Result<()> {
    let answer = forward(request, client).await?;
    let body = answer.into_body().collect_bytes().await;
    body.map(drop).map_err(io::Error::other)
}

async fn forward(
    request: Request<Incoming>,
    client: Client,
) -> io::Result<Response<kube::client::Body>> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    // These belong to the connection.
    for name in [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        parts.headers.remove(name);
    }
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let mut answer = client.send(request).await.map_err(io::Error::other)?;
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        answer.headers_mut().remove(name);
    }
    Ok(answer)
}

async fn watch(
    request: Request<Incoming>,
    client: Client,
    faults: Faults,
) -> io::Result<Response<Body>> {
    let fault = faults.of_watch();
    match fault {
        Some((WatchFault::Gone, _)) => return refuse(StatusCode::GONE, "Expired"),
        Some((WatchFault::Internal, _)) => {
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        _ => {}
    }
    let (parts, body) = forward(request, client).await?.into_parts();
    // Room for one: what the manager does not read, the API server keeps.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(relay(body, sender, fault, faults));
    let lines = stream::unfold(receiver, |mut receiver| async {
        let line: Line = receiver.recv().await?;
        Some((line.map(Frame::data), receiver))
    });
    Ok(Response::from_parts(
        parts,
        StreamBody::new(lines).boxed_unsync(),
    ))
}

/// Passes on event by event until the fault comes or somebody hangs up.
async fn relay(
    body: kube::client::Body,
    sender: mpsc::Sender<Line>,
    fault: Option<(WatchFault, std::time::Duration)>,
    faults: Faults,
) {
    let deadline = fault.map(|(_, after)| Instant::now() + after);
    let end = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let mut end = std::pin::pin!(end);
    let mut chunks = body.into_data_stream();
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = &mut end => break,
            chunk = chunks.next() => match chunk {
                Some(Ok(chunk)) => buffer.extend_from_slice(&chunk),
                _ => return,
            },
        }
        if let Some(late) = faults.lateness() {
            tokio::time::sleep(late).await;
        }
        // What has come meanwhile goes with it: a late event holds up those
        // behind it, but not ever more of them.
        while let Some(Some(Ok(chunk))) = chunks.next().now_or_never() {
            buffer.extend_from_slice(&chunk);
        }
        let Some(at) = buffer.iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };
        let rest = buffer.split_off(at + 1);
        let lines = Bytes::from(std::mem::replace(&mut buffer, rest));
        if sender.send(Ok(lines)).await.is_err() {
            return;
        }
    }
    let last = match fault {
        Some((WatchFault::GoneLater, _)) => {
            let event = json!({"type": "ERROR", "object": status(StatusCode::GONE, "Expired")});
            Ok(format!("{event}\n").into())
        }
        Some((WatchFault::Breaks, _)) => {
            let half = Bytes::from_static(br#"{"type":"MODIFIED","object":{"kind":"#);
            if sender.send(Ok(half)).await.is_err() {
                return;
            }
            Err(io::ErrorKind::ConnectionReset.into())
        }
        _ => return,
    };
    let _ = sender.send(last).await;
}

/// An error in the words of the API server.
fn refuse(code: StatusCode, reason: &str) -> io::Result<Response<Body>> {
    let mut answer = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json");
    if code == StatusCode::TOO_MANY_REQUESTS {
        answer = answer.header(RETRY_AFTER, 1);
    }
    let body = whole(status(code, reason).to_string().into());
    answer.body(body).map_err(io::Error::other)
}

fn status(code: StatusCode, reason: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "a fault of the test",
        "reason": reason,
        "code": code.as_u16(),
    })
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}
