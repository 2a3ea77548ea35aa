//! Waiting: always for something that a watch shows, never for some time.

use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::world::{Mirror, World};

/// How long anything may take: far more than it does, so that a busy machine
/// fails no test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` finds what it looks for.
pub(crate) async fn until<T>(
    mirror: &Mirror,
    what: &str,
    mut look: impl FnMut(&World) -> Option<T>,
) -> Result<T> {
    let mut world = mirror.world.subscribe();
    let found = async {
        loop {
            if let Some(found) = look(&world.borrow_and_update()) {
                return found;
            }
            if world.changed().await.is_err() {
                // The mirror is borrowed, so its sender lives.
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .map_err(|_| anyhow!("waited {} s in vain: {what}", PATIENCE.as_secs()))
}
