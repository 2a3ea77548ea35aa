//! The Kubernetes that jobs run on: one of our own, or one that runs already.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;

use super::Signals;
use super::apply::Key;
use super::screen::Screen;
use crate::local::{self, Local, Place, quoted};
use crate::manager;

/// So long one that runs already may take to answer: it may be just starting.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon it is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// The file that is locked by those who use the Kubernetes of another process.
const GUESTS: &str = "guests";

/// A Kubernetes.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Where it keeps everything.
    pub(crate) dir: PathBuf,
    kubeconfig: PathBuf,
    /// None: it belongs to another process.
    own: Option<Local>,
    /// Who owns it waits for those who hold this.
    _guest: Option<File>,
}

impl Cluster {
    /// Starts one.
    pub(crate) async fn start(args: &local::Args, place: Place) -> anyhow::Result<Cluster> {
        let local = Local::start(args, place).await?;
        Ok(Cluster {
            client: local.client.clone(),
            dir: local.dir.clone(),
            kubeconfig: local.kubeconfig.clone(),
            own: Some(local),
            _guest: None,
        })
    }

    /// Finds the one that runs in a directory.
    pub(crate) async fn find(dir: &Path) -> anyhow::Result<Cluster> {
        let dir = dir.canonicalize()?;
        let guest = guests(&dir)?;
        guest.lock_shared()?;
        let kubeconfig = dir.join("kubeconfig");
        let begin = Instant::now();
        let client = loop {
            let error = match connect(&kubeconfig).await {
                Ok(client) => break client,
                Err(error) => error,
            };
            if begin.elapsed() > PATIENCE {
                let what = format!("the local mode in {} does not answer", dir.display());
                return Err(error.context(what));
            }
            if !local::is_in_use(&dir) {
                bail!("the local mode in {} has just ended", dir.display());
            }
            tokio::time::sleep(PAUSE).await;
        };
        Ok(Cluster {
            client,
            dir,
            kubeconfig,
            own: None,
            _guest: Some(guest),
        })
    }

    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether the process that it belongs to has ended.
    pub(crate) fn is_lost(&self) -> bool {
        !self.is_own() && !local::is_in_use(&self.dir)
    }

    pub(crate) fn greeting(&self) -> String {
        let kubectl = format!("kubectl --kubeconfig {}", quoted(&self.kubeconfig));
        match self.is_own() {
            true => format!("started a Kubernetes for this machine: {kubectl}"),
            false => format!("found the Kubernetes of this machine: {kubectl}"),
        }
    }

    /// How to learn more of what has ended.
    pub(crate) fn see_more(&self, ended: &Key) -> String {
        let (dir, kubeconfig) = (quoted(&self.dir), quoted(&self.kubeconfig));
        let (kind, namespace) = (ended.kind.resource().plural, &ended.namespace);
        let kubectl = format!(
            "kubectl --kubeconfig {kubeconfig} --namespace {namespace} describe {kind} {}",
            ended.name
        );
        match self.is_own() {
            true => format!("to see more: paddle-operator local --dir {dir}, then {kubectl}"),
            false => format!("to see more: {kubectl}"),
        }
    }

    /// Ends it, if it is our own, when nobody else uses it any more.
    pub(crate) async fn leave(self, screen: &Screen, signals: &mut Signals) -> anyhow::Result<()> {
        let Some(local) = self.own else {
            return Ok(());
        };
        let guests = guests(&self.dir)?;
        let nobody = || guests.try_lock().is_ok();
        if !nobody() {
            screen.say(
                "another paddle-operator run uses this Kubernetes: waiting for its end \
                 (Ctrl-C ends both)",
            );
            let empty = async {
                while !nobody() {
                    tokio::time::sleep(PAUSE).await;
                }
            };
            tokio::select! {
                () = empty => {}
                _ = signals.first() => {}
            }
        }
        local.stop().await
    }
}

fn guests(dir: &Path) -> anyhow::Result<File> {
    let file = dir.join(GUESTS);
    File::create(&file).with_context(|| file.display().to_string())
}

async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = manager::kube_config(Some(kubeconfig)).await?;
    let client = Client::try_from(config)?;
    client.apiserver_version().await?;
    Ok(client)
}
