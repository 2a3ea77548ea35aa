//! Plays every scenario on the Kubernetes API that the environment variable
//! `PADDLE_OPERATOR_TEST_KUBECONFIG` names (`cargo xtask cluster up` makes one);
//! without it, on localkube in this process.
//!
//! On a real API the managers have the accounts and roles of `deploy/`, and at the end the
//! audit log that `PADDLE_OPERATOR_TEST_AUDIT_LOG` names tells whether these fit.

mod apis;
#[path = "apis/roles.rs"]
mod roles;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use apis::Embedded;
use kube::{Client, Config};
use libtest_mimic::{Arguments, Failed, Trial};
use testkit::accounts::{self, Audit};
use testkit::scenarios::{self, Scenario};
use tokio::runtime::Handle;
use tokio::sync::RwLock;

/// Scenarios wait most of the time.
const PARALLEL: usize = 8;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(PARALLEL);
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let runtime = tokio::runtime::Runtime::new()?;
    let trials = if arguments.list {
        let names = scenarios::ALL.iter().map(|scenario| scenario.name);
        names.map(|name| Trial::test(name, || Ok(()))).collect()
    } else {
        let stage = Arc::new(runtime.block_on(Stage::prepare())?);
        let trial = |scenario: &'static Scenario| {
            let (stage, handle) = (Arc::clone(&stage), runtime.handle().clone());
            Trial::test(scenario.name, move || stage.play(&handle, scenario))
        };
        scenarios::ALL.iter().map(trial).collect()
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(log) = std::env::var_os("PADDLE_OPERATOR_TEST_AUDIT_LOG")
        && !conclusion.has_failed()
        && conclusion.num_passed > 0
    {
        judge_roles(Path::new(&log), conclusion.num_filtered_out == 0)?;
    }
    Ok(conclusion.exit_code())
}

/// The managers may do what they did, and the one of PaddleJobs nothing that it never does.
#[expect(clippy::print_stdout, reason = "what was not needed is worth knowing")]
fn judge_roles(log: &Path, is_whole: bool) -> Result<()> {
    let audit = Audit::read(log, 0)?;
    ensure!(audit.refused.is_empty(), "refused: {:#?}", audit.refused);
    let mut unused = audit.unused(&accounts::allowed()?);
    println!("allowed and not used: {unused:#?}");
    let mut of_jobs = unused.remove(accounts::PADDLEJOB).unwrap_or_default();
    // No manager here waits for a lease, or works with Volcano.
    of_jobs.retain(|deed| !deed.contains("leases") && !deed.contains("podgroups"));
    ensure!(
        !is_whole || of_jobs.is_empty(),
        "{} may do what it never does: {of_jobs:?}",
        accounts::PADDLEJOB
    );
    Ok(())
}

/// What the scenarios share.
struct Stage {
    client: Client,
    config: Config,
    /// Two runs on one cluster do not meet.
    run: String,
    /// Held for reading by scenarios that mind their own namespace only.
    alone: RwLock<()>,
    /// The API, unless it is somebody else's.
    _embedded: Option<Embedded>,
}

impl Stage {
    #[expect(clippy::print_stdout, reason = "people want to know on what they test")]
    async fn prepare() -> Result<Stage> {
        let (config, embedded) = match apis::real().await? {
            Some(config) => {
                roles::install(&Client::try_from(config.clone())?).await?;
                (config, None)
            }
            None => {
                let embedded = Embedded::start().await?;
                (embedded.config.clone(), Some(embedded))
            }
        };
        let which = if embedded.is_some() {
            "localkube"
        } else {
            apis::VARIABLE
        };
        println!("\nthe API is {} ({which})", config.cluster_url);
        let client = Client::try_from(config.clone())?;
        apis::install_crds(&client).await?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(Stage {
            client,
            config,
            run: format!("{:05x}", seconds % 0x10_0000),
            alone: RwLock::default(),
            _embedded: embedded,
        })
    }

    fn play(&self, handle: &Handle, scenario: &Scenario) -> Result<(), Failed> {
        let name = scenario.name.replace("::", "-").replace('_', "-");
        let namespace = format!("{name}-{}", self.run);
        let play = || scenarios::run(scenario, &self.client, &self.config, &namespace);
        let played = handle.block_on(async {
            if scenario.exclusive {
                let _alone = self.alone.write().await;
                play().await
            } else {
                let _beside = self.alone.read().await;
                play().await
            }
        });
        played.map_err(|error| format!("{error:#}").into())
    }
}
