//! `paddle-operator manager`: flags, then options, then the controllers.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use axum::http::HeaderValue;
use axum::http::header::USER_AGENT;
use controllers::{Etcd, Metrics};
use futures::FutureExt;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plan::paddlejob::PortRange;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controller::{Controller, Settings};
use crate::http::{self, Ready};

/// The image of this very program and juicefs: init containers of jobs and the cache runtime
/// servers run it too.
pub(crate) const OWN_IMAGE: &str =
    concat!("paddlepaddle/paddle-operator:v", env!("CARGO_PKG_VERSION"));

/// Where SampleSets may cache unless told.
pub(crate) const CACHE_PATH_PREFIXES: &str = "/dev/shm,/var/lib/juicefs,/mnt,/data";

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
    /// Who schedules jobs: `volcano` finds a place for all pods of one at once; empty: as ever
    #[arg(long, value_parser = ["", "volcano"], default_value = "")]
    scheduling: String,
    /// etcd through which elastic jobs find their workers: HOST:PORT, or several with commas
    #[arg(long, value_delimiter = ',', value_parser = etcd_server)]
    etcd_server: Vec<String>,
    /// Ports for jobs with `intranet: Host`, 20 each: the first, and the one after the last
    #[arg(long, default_value = "35000,65000", value_parser = PortRange::parse)]
    port_range: PortRange,
    /// The controllers to run, with commas between them
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Controller::ALL)]
    controllers: Vec<Controller>,
    /// Image of the cache runtime servers
    #[arg(long, env = "RUNTIME_IMAGE", default_value = OWN_IMAGE)]
    runtime_image: String,
    /// Directories of nodes below which SampleSets may cache, with commas between them
    #[arg(long, value_delimiter = ',', default_value = CACHE_PATH_PREFIXES)]
    cache_path_prefixes: Vec<String>,
    /// Let SampleSets name paths of the nodes: file:// sources, sqlite metadata, file storage
    #[arg(long)]
    allow_local_paths: bool,
    /// Directory for the volumes of SampleSets without a secretRef
    #[arg(long)]
    default_volume_dir: Option<String>,
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
    let stop = stop_signal()?;

    let settings = Settings {
        namespace: some(args.namespace),
        init_image: some(args.init_image),
        volcano: args.scheduling == "volcano",
        etcd: Etcd {
            servers: args.etcd_server.into_iter().filter_map(some).collect(),
            asks_api: false,
        },
        ports: args.port_range,
        runtime_image: args.runtime_image,
        cache_path_prefixes: args.cache_path_prefixes,
        allow_local_paths: args.allow_local_paths,
        default_volume_dir: args.default_volume_dir,
        free_space_ratio: None,
        metrics,
    };
    // Standing by is ready: a rollout waits for the new manager before it ends the
    // old one, which holds the leases.
    ready.set(args.leader_elect);
    let mut wanted = args.controllers;
    wanted.sort();
    wanted.dedup();
    // Controllers that have work to do and have not begun.
    let mut filling = 0;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    for controller in wanted {
        let lease = args.leader_elect.then(|| lease_namespace.clone());
        let (settings, client) = (settings.clone(), client.clone());
        let (tell, mut stop) = (tell.clone(), stop.clone());
        work.spawn(async move {
            let tell = move |course| {
                let _ = tell.send(course);
            };
            let stop = async move { stopped(&mut stop).await };
            lead(controller, client, settings, lease, tell, stop).await
        });
    }
    loop {
        tokio::select! {
            Some(course) = told.recv() => {
                match course {
                    Course::Leads => filling += 1,
                    Course::Works => filling -= 1,
                }
                ready.set(filling == 0);
                if filling == 0 {
                    tracing::info!("the caches are filled, work begins");
                }
            }
            ended = work.join_next() => match ended {
                Some(ended) => ended??,
                None => break,
            },
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// How far a controller is.
enum Course {
    /// It is the one that has to do the work.
    Leads,
    /// Its caches are filled, and it does it.
    Works,
}

/// Runs a controller while it holds its lease, if it has to.
async fn lead(
    controller: Controller,
    client: Client,
    settings: Settings,
    lease_namespace: Option<String>,
    tell: impl Fn(Course) + Send + Sync,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let stop = stop.shared();
    let mut leadership = None;
    if let Some(namespace) = lease_namespace {
        let (identity, lease) = (identity(), controller.lease());
        tracing::info!(lease, namespace, identity, "waiting for the lease");
        let lead = controllers::lead(client.clone(), &namespace, lease, &identity);
        leadership = tokio::select! {
            led = lead => Some(led.context("leader election")?),
            () = stop.clone() => return Ok(()),
        };
    }
    tell(Course::Leads);
    let lost = async {
        match &mut leadership {
            Some(leadership) => leadership.lost().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = controller.run(client, settings, || tell(Course::Works), stop) => {}
        () = lost => anyhow::bail!("the lease was lost; another manager may be at work"),
    }
    if let Some(leadership) = leadership {
        leadership.resign().await;
    }
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

/// The address of an etcd server. Some write it as a URL; Paddle takes a host and a port. Empty:
/// none, as the Go operator has it.
pub(crate) fn etcd_server(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let server = text.trim().trim_end_matches('/');
    let server = server.strip_prefix("http://").unwrap_or(server);
    let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
    let is_host = !host.is_empty() && !host.contains(['/', ':', '@']);
    match (is_host, port.parse::<u16>()) {
        (true, Ok(_)) => Ok(server.to_owned()),
        _ => Err(format!(
            "{text:?} is no HOST:PORT, such as paddle-elastic-etcd.paddle-system.svc.cluster.local:2379"
        )),
    }
}

pub(crate) fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
