//! `paddle-operator`: one binary for everything that runs in the cluster.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod controller;
mod http;
mod local;
mod manager;
mod run;
mod runtime;
mod sampler;
mod wait;

/// Runs PaddlePaddle distributed training on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "paddle-operator", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controllers
    Manager(manager::Args),
    /// Serve the cache of one node: sync, warmup, clear, and how much is cached
    Runtime(runtime::Args),
    /// Run Kubernetes and the controllers on this machine alone
    Local(local::Args),
    /// Run jobs on this machine, show their logs, and exit as they end
    Run(run::Args),
    /// Print the indices that a training process reads
    Sampler(sampler::Args),
    /// Wait for the peers of a pod; the init container of jobs
    Wait(wait::Args),
    /// A process between the node agent of local mode and a container
    #[command(name = localcluster::shim::COMMAND, hide = true)]
    Shim { role: OsString, file: PathBuf },
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments(std::env::args_os()));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter(&cli.command))
        .init();
    let result = match cli.command {
        Command::Manager(args) => manager::run(args),
        Command::Runtime(args) => runtime::run(args),
        Command::Local(args) => local::run(&args),
        Command::Run(args) => return run::run(&args),
        Command::Sampler(args) => sampler::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Shim { role, file } => return localcluster::shim::main(&role, &file),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn filter(command: &Command) -> tracing_subscriber::EnvFilter {
    let usual = match command {
        // It speaks to its user itself.
        Command::Run(_) => "error",
        // kube would put a span around every pass, and its text around every line.
        _ => "info,kube_runtime=warn",
    };
    let from_environment = tracing_subscriber::EnvFilter::try_from_default_env();
    from_environment.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual))
}

/// The manifests of the Go operator call `/manager --leader-elect`: a binary of
/// that name is the manager.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let called = arguments
        .first()
        .map(|name| Path::new(name).file_name() == Some("manager".as_ref()));
    let asks_for_command = arguments
        .get(1)
        .is_some_and(|arg| ["wait", "manager", "help"].iter().any(|c| arg == c));
    if called == Some(true) && !asks_for_command {
        arguments.insert(1, "manager".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_called_manager_is_the_manager() {
        let given = ["/manager", "--leader-elect"].map(OsString::from);
        let want = ["/manager", "manager", "--leader-elect"].map(OsString::from);
        assert_eq!(arguments(given.into_iter()), want);
    }

    #[test]
    fn any_other_name_changes_nothing() {
        let given = ["/paddle-operator", "wait", "--servers"].map(OsString::from);
        assert_eq!(arguments(given.clone().into_iter()), given);
    }

    #[test]
    fn flags_are_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
