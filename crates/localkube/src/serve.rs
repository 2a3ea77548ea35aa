//! The API on a socket: TLS, the token, and the names that it answers to.
//!
//! HTTP/1.1 alone: every client of Kubernetes speaks it, upgrades to WebSockets
//! need it, and on one machine a connection more costs nothing.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::credentials::Credentials;
use crate::http::refusal;
use crate::status::Status;

/// How long a client may take to shake hands, and to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request; also how much of a body waits to be read.
const MAX_HEAD: usize = 64 << 10;
/// How long requests that are under way at the end may go on. Watches would go
/// on for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long to wait when the machine has no room for another connection.
const BREATH: Duration = Duration::from_millis(100);

/// Serves a router until `shutdown` is done. Only who knows the token is let in,
/// and only by a name of ours: a page in a browser that lets its own name point
/// to this machine is turned away.
///
/// # Errors
/// When the socket is broken.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    credentials: Credentials,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (ending, ended) = watch::channel(false);
    let acceptor = TlsAcceptor::from(credentials.tls());
    let credentials = Arc::new(credentials);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            },
            _ = connections.join_next(), if !connections.is_empty() => continue,
            () = &mut shutdown => break,
        };
        let connection = Connection {
            acceptor: acceptor.clone(),
            credentials: Arc::clone(&credentials),
            router: router.clone(),
            ended: ended.clone(),
        };
        connections.spawn(async move {
            if let Err(error) = connection.run(stream).await {
                tracing::debug!(%error, "a connection broke");
            }
        });
    }
    ending.send_replace(true);
    let rest = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    connections.shutdown().await;
    Ok(())
}

/// Somebody who has come.
struct Connection {
    acceptor: TlsAcceptor,
    credentials: Arc<Credentials>,
    router: Router,
    ended: watch::Receiver<bool>,
}

impl Connection {
    async fn run(
        mut self,
        stream: TcpStream,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        // Events are short and shall not wait for one another.
        stream.set_nodelay(true)?;
        let stream = tokio::time::timeout(PATIENCE, self.acceptor.accept(stream)).await??;
        let service = service_fn(|request: Request<hyper::body::Incoming>| {
            let (credentials, router) = (Arc::clone(&self.credentials), self.router.clone());
            async move {
                match admit(&credentials, &request) {
                    Ok(()) => router.oneshot(request.map(Body::new)).await,
                    Err(status) => Ok::<Response, _>(refusal(&status)),
                }
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            done = connection.as_mut() => return Ok(done?),
            _ = self.ended.wait_for(|ended| *ended) => {}
        }
        connection.as_mut().graceful_shutdown();
        Ok(connection.await?)
    }
}

/// Whether a request came by a name of ours, and from one who knows the token.
fn admit<B>(credentials: &Credentials, request: &Request<B>) -> Result<(), Status> {
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    let host = request.headers().get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if authority.is_none() && host.is_none() {
        return Err(Status::bad_request("the request has no Host"));
    }
    for host in authority.into_iter().chain(host) {
        if !credentials.is_host(without_port(host)) {
            return Err(Status::foreign_host(host));
        }
    }
    let mut tokens = request.headers().get_all(header::AUTHORIZATION).iter();
    let token = tokens
        .next()
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map_or("", |(_, token)| token.trim());
    match credentials.is_token(token) && tokens.next().is_none() {
        true => Ok(()),
        false => Err(Status::unauthorized()),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}
