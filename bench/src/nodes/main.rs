//! `bench-nodes`: how soon jobs run on real nodes with the installed operator, beside bare
//! pods of the same image and template in the same run, and what its managers take. Figures
//! of one run compare with each other; those of two runs, or of two machines, do not.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod data;
mod idle;
mod namespace;
mod servers;
mod start;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bench::cluster::Cluster;
use bench::median;
use clap::Parser;
use kube::Client;

use namespace::Namespace;

/// Measures the installed operator on a cluster of real nodes on this machine.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    cluster: Cluster,
    /// Where `make examples` installs
    #[arg(long, value_name = "DIR")]
    installed: PathBuf,
    /// How the operator's image was compiled, to be printed
    #[arg(long, default_value = "release")]
    profile: String,
    /// How often jobs are started; the median counts
    #[arg(long, default_value = "5")]
    runs: usize,
    /// How long the managers are watched at rest, in seconds
    #[arg(long, default_value = "60")]
    rest: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let config = args.cluster.config().await?;
    // The nodes reach this machine where kube-apiserver listens.
    let ip = config.cluster_url.host().context("no host")?.parse()?;
    let client = Client::try_from(config)?;
    let audit = args.cluster.audit();
    let namespace = Namespace::new(&client);
    let rest = Duration::from_secs(args.rest);
    println!("# operator: {}, runs: {}\n", args.profile, args.runs);

    start::compare(&namespace, args.runs).await?;
    servers::measure(&namespace, args.runs).await?;
    let redis = data::Redis::start(&args.installed, ip).await?;
    data::measure(&namespace, &redis).await?;
    println!("## at rest, with a set and a job that uses it");
    idle::measure(&namespace, &audit, rest).await?;
    data::clean_up(&namespace).await?;
    println!("## at rest, with neither");
    idle::measure(&namespace, &audit, rest).await
}

/// Prints a line of times, with the median at its end.
fn print_times(what: &str, times: &[f64]) {
    let each: String = times.iter().map(|time| format!("{time:7.2}")).collect();
    println!("{what:<34}{each}  {:8.2} s", median(times.to_vec()));
}
