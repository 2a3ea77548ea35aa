//! Serves a new API on a loopback port, for a look at it with kubectl:
//! `kubectl -s http://127.0.0.1:8001 get namespaces`.

use std::path::PathBuf;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).map(PathBuf::from);
    let file = file.unwrap_or_else(|| std::env::temp_dir().join("localkube.redb"));
    let api = localkube::Api::open(&file).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8001").await?;
    axum::serve(listener, localkube::http::router(api, axum::Router::new())).await?;
    Ok(())
}
