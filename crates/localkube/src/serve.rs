//! The API on a socket: the token, and the names that it answers to.

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request as Asked, State};
use axum::http::{Request, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::net::TcpListener;

use crate::credentials::Credentials;
use crate::http::refusal;
use crate::status::Status;

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
    let tls = credentials.tls();
    let guard = middleware::from_fn_with_state(Arc::new(credentials), guard);
    https::serve(listener, tls, router.layer(guard), shutdown).await;
    Ok(())
}

async fn guard(
    State(credentials): State<Arc<Credentials>>,
    request: Asked,
    next: Next,
) -> Response {
    match admit(&credentials, &request) {
        Ok(()) => next.run(request).await,
        Err(status) => refusal(&status),
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
