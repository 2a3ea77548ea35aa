//! What a control plane does beside the API.
//!
//! Each loop watches what it decides on, decides in a pure function, and writes
//! what is missing. It keeps nothing that the API does not tell it again after a
//! restart, and does nothing while nothing changes.

use std::future::Future;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use tokio::task::JoinSet;

mod amounts;
mod census;
mod garbage;
mod lost_pods;
mod mirror;
mod namespaces;
mod scheduler;
mod statefulsets;
mod volumes;

/// A part of the control plane that runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Gives pods a node.
    Scheduler,
    /// Deletes what has lost its owners.
    Garbage,
    /// Empties namespaces that are to end.
    Namespaces,
    /// Keeps StatefulSets.
    StatefulSets,
    /// Binds claims to volumes.
    Volumes,
    /// Deletes pods whose node is gone.
    LostPods,
}

impl Loop {
    /// All of them.
    pub const ALL: [Loop; 6] = [
        Loop::Scheduler,
        Loop::Garbage,
        Loop::Namespaces,
        Loop::StatefulSets,
        Loop::Volumes,
        Loop::LostPods,
    ];

    fn run(self, client: Client) -> BoxFuture<'static, ()> {
        match self {
            Loop::Scheduler => scheduler::run(client).boxed(),
            Loop::Garbage => garbage::run(client).boxed(),
            Loop::Namespaces => namespaces::run(client).boxed(),
            Loop::StatefulSets => statefulsets::run(client).boxed(),
            Loop::Volumes => volumes::run(client).boxed(),
            Loop::LostPods => lost_pods::run(client).boxed(),
        }
    }
}

/// Runs the whole control plane until told to stop.
pub async fn run(client: Client, stop: impl Future<Output = ()>) {
    run_only(&Loop::ALL, client, stop).await;
}

/// Runs some parts of the control plane until told to stop.
pub async fn run_only(loops: &[Loop], client: Client, stop: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    for part in loops {
        tasks.spawn(part.run(client.clone()));
    }
    tokio::select! {
        () = stop => tasks.shutdown().await,
        // No loop ends by itself.
        Some(Err(error)) = tasks.join_next() => {
            if let Ok(panic) = error.try_into_panic() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
