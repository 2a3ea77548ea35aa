//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use controllers::Metrics;
use tokio::net::TcpListener;

/// Whether the process is ready: it works, or stands by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready(Arc<AtomicBool>);

impl Ready {
    /// From now on, or no longer.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn answer(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Relaxed) {
            (StatusCode::OK, "ok")
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the caches are being filled",
            )
        }
    }
}

/// The probes of the kubelet.
pub(crate) fn probes(ready: Ready) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(async move || ready.answer()))
}

/// The figures.
pub(crate) fn metrics(metrics: Metrics) -> Router {
    let encode = async move || match metrics.encode() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    Router::new().route("/metrics", get(encode))
}

/// Serves `router` at an address in the form of the Go operator (`:8080`); an
/// empty one, or `0`, is switched off.
pub(crate) async fn serve(flag: &str, address: &str, router: Router) -> anyhow::Result<()> {
    let addresses = parse_address(address).with_context(|| format!("--{flag}"))?;
    if addresses.is_empty() {
        return Ok(());
    }
    let listener = TcpListener::bind(&*addresses)
        .await
        .with_context(|| format!("--{flag}: can't listen on {address}"))?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "a server stopped");
        }
    });
    Ok(())
}

/// The addresses of which the first that can be had is taken: without a host it
/// is every address, and those of IPv4 alone where there is no IPv6.
fn parse_address(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let hosts: &[&str] = match text {
        "" | "0" => &[],
        _ if text.starts_with(':') => &["[::]", "0.0.0.0"],
        _ => &[""],
    };
    let parse = |host: &&str| {
        format!("{host}{text}")
            .parse()
            .with_context(|| format!("{text:?} is no address; :8080 or 127.0.0.1:8080 would be"))
    };
    hosts.iter().map(parse).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_the_form_of_go() {
        let all = [([0; 16], 8080).into(), ([0; 4], 8080).into()];
        assert_eq!(parse_address(":8080").unwrap(), all);
        let one = [([127, 0, 0, 1], 1).into()];
        assert_eq!(parse_address("127.0.0.1:1").unwrap(), one);
        assert_eq!(parse_address("0").unwrap(), []);
        assert_eq!(parse_address("").unwrap(), []);
        assert!(format!("{:#}", parse_address("8080").unwrap_err()).contains(":8080"));
    }
}
