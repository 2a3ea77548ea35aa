//! The cluster that is measured.

use std::path::PathBuf;

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::audit::AuditLog;

/// How to reach it.
#[derive(Debug, clap::Args)]
pub struct Cluster {
    /// Kubeconfig of the cluster
    #[arg(long, env = "PADDLE_OPERATOR_TEST_KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Audit log of its API server
    #[arg(long, env = "PADDLE_OPERATOR_TEST_AUDIT_LOG")]
    audit_log: PathBuf,
}

impl Cluster {
    /// How clients reach it.
    ///
    /// # Errors
    /// When there is no such kubeconfig.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let file = Kubeconfig::read_from(&self.kubeconfig).context("--kubeconfig")?;
        Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
    }

    /// What it was asked.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(&self.audit_log)
    }
}
