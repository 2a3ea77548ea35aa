//! Waiting for what no watch tells.

use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that the API does not know.
pub async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is().await {
        assert!(begin.elapsed() < PATIENCE, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
