//! Waiting for what no watch tells.

use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that the API does not know.
pub async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    until_ok(what, async || is().await.then_some(()).ok_or("")).await;
}

/// The same, with what there is as long as it is not so.
pub async fn until_ok<E: std::fmt::Display>(
    what: &str,
    mut is: impl AsyncFnMut() -> Result<(), E>,
) {
    let begin = Instant::now();
    while let Err(instead) = is().await {
        assert!(begin.elapsed() < PATIENCE, "still not: {what}\n{instead}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
