//! Leader election: of several managers one works, the others wait.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a manager that died holds up the next one, in seconds.
const LEASE_SECONDS: u64 = 15;
const LEASE: Duration = Duration::from_secs(LEASE_SECONDS);
/// How long before its end the lease is renewed, in seconds.
const RENEW_BEFORE_SECONDS: u64 = 5;
/// How long before its end is looked whether it was renewed, and how often from then on.
const CHECK_BEFORE: Duration = Duration::from_secs(4);
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The leadership over a lease.
#[derive(Debug)]
pub struct Leadership {
    held: watch::Receiver<bool>,
    task: JoinHandle<()>,
    leases: Api<Lease>,
    name: String,
    identity: String,
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
    let leases = Api::namespaced(client.clone(), namespace);
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
    Ok(Leadership {
        held,
        task,
        leases,
        name: name.to_owned(),
        identity: identity.to_owned(),
    })
}

impl Leadership {
    /// Returns when another manager may have taken over: that is when the lease
    /// is over by our own clock, even if we can't ask whose it is.
    pub async fn lost(&mut self) {
        let left = |renewed: Timestamp| {
            let age = Timestamp::now().duration_since(renewed).unsigned_abs();
            LEASE.saturating_sub(age)
        };
        let mut renewed = Timestamp::now();
        while !left(renewed).is_zero() {
            let pause = left(renewed).saturating_sub(CHECK_BEFORE).max(CHECK_EVERY);
            tokio::select! {
                _ = self.held.wait_for(|held| !*held) => return,
                () = tokio::time::sleep(pause) => {}
            }
            // An answer that takes long counts as long as the lease does.
            let asked = self.leases.get(&self.name);
            if let Ok(Ok(lease)) = tokio::time::timeout(left(renewed), asked).await {
                let spec = lease.spec.unwrap_or_default();
                if spec.holder_identity.as_deref() != Some(&self.identity) {
                    return;
                }
                renewed = spec.renew_time.map_or(renewed, |time| time.0);
            }
        }
    }

    /// Gives the lease back, so that the next manager waits no longer than it must.
    pub async fn resign(self) {
        drop(self.held);
        let _ = self.task.await;
    }
}
