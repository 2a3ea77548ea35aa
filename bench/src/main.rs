//! `bench-control`: how fast jobs get to run, beside the same pods, bare, created
//! by the same client in the same run; what the manager takes for
//! it; and how many requests it makes. Figures of one run compare with each
//! other; those of two runs, or of two machines, do not.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod load;
mod manager;

use std::path::PathBuf;
use std::time::Duration;

use bench::audit::AuditLog;
use bench::cluster::Cluster;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use load::{Load, PODS_PER_JOB, empty_pod};
use manager::Manager;

/// Measures the manager on a cluster of fake nodes.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    cluster: Cluster,
    /// The paddle-operator binary
    #[arg(long, env = "PADDLE_OPERATOR_BIN")]
    manager: PathBuf,
    /// Numbers of jobs, each with 2 parameter servers and 2 workers
    #[arg(long, value_delimiter = ',', default_value = "200,1000")]
    jobs: Vec<usize>,
    /// How long the manager is watched at rest, in seconds
    #[arg(long, default_value = "60")]
    rest: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let client = Client::try_from(args.cluster.config().await?)?;
    let audit = args.cluster.audit();
    for (round, jobs) in args.jobs.iter().enumerate() {
        compare(&args, &client, *jobs).await?;
        if round == 0 {
            requests(&args, &client, &audit, *jobs).await?;
        }
    }
    Ok(())
}

/// The pods that the operator makes of a job.
async fn pods_of_a_job(args: &Args, client: &Client) -> anyhow::Result<Vec<Pod>> {
    let load = Load::new(client, "bench-pods").await?;
    let mut manager = Manager::start(&args.manager, &args.cluster.kubeconfig).await?;
    let pods = load.pods_of_a_job().await?;
    manager.stop().await?;
    load.delete().await?;
    Ok(pods)
}

/// Bare pods, then jobs with as many pods.
async fn compare(args: &Args, client: &Client, jobs: usize) -> anyhow::Result<()> {
    println!("## {jobs} jobs x {PODS_PER_JOB} pods");
    let bare = async |name: &str, kinds: &[Pod]| {
        let load = Load::new(client, name).await?;
        let took = load.create_pods(jobs * PODS_PER_JOB, kinds).await?;
        load.delete().await?;
        anyhow::Ok(took)
    };
    let empty = bare("bench-empty", &[empty_pod()?]).await?;
    println!(
        "pods of the bare template, Running:   {}",
        rate(jobs, empty)
    );
    // With the variables, labels and init containers that a job's pods have: what
    // is left between these and a job is the operator.
    let same = bare("bench-same", &pods_of_a_job(args, client).await?).await?;
    println!("the pods of the jobs, all Running:    {}", rate(jobs, same));

    let load = Load::new(client, "bench-jobs").await?;
    let mut manager = Manager::start(&args.manager, &args.cluster.kubeconfig).await?;
    let before = manager.usage()?;
    let took = load.create_jobs(jobs).await?;
    let after = manager.usage()?;
    println!(
        "PaddleJobs, all pods Running:         {}",
        rate(jobs, took.pods)
    );
    println!(
        "PaddleJobs, all status Running:       {}",
        rate(jobs, took.status)
    );
    for (what, bare) in [("the same pods", same), ("the template", empty)] {
        let ratio = |took: Duration| bare.as_secs_f64() / took.as_secs_f64();
        let (pods, status) = (ratio(took.pods), ratio(took.status));
        println!("against {what:<14}                pods {pods:.2}, status {status:.2}");
    }
    let cpu = (after.cpu - before.cpu).as_secs_f64() * 1000.0 / jobs as f64;
    println!("manager CPU per job:                  {cpu:.1} ms");
    println!(
        "manager memory, peak / idle:          {:.1} / {:.1} MiB",
        mib(after.peak),
        mib(before.resident)
    );
    manager.stop().await?;
    load.delete().await?;
    println!();
    Ok(())
}

/// What the audit log counts.
async fn requests(
    args: &Args,
    client: &Client,
    audit: &AuditLog,
    jobs: usize,
) -> anyhow::Result<()> {
    println!("## requests of the manager");
    let load = Load::new(client, "bench-requests").await?;
    let mut manager = Manager::start(&args.manager, &args.cluster.kubeconfig).await?;
    let mark = audit.mark()?;
    load.create_collective("hundred", 100).await?;
    audit.settle(client).await?;
    let writes = audit.writes_since(mark)?;
    println!(
        "writes of a job with 100 workers until it runs: {writes} (at most {})",
        100 + 100 + 6
    );
    anyhow::ensure!(writes <= 206, "too many writes");

    load.create_jobs(jobs).await?;
    audit.settle(client).await?;
    let mark = audit.mark()?;
    // The length of the rest is what is measured here, not a wait for something.
    tokio::time::sleep(Duration::from_secs(args.rest)).await;
    let requests = audit.requests_since(mark)?;
    println!(
        "requests in {} s at rest with {jobs} running jobs: {requests}, watches and lease aside",
        args.rest
    );
    anyhow::ensure!(requests == 0, "the manager is not at rest");

    manager.stop().await?;
    let mark = audit.mark()?;
    manager = Manager::start(&args.manager, &args.cluster.kubeconfig).await?;
    // A job that is made now runs only after every older one was looked at.
    load.create_collective("after-restart", 1).await?;
    audit.settle(client).await?;
    let own = audit.writes_about_since(mark, "after-restart")?;
    let writes = audit.writes_since(mark)? - own;
    println!("writes after a restart with {jobs} running jobs: {writes}, the lease aside");
    anyhow::ensure!(writes == 0, "a restart is not silent");
    manager.stop().await?;
    load.delete().await?;
    println!();
    Ok(())
}

fn rate(jobs: usize, took: Duration) -> String {
    format!(
        "{:7.1} jobs/s ({:.1} s)",
        jobs as f64 / took.as_secs_f64(),
        took.as_secs_f64()
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
