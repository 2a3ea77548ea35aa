//! Commands for the people who work on Paddle Operator: `cargo xtask --help`.

mod cluster;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(name = "cargo xtask", about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// A real Kubernetes control plane on this machine, for tests and benchmarks
    Cluster(cluster::ClusterArgs),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Cluster(args) => cluster::run(args),
    }
}
