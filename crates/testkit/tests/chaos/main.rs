//! Fifty jobs start, fail, restart and finish while the manager is killed, or
//! while the API server seems to misbehave. Every job must end as if nothing
//! had happened: no pod twice, none left over. Hundreds of jobs on the network of
//! their nodes get ports from managers that are killed, and no two have the same.
//!
//! It is the real manager, as a process, on a real control plane; the nodes are
//! kwok's.

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod hand;
mod history;
mod jobs;
mod ports;
mod proxy;
mod verdict;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use api::PaddleJob;
use k8s_openapi::api::core::v1::Service;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};

use history::Follower;
use jobs::Case;
use proxy::Proxy;
use support::{Cluster, Manager};

/// How often the manager is killed.
const KILLS: usize = 20;
/// How long it lives at most; kills hit it while it fills its caches, while it
/// works, and while it rests.
const LIFE_MS: u64 = 2500;
/// How long the jobs may take to end after the last kill, or after the last was
/// created. The longest pauses of the manager after a fault are 30 s.
const PATIENCE: Duration = Duration::from_secs(100);

/// One at a time: each fills two cores.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn the_manager_is_killed_at_twenty_random_moments() -> Result<()> {
    let _turn = TURN.lock().await;
    let mut random = seeded()?;
    let stage = Stage::set("kills").await?;
    let mut cases = stage.cases.iter();
    for kill in 1..=KILLS {
        let mut manager = Manager::start(
            &stage.cluster.kubeconfig,
            Some(&stage.namespace.name),
            &stage.log,
        )?;
        // New jobs come with every life, the last included, so that there is
        // work in each.
        let share = jobs::JOBS * kill / KILLS - jobs::JOBS * (kill - 1) / KILLS;
        stage.create(cases.by_ref().take(share)).await?;
        tokio::time::sleep(Duration::from_millis(random.u64(0..LIFE_MS))).await;
        manager.is_well()?;
        // By SIGKILL.
        drop(manager);
        if kill == KILLS {
            let history = stage.follower.history();
            let busy = !verdict::missing(&stage.cases, &history, &BTreeSet::new()).is_empty();
            ensure!(busy, "every job had ended before the last kill");
        }
    }
    let mut manager = Manager::start(
        &stage.cluster.kubeconfig,
        Some(&stage.namespace.name),
        &stage.log,
    )?;
    stage.judge().await?;
    manager.is_well()
}

/// Without kills: a manager that starts again reads everything anew, and would
/// get out of a corner into which a fault has driven it.
#[tokio::test]
async fn the_api_server_answers_with_errors_and_drops_watches() -> Result<()> {
    let _turn = TURN.lock().await;
    let random = seeded()?;
    let stage = Stage::set("faults").await?;
    let proxy = Proxy::start(stage.cluster.client.clone(), random).await?;
    let mut manager = Manager::start(proxy.kubeconfig(), Some(&stage.namespace.name), &stage.log)?;
    for cases in stage.cases.chunks(5) {
        stage.create(cases.iter()).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    stage.judge().await?;
    manager.is_well()?;
    proxy.has_done_everything()
}

/// What a test plays on.
struct Stage {
    // Before the namespace: what follows it must not see it go.
    follower: Follower,
    _hand: hand::Hand,
    cases: Vec<Case>,
    log: std::path::PathBuf,
    namespace: support::Namespace,
    cluster: Cluster,
}

impl Stage {
    async fn set(name: &str) -> Result<Stage> {
        let cluster = Cluster::with_kinds().await?;
        let namespace = cluster.namespace(&format!("chaos-{name}")).await?;
        let follower = Follower::start(&cluster.client, &namespace.name).await?;
        let cases = jobs::mix();
        let hand = hand::Hand::start(&cluster.client, &namespace.name, &cases, &follower);
        Ok(Stage {
            follower,
            _hand: hand,
            cases,
            log: support::log_file(&format!("chaos-{name}"))?,
            namespace,
            cluster,
        })
    }

    async fn create(&self, cases: impl Iterator<Item = &Case>) -> Result<()> {
        let api: Api<PaddleJob> =
            Api::namespaced(self.cluster.client.clone(), &self.namespace.name);
        for case in cases {
            api.create(&PostParams::default(), &case.job()?).await?;
        }
        Ok(())
    }

    /// Waits until every job has ended as it should.
    async fn judge(&self) -> Result<()> {
        let services: Api<Service> =
            Api::namespaced(self.cluster.client.clone(), &self.namespace.name);
        let start = Instant::now();
        loop {
            let left = services.list_metadata(&ListParams::default()).await?;
            let left = left.iter().map(ResourceExt::name_any).collect();
            let (missing, broken) = {
                let history = self.follower.history();
                let missing = verdict::missing(&self.cases, &history, &left);
                (missing, history.broken.clone())
            };
            ensure!(broken.is_empty(), "{}", broken.join("\n"));
            if missing.is_empty() {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "after {} s:\n{}\nsee {}",
                    PATIENCE.as_secs(),
                    missing.join("\n"),
                    self.log.display()
                );
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// Randomness from PADDLE_OPERATOR_TEST_SEED, or from a seed that is printed.
#[expect(
    clippy::print_stderr,
    reason = "cargo shows it when a test fails: it is needed to repeat the run"
)]
fn seeded() -> Result<fastrand::Rng> {
    let seed = match std::env::var("PADDLE_OPERATOR_TEST_SEED") {
        Ok(text) => text.parse()?,
        Err(_) => fastrand::u64(..),
    };
    eprintln!("PADDLE_OPERATOR_TEST_SEED={seed}");
    Ok(fastrand::Rng::with_seed(seed))
}
