//! An API in a file of its own, with parts of the control plane behind it.

#![expect(dead_code, reason = "each test needs a part of it")]

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use localcluster::control::{self, Loop};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Far longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Cluster {
    pub client: Client,
    running: JoinHandle<()>,
    file: PathBuf,
}

impl Cluster {
    /// An API with these loops behind it.
    pub async fn new(name: &str, loops: &'static [Loop]) -> Cluster {
        Cluster::behind(name, loops, |api| api).await
    }

    /// The same, with something between the API and the loops.
    pub async fn behind(
        name: &str,
        loops: &'static [Loop],
        layer: impl FnOnce(Router) -> Router,
    ) -> Cluster {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("control-{name}.redb"));
        let _ = std::fs::remove_file(&file);
        let api = localkube::Api::open(&file).await.unwrap();
        let api = localkube::http::router(api, Router::new());
        let client = |api: Router| Client::new(api.into_service(), "default");
        Cluster {
            running: begin(&client(layer(api.clone())), loops),
            client: client(api),
            file,
        }
    }

    /// Ends the loops, and begins others.
    pub async fn restart(&mut self, loops: &'static [Loop]) {
        self.running.abort();
        let _ = (&mut self.running).await;
        self.running = begin(&self.client, loops);
    }

    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub fn here<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates something in the default namespace.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug,
    {
        create(&self.here(), object).await
    }

    /// Creates something that has no namespace.
    pub async fn create_global<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug,
    {
        create(&self.all(), object).await
    }
}

fn begin(client: &Client, loops: &'static [Loop]) -> JoinHandle<()> {
    tokio::spawn(control::run_only(
        loops,
        client.clone(),
        std::future::pending(),
    ))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.abort();
        let _ = std::fs::remove_file(&self.file);
    }
}

pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

pub async fn patch<K>(api: &Api<K>, name: &str, change: Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(change);
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap()
}

pub async fn patch_status<K>(api: &Api<K>, name: &str, status: Value)
where
    K: Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(serde_json::json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

pub async fn is_gone<K>(api: &Api<K>, name: &str) -> bool
where
    K: Clone + DeserializeOwned + Debug,
{
    api.get_opt(name).await.unwrap().is_none()
}

/// Waits until something is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}
