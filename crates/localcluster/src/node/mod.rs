//! The kubelet and the container runtime in one, for all virtual nodes of a machine.

mod container;
mod environment;
mod exec;
mod folder;
mod given;
pub mod images;
pub mod lifecycle;
mod logs;
mod mounts;
mod names;
pub mod network;
mod pod;
mod probes;
mod register;
mod report;
mod sandbox;
mod server;
pub mod tail;
mod volumes;
mod watching;

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::events::{Teller, Weight};
use folder::Folder;
use images::Images;
use mounts::Mounts;
use names::Names;
use network::Network;
use pod::Keeper;

pub use mounts::mounts_of;

/// How a machine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where all that must last is kept. Pods don't see it.
    pub dir: PathBuf,
    /// So many nodes, `node-0` and on.
    pub nodes: usize,
    /// The images that are known.
    pub images: Images,
    /// Where what was installed for the project is: JuiceFS is looked for there first.
    pub installed: PathBuf,
}

/// A directory of the state directory that pods may mount, unlike the rest.
pub const DATA: &str = "data";

/// What all pods of the machine share.
pub(crate) struct Machine {
    client: Client,
    dir: PathBuf,
    images: Images,
    network: Network,
    names: Names,
    teller: Teller,
    mounts: Mounts,
    /// The pods of our nodes by uid.
    pods: RwLock<BTreeMap<String, Arc<Pod>>>,
    /// Whether all of them are known, after a start.
    listed: watch::Sender<bool>,
}

impl Machine {
    fn gateway(&self) -> Ipv4Addr {
        self.network.gateway()
    }

    fn address(&self) -> String {
        self.gateway().to_string()
    }

    fn uid_of(&self, namespace: &str, name: &str) -> Option<String> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let mut pods = pods.iter();
        let found = pods.find(|(_, pod)| {
            pod.metadata.name.as_deref() == Some(name)
                && pod.metadata.namespace.as_deref() == Some(namespace)
        });
        found.map(|(uid, _)| uid.clone())
    }

    /// The name of a pod's host.
    fn hostname(&self, pod: &Pod) -> String {
        let given = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
        let mut name = given.unwrap_or_else(|| pod.name_any());
        // The kernel takes no longer one.
        name.truncate(63);
        name
    }

    /// Tells of something that happened to a pod.
    async fn event(&self, pod: &Pod, weight: Weight, reason: &str, message: &str) {
        self.teller
            .tell(pod.object_ref(&()), weight, reason, message)
            .await;
    }

    /// Writes the names of Services for all pods that have a sandbox.
    fn write_hosts(&self, services: &[Arc<Service>]) {
        let pods = self
            .pods
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let all: Vec<&Pod> = pods.values().map(|pod| &**pod).collect();
        let entries = names::entries(services.iter().map(|service| &**service), &all);
        for (uid, pod) in &pods {
            let folder = Folder::of(&self.dir, uid);
            let (Some(address), Some(_)) = (folder.address(), folder.sandbox()) else {
                continue;
            };
            let text = names::hosts(pod, &self.hostname(pod), address, &entries);
            if let Err(error) = names::write(&folder.path().join("hosts"), &text) {
                tracing::debug!(pod = %pod.name_any(), %error, "hosts");
            }
        }
    }
}

/// The nodes of a machine and what runs on them.
pub struct Agent {
    machine: Arc<Machine>,
    nodes: Vec<String>,
}

impl Agent {
    /// Makes the network and finds what an earlier life of this program left.
    ///
    /// # Errors
    /// When the machine does not allow it.
    pub fn new(client: Client, options: Options) -> io::Result<Agent> {
        std::fs::create_dir_all(Folder::all(&options.dir))?;
        let dir = options.dir.canonicalize()?;
        let machine = Arc::new(Machine {
            network: Network::up(&dir)?,
            teller: Teller::new(client.clone(), "kubelet"),
            client,
            images: options.images,
            dir,
            names: Names::default(),
            mounts: Mounts::new(options.installed),
            pods: RwLock::default(),
            listed: watch::Sender::new(false),
        });
        for folder in machine.folders()? {
            if let Some(address) = folder.address().filter(|_| folder.had_sandbox()) {
                machine.network.mark(address);
            }
        }
        let nodes = (0..options.nodes).map(|n| format!("node-{n}")).collect();
        Ok(Agent { machine, nodes })
    }

    /// What a kubelet serves.
    pub fn router(&self) -> axum::Router {
        server::router(Arc::clone(&self.machine))
    }

    /// Keeps pods until told to stop; then all of them are ended.
    ///
    /// # Errors
    /// When the nodes can't be registered.
    pub async fn run(self, stop: impl Future<Output = ()>) -> kube::Result<()> {
        register::nodes(&self.machine, &self.nodes).await?;
        register::driver(&self.machine).await?;
        self.machine.adopt_volumes().await;
        let (stopping, stopped) = watch::channel(false);
        let mut keepers = Keepers {
            machine: Arc::clone(&self.machine),
            nodes: self.nodes,
            stopping: stopped,
            news: BTreeMap::new(),
            tasks: JoinSet::new(),
            listed: None,
        };
        let names = tokio::spawn(keep_names(Arc::clone(&self.machine)));
        let pods = watcher(
            Api::<Pod>::all(self.machine.client.clone()),
            watcher::Config::default(),
        );
        let mut pods = std::pin::pin!(pods.default_backoff());
        let mut stop = std::pin::pin!(stop);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                event = pods.try_next() => match event {
                    Ok(Some(event)) => keepers.learn(event),
                    Ok(None) => break,
                    Err(error) => tracing::warn!(%error, "the watch of pods"),
                },
                // Those that end need to hear of their pods until they have.
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    stopping.send_replace(true);
                }
                Some(ended) = keepers.tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the keeper of a pod");
                    }
                }
            }
            if is_stopping && keepers.tasks.is_empty() {
                break;
            }
        }
        names.abort();
        self.machine.end_volumes(&keepers.nodes).await;
        self.machine.network.down();
        Ok(())
    }
}

impl Machine {
    fn folders(&self) -> io::Result<Vec<Folder>> {
        let entries = std::fs::read_dir(Folder::all(&self.dir))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.map(|uid| Folder::of(&self.dir, &uid)).collect())
    }
}

/// One keeper for each pod.
struct Keepers {
    machine: Arc<Machine>,
    nodes: Vec<String>,
    stopping: watch::Receiver<bool>,
    news: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>>,
    tasks: JoinSet<()>,
    /// The uids of a list that is under way.
    listed: Option<Vec<String>>,
}

impl Keepers {
    fn learn(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed = Some(Vec::new()),
            Event::InitApply(pod) => {
                if let Some(listed) = &mut self.listed {
                    listed.extend(pod.metadata.uid.clone());
                }
                self.apply(pod);
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<String> = self
                    .news
                    .keys()
                    .filter(|uid| !listed.contains(uid))
                    .cloned()
                    .collect();
                for uid in gone {
                    self.forget(&uid);
                }
                self.sweep(&listed);
                self.machine.listed.send_replace(true);
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => self.forget(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
        self.machine.names.refresh();
    }

    fn apply(&mut self, pod: Pod) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let is_ours = node.is_some_and(|node| self.nodes.contains(node));
        let Some(uid) = pod.metadata.uid.clone().filter(|_| is_ours) else {
            return;
        };
        let pod = Arc::new(pod);
        let pods = &self.machine.pods;
        let mut pods = pods.write().unwrap_or_else(PoisonError::into_inner);
        pods.insert(uid.clone(), Arc::clone(&pod));
        drop(pods);
        if let Some(news) = self.news.get(&uid) {
            news.send_replace(Some(pod));
            return;
        }
        let (sender, news) = watch::channel(Some(Arc::clone(&pod)));
        self.news.insert(uid, sender);
        let keeper = Keeper::new(Arc::clone(&self.machine), pod, news, self.stopping.clone());
        self.tasks.spawn(keeper.keep());
    }

    fn forget(&mut self, uid: &str) {
        let pods = &self.machine.pods;
        pods.write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(uid);
        if let Some(news) = self.news.remove(uid) {
            news.send_replace(None);
        }
    }

    /// Ends what is left of pods that the API does not know any more.
    fn sweep(&self, listed: &[String]) {
        for folder in self.machine.folders().into_iter().flatten() {
            let uid = folder.path().file_name().and_then(|name| name.to_str());
            let is_known = uid.is_some_and(|uid| {
                listed.iter().any(|listed| listed == uid) || self.news.contains_key(uid)
            });
            if !is_known {
                tracing::info!(folder = %folder.path().display(), "nobody knows this pod any more");
                folder.kill();
                self.machine.end_sandbox(&folder);
                if let Err(error) = folder.remove() {
                    tracing::warn!(%error, "the folder of a pod stays");
                }
                let (machine, uid) = (Arc::clone(&self.machine), uid.map(str::to_owned));
                tokio::spawn(async move {
                    machine.release_volumes(&uid.unwrap_or_default()).await;
                });
            }
        }
    }
}

/// Keeps the names of Services.
async fn keep_names(machine: Arc<Machine>) {
    let (store, writer) = kube::runtime::reflector::store();
    let services = Api::<Service>::all(machine.client.clone());
    let services = watcher(services, watcher::Config::default()).default_backoff();
    let services = kube::runtime::reflector(writer, services);
    let mut services = std::pin::pin!(services);
    loop {
        tokio::select! {
            event = services.try_next() => match event {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => tracing::warn!(%error, "the watch of services"),
            },
            () = machine.names.changed() => {}
        }
        machine.write_hosts(&store.state());
    }
}
