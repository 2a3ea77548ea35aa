//! A machine with local mode, a Redis and a source of S3, and what its users do there.

use std::fmt::Debug;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use api::{SampleJob, SampleJobPhase, SampleJobStatus, SampleSet, SampleSetPhase, SampleSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::object::HasStatus;
use kube::core::{GroupVersionKind, NamespaceResourceScope};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use crate::guide::fill;
use crate::keys::Keys;
use crate::servers::{Redis, S3};
use crate::shell::Shell;
use crate::support::{Local, Pods, repository, signal};
pub use crate::wait::{PATIENCE, until};

/// Where everything is, as in the guides.
pub const NAMESPACE: &str = "paddle-system";

/// The machine.
pub struct Bed {
    /// First, so that it ends while Redis still answers.
    pub local: Local,
    pub client: Client,
    pub redis: Redis,
    pub s3: S3,
    keys: Keys,
}

/// What lives in a namespace.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
{
}

/// A terminal beside local mode.
pub fn shell(local: &Local) -> Shell {
    let own = Path::new(env!("CARGO_BIN_EXE_paddle-operator"));
    let own = own.parent().unwrap().to_owned();
    Shell::new(repository(), local.dir.join("kubeconfig"), own)
}

impl Bed {
    /// With the files that `content` makes in a folder as the bucket.
    pub async fn start(nodes: u32, content: impl FnOnce(&Path)) -> Bed {
        let images = repository().join("images.yaml");
        let nodes = nodes.to_string();
        let local = Local::start(&["--nodes", &nodes, "--images", images.to_str().unwrap()]);
        let client = local.client().await;
        let ip = gateway(&client).await;
        let files = tempfile::tempdir().unwrap();
        content(files.path());
        Bed {
            redis: Redis::start(ip),
            s3: S3::start(ip, files.path()),
            keys: Keys::watch(),
            client,
            local,
        }
    }

    /// Ends the test: no key was seen anywhere, and nothing is left.
    pub async fn end(self) {
        self.keys.assert_unseen(&self.local, &self.client).await;
    }

    pub fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// `kubectl create -f`.
    pub async fn create(&self, object: Value) {
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        let (version, kind) = (text("/apiVersion").unwrap(), text("/kind").unwrap());
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let namespace = text("/metadata/namespace").unwrap_or(NAMESPACE.to_owned());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// The Secret of a volume of Redis, in databases of its own, which also has the keys
    /// of the source.
    pub fn secret(&self, name: &str, databases: (u8, u8)) -> Value {
        self.redis.secret(name, databases)
    }

    pub async fn create_set(&self, name: &str, spec: Value) {
        self.create(json!({
            "apiVersion": "batch.paddlepaddle.org/v1alpha1",
            "kind": "SampleSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }))
        .await;
    }

    /// A set of one folder of the bucket, with a Secret of its name.
    pub async fn create_ready_set(&self, name: &str, folder: &str, partitions: i32) {
        self.create(self.secret(name, (0, 1))).await;
        let spec = json!({
            "partitions": partitions,
            "source": {"uri": self.s3.folder(folder)},
            "secretRef": {"name": name},
            // Else nothing is cached on a disk that is nearly full.
            "csi": {"juiceFSMountOptions": {"free-space-ratio": "0.01"}},
        });
        self.create_set(name, spec).await;
        self.set_is(name, SampleSetPhase::Ready).await;
    }

    pub async fn create_job(&self, name: &str, spec: Value) {
        self.create(json!({
            "apiVersion": "batch.paddlepaddle.org/v1alpha1",
            "kind": "SampleJob",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }))
        .await;
    }

    /// `kubectl patch --type merge`.
    pub async fn patch<K: Kind>(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(&patch);
        let params = PatchParams::default();
        self.api::<K>().patch(name, &params, &patch).await.unwrap();
    }

    pub async fn delete<K: Kind>(&self, name: &str) {
        let api = self.api::<K>();
        api.delete(name, &Default::default()).await.unwrap();
    }

    /// Waits until an object is gone.
    pub async fn gone<K: Kind>(&self, name: &str) {
        let api = self.api::<K>();
        until(&format!("{name} is gone"), async || {
            api.get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// Waits until the status of an object is as wanted.
    pub async fn status<K>(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&K::Status) -> bool,
    ) -> K::Status
    where
        K: Kind + HasStatus,
        K::Status: Clone + Debug + Default,
    {
        let (api, begin) = (self.api::<K>(), Instant::now());
        loop {
            let object = api.get(name).await.unwrap();
            let status = object.status().cloned().unwrap_or_default();
            if is(&status) {
                return status;
            }
            if begin.elapsed() > PATIENCE {
                panic!("{name} is not {what}: {status:#?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn set(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&SampleSetStatus) -> bool,
    ) -> SampleSetStatus {
        self.status::<SampleSet>(name, what, is).await
    }

    pub async fn set_is(&self, name: &str, phase: SampleSetPhase) -> SampleSetStatus {
        let is = |status: &SampleSetStatus| status.phase == Some(phase);
        self.set(name, &phase.to_string(), is).await
    }

    /// Waits until a condition of a set says something.
    pub async fn set_says(&self, name: &str, words: &str) -> SampleSetStatus {
        let says = |status: &SampleSetStatus| {
            let mut conditions = status.conditions.iter();
            conditions.any(|told| told.message.contains(words))
        };
        self.set(name, &format!("saying {words:?}"), says).await
    }

    pub async fn job(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&SampleJobStatus) -> bool,
    ) -> SampleJobStatus {
        self.status::<SampleJob>(name, what, is).await
    }

    pub async fn job_is(&self, name: &str, phase: SampleJobPhase) -> SampleJobStatus {
        let is = |status: &SampleJobStatus| status.phase == Some(phase);
        self.job(name, &phase.to_string(), is).await
    }

    /// Waits until something of a job has been copied, and not all of it.
    pub async fn job_is_under_way(&self, name: &str) {
        let is = |status: &SampleJobStatus| {
            let progress = status.progress.as_ref();
            progress.is_some_and(|progress| progress.bytes.unwrap_or(0) > 0)
        };
        let status = self.job(name, "under way", is).await;
        assert_eq!(status.phase, Some(SampleJobPhase::Running), "{status:?}");
    }

    pub fn pods(&self) -> Pods {
        Pods(self.api())
    }

    /// The pid of the cache runtime server of a partition.
    pub async fn runtime(&self, set: &str, partition: i32) -> u32 {
        let name = format!("{set}-runtime-{partition}");
        let pod: Pod = self.api().get(&name).await.unwrap();
        let container = format!("{}/containers/runtime", pod.metadata.uid.unwrap());
        let mut found = None;
        until(&format!("{name} is a process"), async || {
            found = children_of(&container).first().copied();
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// `kill -9` of the cache runtime server of a partition.
    pub async fn kill_runtime(&self, set: &str, partition: i32) {
        signal(self.runtime(set, partition).await, "KILL");
    }
}

/// The processes whose parent's command line holds `word`.
fn children_of(word: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let parent = parent.map(str::trim).unwrap_or_default();
        let line = fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    pids.filter(is_child).collect()
}

/// Where pods reach what listens on the machine.
async fn gateway(client: &Client) -> IpAddr {
    let (nodes, mut found) = (Api::<Node>::all(client.clone()), None);
    until("node-0 has an address", async || {
        let node = nodes.get_opt("node-0").await.unwrap();
        let addresses = node.and_then(|node| node.status?.addresses);
        let mut addresses = addresses.into_iter().flatten();
        found = addresses.find(|at| at.type_ == "InternalIP");
        found.is_some()
    })
    .await;
    found.unwrap().address.parse().unwrap()
}
