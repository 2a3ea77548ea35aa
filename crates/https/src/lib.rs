//! A router on a socket, over TLS. Who may come in is the router's business.
//!
//! HTTP/1.1 alone: every client of ours speaks it, upgrades to WebSockets need
//! it, and a connection more costs little.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// How long a client may take to shake hands, and to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request; also how much of a body waits to be read.
const MAX_HEAD: usize = 64 << 10;
/// How long requests that are under way at the end may go on. Watches and long
/// polls would go on for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long to wait when the machine has no room for another connection.
const BREATH: Duration = Duration::from_millis(100);

/// How a server with a certificate speaks TLS.
///
/// # Errors
/// When certificate and key don't fit each other.
pub fn config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves a router until `shutdown` is done.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let (ending, ended) = watch::channel(false);
    let acceptor = TlsAcceptor::from(tls);
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
}

/// Somebody who has come.
struct Connection {
    acceptor: TlsAcceptor,
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
            self.router.clone().oneshot(request.map(Body::new))
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
