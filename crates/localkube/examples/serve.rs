//! Serves an API on a loopback port, for a look at it with kubectl. The argument
//! is a directory, where the state and a kubeconfig are kept.

use std::path::PathBuf;

use localkube::{Api, Credentials};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).map(PathBuf::from);
    let dir = dir.unwrap_or_else(|| std::env::temp_dir().join("localkube"));
    let credentials = Credentials::in_dir(&dir, &[])?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("https://{}", listener.local_addr()?);
    std::fs::write(dir.join("kubeconfig"), credentials.kubeconfig(&server))?;
    let api = Api::open(&dir.join("state.redb")).await?;
    let router = localkube::http::router(api, axum::Router::new());
    let ctrl_c = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    localkube::serve(listener, router, credentials, ctrl_c).await?;
    Ok(())
}
