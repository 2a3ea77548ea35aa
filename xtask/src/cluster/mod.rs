//! A real Kubernetes on this machine, for tests and benchmarks.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain
//! processes on 127.0.0.1; with `--kwok` fake nodes run pods that are only status.
//! With `--volcano` its scheduler binds the pods that ask for it.
//! None of this needs root, containers or a download other than Go modules. With
//! `--nodes` there are real kubelets, which needs root and some Debian packages.
//! What lives where: `build` makes the binaries, `pki` the certificates,
//! `addresses` where they listen, `components` the command lines, `process` starts and ends them, `kwok` the
//! fake nodes, `nodes` the real ones, `bed` puts it all together.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for developers: paths go to stdout, progress to stderr"
)]

mod addresses;
mod bed;
mod build;
mod components;
mod kwok;
mod nodes;
pub mod paths;
mod pki;
mod process;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use bed::Bed;
use kwok::{PodStages, Resource};

pub use nodes::{PAUSE, store};
pub use paths::Cache;
pub use process::output;

/// `cargo xtask cluster`: a real Kubernetes for tests.
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
    /// Build all binaries (`up` does it when needed)
    Build {
        /// Those of Volcano too
        #[arg(long)]
        volcano: bool,
    },
    /// Start what is not running yet and wait until it is ready
    Up(UpArgs),
    /// End the cluster's processes and remove its state
    Down,
    /// Print the path of the admin's kubeconfig
    Kubeconfig,
    /// Print the path of the audit log: one line of JSON per finished request, in `audit.log`
    /// beside the kubeconfig
    AuditLog,
    /// Import archives of images into every real node
    Load {
        /// As `docker save` writes them, or `cargo xtask image`
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// End a real node as a power cut would, or a part of the control plane; `up` brings it back
    Kill {
        /// Such as node-0, kube-apiserver or vc-scheduler
        part: String,
    },
    /// Run a command on a real node
    Exec {
        /// Such as node-0
        node: String,
        /// Such as ctr --namespace=k8s.io images list
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
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
    /// Have at least N real nodes, node-0 and up, with DNS and the JuiceFS CSI driver; needs root
    #[arg(long, value_name = "N", conflicts_with = "kwok")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(nodes::MAX)))]
    nodes: Option<u8>,
    /// What pods on fake nodes do
    #[arg(long, value_enum, default_value_t, requires = "kwok")]
    pods: PodStages,
    /// What each new fake node offers, on top of cpu=32, memory=256Gi, pods=1000, nvidia.com/gpu=8
    #[arg(long, value_name = "RESOURCE=QUANTITY", requires = "kwok")]
    capacity: Vec<Resource>,
    /// Run Volcano: its scheduler for pods with `schedulerName: volcano`, and its controllers
    #[arg(long)]
    volcano: bool,
}

/// Does what the command line asks for.
pub fn run(args: ClusterArgs) -> Result<()> {
    let cache = Cache::from_env()?;
    let bed = Bed::new(&cache, &args.name);
    match args.command {
        Command::Build { volcano } => {
            let nodes = true;
            build::all(&cache, build::Extras { nodes, volcano })
        }
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
        Command::Load { archives } => bed.load(&archives),
        Command::Kill { part } => bed.kill(&part),
        Command::Exec { node, command } => {
            let mut enter = bed.node(&node)?.enter()?;
            Err(enter.args(command).exec()).context("cannot run nsenter")
        }
        Command::Kubectl { args } => {
            bed.kubeconfig()?;
            Err(bed.kubectl().args(args).exec()).context("cannot run kubectl")
        }
    }
}
