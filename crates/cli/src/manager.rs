//! `paddle-operator manager`: flags, then options, then the controllers.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use axum::http::HeaderValue;
use axum::http::header::USER_AGENT;
use controllers::{Clock, Metrics, paddlejob};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plan::paddlejob::Settings;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::http::{self, Ready};

/// The image of this very program, from which jobs take their init container.
pub(crate) const OWN_IMAGE: &str =
    concat!("paddlepaddle/paddle-operator:v", env!("CARGO_PKG_VERSION"));

/// The image of cache runtime servers: this program and juicefs.
pub(crate) const RUNTIME_IMAGE: &str = concat!(
    "registry.baidubce.com/paddle-operator/runtime:v",
    env!("CARGO_PKG_VERSION")
);

/// Who we are in the audit log of the API server.
const AGENT: &str = concat!("paddle-operator/", env!("CARGO_PKG_VERSION"));

/// How long the API server may be silent. A watch ends after less than that.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The flags; their names are those of the Go operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Work only while holding a lease, so that of several managers one works
    #[arg(long)]
    leader_elect: bool,
    /// The only namespace whose jobs are managed; empty: all
    #[arg(long, default_value = "")]
    namespace: String,
    /// Image of the init container that waits for peers; empty: none
    #[arg(long = "initImage", env = "OPERATOR_IMAGE", default_value = OWN_IMAGE)]
    init_image: String,
    /// Address of /metrics; 0 switches it off
    #[arg(long, default_value = ":8080")]
    metrics_bind_address: String,
    /// Address of /healthz and /readyz; 0 switches it off
    #[arg(long, default_value = ":8081")]
    health_probe_bind_address: String,
    /// Kubeconfig to use; default: $KUBECONFIG, or the service account of the pod
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

/// Runs the controllers until a signal, or until the lease is lost.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // One thread does the work of thousands of jobs: nearly all of it is waiting
    // for the API server, and a second would cost time to hand the rest around.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(manage(args))
}

async fn manage(args: Args) -> anyhow::Result<()> {
    let mut config = kube_config(args.kubeconfig.as_deref()).await?;
    // A server that took a request and then fell silent must not hold up a job
    // for ever. Watches are silent too, but they end sooner.
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(AGENT)));
    let lease_namespace = config.default_namespace.clone();
    let client = Client::try_from(config).context("can't talk to Kubernetes")?;
    let (metrics, ready) = (Metrics::default(), Ready::default());
    http::serve(
        "metrics-bind-address",
        &args.metrics_bind_address,
        http::metrics(metrics.clone()),
    )
    .await?;
    http::serve(
        "health-probe-bind-address",
        &args.health_probe_bind_address,
        http::probes(ready.clone()),
    )
    .await?;
    let mut stop = stop_signal()?;

    let mut leadership = None;
    if args.leader_elect {
        // Standing by is ready: a rollout waits for the new manager before it
        // ends the old one, which holds the lease.
        ready.set(true);
        let identity = identity();
        tracing::info!(
            lease = paddlejob::LEASE,
            namespace = lease_namespace,
            identity,
            "waiting for the lease"
        );
        let lead = controllers::lead(
            client.clone(),
            &lease_namespace,
            paddlejob::LEASE,
            &identity,
        );
        leadership = tokio::select! {
            led = lead => Some(led.context("leader election")?),
            () = stopped(&mut stop) => return Ok(()),
        };
    }

    let options = paddlejob::Options {
        namespace: some(args.namespace),
        settings: Settings {
            init_image: some(args.init_image),
        },
        clock: Clock::default(),
        metrics,
    };
    let mut stop_controllers = stop.clone();
    let work = paddlejob::run(
        client,
        options,
        || {
            ready.set(true);
            tracing::info!("the caches are filled, work begins");
        },
        async move { stopped(&mut stop_controllers).await },
    );
    let lost = async {
        match &mut leadership {
            Some(leadership) => leadership.lost().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = work => {}
        () = lost => anyhow::bail!("the lease was lost; another manager may be at work"),
    }
    if let Some(leadership) = leadership {
        leadership.resign().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// How to reach Kubernetes.
pub(crate) async fn kube_config(path: Option<&std::path::Path>) -> anyhow::Result<kube::Config> {
    let Some(path) = path else {
        return kube::Config::infer()
            .await
            .context("no kubeconfig, and this is no pod");
    };
    let file =
        Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("--kubeconfig {}", path.display()))
}

/// Becomes true when the process shall stop.
pub(crate) fn stop_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: passes that run are let to end");
        sender.send_replace(true);
        // A second signal means now.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(receiver)
}

pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Who holds the lease: the pod, and which of its lives.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "paddle-operator".to_owned());
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("{host}_{:x}", since.as_nanos())
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
