//! Commands for the people who work on Paddle Operator: `cargo xtask --help`.

mod cluster;
mod generate;
mod image;

use std::path::Path;

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
    /// A real Kubernetes on this machine, for tests and benchmarks
    Cluster(cluster::ClusterArgs),
    /// Write the files that are made from the types: CRDs and the API reference
    Generate(generate::GenerateArgs),
    /// Make container images, without a registry
    Image(image::ImageArgs),
}

/// Where all of the project is.
fn repository() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Cluster(args) => cluster::run(args),
        Command::Generate(args) => generate::run(&args),
        Command::Image(args) => image::run(&args),
    }
}
