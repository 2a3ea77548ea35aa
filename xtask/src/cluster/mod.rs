//! A real Kubernetes control plane on this machine, for tests and benchmarks.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain
//! processes on 127.0.0.1; with `--kwok` fake nodes run pods that are only status.
//! Nothing here needs root, containers or a download other than Go modules.
//! What lives where: `build` makes the binaries, `pki` the certificates,
//! `components` the command lines, `process` starts and ends them, `kwok` the
//! fake nodes, `bed` puts it all together.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for developers: paths go to stdout, progress to stderr"
)]

mod bed;
mod build;
mod components;
mod kwok;
mod paths;
mod pki;
mod process;

use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use bed::Bed;
use kwok::{PodStages, Resource};
use paths::Cache;

/// `cargo xtask cluster`: a real Kubernetes control plane for tests.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// Which cluster; several can run side by side.
    #[arg(long, global = true, default_value = "default", value_parser = paths::cluster_name)]
    name: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Build the Kubernetes and kwok binaries (`up` does it when needed)
    Build,
    /// Start what is not running yet and wait until it is ready
    Up(UpArgs),
    /// End the cluster's processes and remove its state
    Down,
    /// Print the path of the admin's kubeconfig
    Kubeconfig,
    /// Print the path of the audit log: one line of JSON per finished request, in `audit.log`
    /// beside the kubeconfig
    AuditLog,
    /// Run kubectl against the cluster
    Kubectl {
        /// What kubectl gets
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct UpArgs {
    /// Remove a cluster of this name first
    #[arg(long)]
    fresh: bool,
    /// Have at least N fake nodes, kwok-0 and up; without it there is no node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    kwok: Option<u16>,
    /// What pods on fake nodes do
    #[arg(long, value_enum, default_value_t, requires = "kwok")]
    pods: PodStages,
    /// What each new fake node offers, on top of cpu=32, memory=256Gi, pods=1000, nvidia.com/gpu=8
    #[arg(long, value_name = "RESOURCE=QUANTITY", requires = "kwok")]
    capacity: Vec<Resource>,
}

/// Does what the command line asks for.
pub fn run(args: ClusterArgs) -> Result<()> {
    let cache = Cache::from_env()?;
    let bed = Bed::new(&cache, &args.name);
    match args.command {
        Command::Build => build::all(&cache),
        Command::Up(up) => bed.up(&up),
        Command::Down => bed.down(),
        Command::Kubeconfig => {
            println!("{}", bed.kubeconfig()?.display());
            Ok(())
        }
        Command::AuditLog => {
            bed.kubeconfig()?;
            println!("{}", bed.state.audit_log().display());
            Ok(())
        }
        Command::Kubectl { args } => {
            bed.kubeconfig()?;
            Err(bed.kubectl().args(args).exec()).context("cannot run kubectl")
        }
    }
}
