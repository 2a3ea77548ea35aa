//! The Kubernetes APIs that tests run on: a real one that the environment names,
//! and the embedded one, in this process.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, ResourceExt};
use localcluster::control::{self, Loop};
use localkube::Credentials;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Names the kubeconfig of a cluster for tests.
pub const VARIABLE: &str = "PADDLE_OPERATOR_TEST_KUBECONFIG";

/// What scenarios meet of a control plane; they schedule by themselves. A real one
/// also deletes pods whose node is gone, but so late that no scenario sees it.
const LOOPS: &[Loop] = &[Loop::Garbage, Loop::Namespaces];

/// How to reach the cluster that the environment names, if it names one.
pub async fn real() -> Result<Option<Config>> {
    let Some(path) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let kubeconfig = Kubeconfig::read_from(&path)
        .with_context(|| format!("{VARIABLE} is {}", Path::new(&path).display()))?;
    config(kubeconfig).await.map(Some)
}

/// localkube, with the control plane behind it as `paddle-operator local` runs it.
pub struct Embedded {
    /// How to reach it: over a socket, so that every client has connections of
    /// its own as to any other API.
    pub config: Config,
    _running: JoinSet<()>,
    _dir: TempDir,
}

impl Embedded {
    pub async fn start() -> Result<Embedded> {
        let dir = tempfile::tempdir()?;
        let credentials = Credentials::in_dir(&dir.path().join("credentials"), &[])?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = format!("https://{}", listener.local_addr()?);
        let config = config(Kubeconfig::from_yaml(&credentials.kubeconfig(&server))?).await?;
        let api = localkube::Api::open(&dir.path().join("state.redb")).await?;
        let router = localkube::http::router(api, axum::Router::new());
        let inner = Client::new(router.clone().into_service(), "default");
        let mut running = JoinSet::new();
        running.spawn(async move {
            let served = localkube::serve(listener, router, credentials, std::future::pending());
            // Without it every request fails, and says so.
            let _ = served.await;
        });
        running.spawn(control::run_only(LOOPS, inner, std::future::pending()));
        Ok(Embedded {
            config,
            _running: running,
            _dir: dir,
        })
    }
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config> {
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

/// Installs what a user would: `kubectl apply -f deploy/v1/crd.yaml`.
pub async fn install_crds(client: &Client) -> Result<()> {
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
