//! Leader election: of several managers one works, the others wait.

use kube::Client;
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a manager that died holds up the next one, in seconds.
const LEASE_SECONDS: u64 = 15;
/// How long before its end the lease is renewed, in seconds.
const RENEW_BEFORE_SECONDS: u64 = 5;

/// The leadership over a lease.
#[derive(Debug)]
pub struct Leadership {
    held: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

/// Waits until the lease `name` is ours.
///
/// # Errors
/// When the lease can be neither read nor created.
pub async fn lead(
    client: Client,
    namespace: &str,
    name: &str,
    identity: &str,
) -> Result<Leadership, LeaseManagerError> {
    let manager = LeaseManagerBuilder::new(client, name)
        .with_namespace(namespace)
        .with_identity(identity)
        .with_duration(LEASE_SECONDS)
        .with_grace(RENEW_BEFORE_SECONDS)
        .build()
        .await?;
    let (mut held, task) = manager.watch().await;
    let task = tokio::spawn(async move {
        if let Ok(Err(error)) = task.await {
            tracing::warn!(%error, "the lease was not given back");
        }
    });
    // The sender lives as long as the task: an error means that it is over.
    let _ = held.wait_for(|held| *held).await;
    Ok(Leadership { held, task })
}

impl Leadership {
    /// Returns when another manager may have taken over.
    pub async fn lost(&mut self) {
        let _ = self.held.wait_for(|held| !*held).await;
    }

    /// Gives the lease back, so that the next manager waits no longer than it must.
    pub async fn resign(self) {
        drop(self.held);
        let _ = self.task.await;
    }
}
