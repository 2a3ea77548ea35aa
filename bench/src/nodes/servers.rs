//! How soon workers start when the parameter servers of real Paddle are there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use bench::server::accepts;
use bench::usage;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::namespace::{Namespace, is_running, named, process_of};
use crate::print_times;

/// How long servers may take to listen.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long before the servers' accepting a worker may seem to start.
const EARLIEST: Duration = Duration::from_millis(100);

/// Two servers and two workers.
const EXAMPLE: &str = include_str!("../../../deploy/examples/wide_and_deep.yaml");
const JOB: &str = "wide-and-deep";
const WORKERS: usize = 2;

/// Starts the example several times, and prints how long its workers took.
pub(crate) async fn measure(namespace: &Namespace, runs: usize) -> anyhow::Result<()> {
    println!(
        "## PS 2+2 with real Paddle, from the request to the last server's accepting, and from"
    );
    println!("## there to the start of the last worker (at most 1.5 s)");
    let (mut accepting, mut starting) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (accepted, started) = time(namespace).await?;
        accepting.push(accepted);
        starting.push(started);
    }
    print_times("all servers accept", &accepting);
    print_times("the last worker starts", &starting);
    println!();
    Ok(())
}

/// Seconds until all servers accept, and from then until all workers have started.
async fn time(namespace: &Namespace) -> anyhow::Result<(f64, f64)> {
    let mut maps = namespace.watch::<ConfigMap>().await?;
    let mut pods = namespace.watch::<Pod>().await?;
    let begin = Instant::now();
    namespace
        .create::<api::PaddleJob>(serde_saphyr::from_str(EXAMPLE)?)
        .await?;
    let listed = |maps: &BTreeMap<String, ConfigMap>| endpoints(maps.get(JOB)?);
    let servers = maps.until("servers are listed", listed).await?;
    let accepted =
        try_join_all(servers.into_iter().map(|server| accepts(server, PATIENCE))).await?;
    let accepted = accepted.into_iter().max().context("no server")?;

    let all_run = |pods: &BTreeMap<String, Pod>| {
        let workers = named(pods, "wide-and-deep-worker-");
        let running: Vec<Pod> = workers.filter(|pod| is_running(pod)).cloned().collect();
        (running.len() == WORKERS).then_some(running)
    };
    let workers = pods.until("workers run", all_run).await?;
    // What a pod tells of its start has whole seconds, and comes late.
    let started = |pod: &Pod| {
        let age = usage::age(process_of(pod)?)?;
        Instant::now().checked_sub(age).context("an old worker")
    };
    let started = workers
        .iter()
        .map(started)
        .collect::<anyhow::Result<Vec<_>>>()?;
    namespace.delete_job(JOB).await?;
    let first = started.iter().min().context("no worker")?;
    // When a server accepts is noticed a moment later.
    let early = accepted.saturating_duration_since(*first);
    anyhow::ensure!(
        early <= EARLIEST,
        "a worker started {early:?} before all servers accepted"
    );
    let last = started.iter().max().context("no worker")?;
    let since = |moment: Instant| (moment - begin).as_secs_f64();
    Ok((since(accepted), since(*last) - since(accepted)))
}

/// Where the servers accept. With gloo the first of them serves only after it has met the
/// workers, and waits for these elsewhere.
fn endpoints(map: &ConfigMap) -> Option<Vec<SocketAddr>> {
    let data = map.data.as_ref()?;
    let list = data.get("PADDLE_PSERVERS_IP_PORT_LIST")?.split(',');
    let list: Option<Vec<SocketAddr>> = list.map(|server| server.parse().ok()).collect();
    let meeting: SocketAddr = data.get("PADDLE_GLOO_HTTP_ENDPOINT")?.parse().ok()?;
    let meets = |server: SocketAddr| {
        if server.ip() == meeting.ip() {
            meeting
        } else {
            server
        }
    };
    Some(list?.into_iter().map(meets).collect())
}
