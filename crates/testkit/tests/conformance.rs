//! Plays every scenario on the Kubernetes API that the environment variable
//! `PADDLE_OPERATOR_TEST_KUBECONFIG` names; `cargo xtask cluster up` makes one.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, ResourceExt};
use libtest_mimic::{Arguments, Failed, Trial};
use testkit::scenarios::{self, Scenario};
use tokio::runtime::Handle;
use tokio::sync::RwLock;

const VARIABLE: &str = "PADDLE_OPERATOR_TEST_KUBECONFIG";

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
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// What the scenarios share.
struct Stage {
    client: Client,
    config: Config,
    /// Two runs on one cluster do not meet.
    run: String,
    /// Held for reading by scenarios that mind their own namespace only.
    alone: RwLock<()>,
}

impl Stage {
    async fn prepare() -> Result<Stage> {
        let Some(path) = std::env::var_os(VARIABLE) else {
            bail!(
                "{VARIABLE} is not set; it names the kubeconfig of a cluster for tests, such as the one of `cargo xtask cluster up`"
            );
        };
        let kubeconfig = Kubeconfig::read_from(&path)
            .with_context(|| format!("{VARIABLE} is {}", Path::new(&path).display()))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config.clone())?;
        install_crds(&client).await?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(Stage {
            client,
            config,
            run: format!("{:05x}", seconds % 0x10_0000),
            alone: RwLock::default(),
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

/// Installs what a user would: `kubectl apply -f deploy/v1/crd.yaml`.
async fn install_crds(client: &Client) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/v1/crd.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let crds: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text)?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = crd.name_any();
        match api.create(&PostParams::default(), &crd).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let patch = Patch::Merge(&crd);
                api.patch(&name, &PatchParams::default(), &patch).await?;
            }
            made => drop(made?),
        }
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(testkit::wait::PATIENCE, served)
            .await
            .with_context(|| format!("{name} is not served"))??;
    }
    Ok(())
}
