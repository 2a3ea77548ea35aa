//! A kubelet that does as it is told.
//!
//! It acts on the pods of one namespace through the API, as kubelets do: binds
//! them (it is their scheduler too), reports addresses and containers, confirms
//! deletions. In one thing it is stricter than a real one: a container that
//! could not start is tried again only when its pod changes, never after a
//! while. So a wake-up that the operator forgets is a scenario that hangs.

mod container;
mod engine;
mod nodes;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::wait::until;
use crate::world::Mirror;
pub use container::Environment;
use record::{Ending, Record, State};

/// The `schedulerName` of pods that the puppet places.
pub const SCHEDULER: &str = "puppet";

/// How far a pod has come, or may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Created, without a node.
    #[default]
    Created,
    /// It has a node.
    Scheduled,
    /// Its sandbox is there, and with it the address.
    Addressed,
    /// Its init containers have ended.
    Initialized,
    /// Its containers run.
    Started,
    /// Its containers are ready.
    Ready,
}

/// The start of a container.
#[derive(Clone, Debug)]
pub struct Start {
    /// The pod.
    pub pod: String,
    /// The uid of the pod.
    pub uid: String,
    /// The container.
    pub container: String,
    /// The environment that it started with.
    pub environment: Environment,
}

/// Plays the kubelets of one namespace.
pub struct Kubelet {
    shared: Arc<Shared>,
    _engine: JoinSet<()>,
}

struct Shared {
    client: Client,
    namespace: String,
    mirror: Arc<Mirror>,
    orders: Mutex<Orders>,
    /// Told when the orders change.
    changed: Notify,
    /// What the puppet knows of pods, by uid. It is locked for a whole step, so
    /// that orders and the engine never act on one pod at the same time.
    records: tokio::sync::Mutex<BTreeMap<String, Record>>,
}

/// What the puppet was told to do, and what came of it.
#[derive(Debug, Default)]
struct Orders {
    /// How far pods go unless told otherwise.
    limit: Stage,
    /// How far single pods go, by name.
    limits: BTreeMap<String, Stage>,
    /// Pods with a node of their own, by name.
    places: BTreeMap<String, String>,
    /// Nodes that have been made.
    nodes: BTreeSet<String>,
    /// Nodes that no longer answer.
    dead_nodes: BTreeSet<String>,
    /// Pods get IPv6 addresses.
    ipv6: bool,
    /// Pods, by name, whose deletion is not confirmed.
    stubborn: BTreeSet<String>,
    /// Every container that was started.
    starts: Vec<Start>,
    /// What the API answered and no kubelet expects.
    surprises: Vec<String>,
}

impl Kubelet {
    /// A puppet that waits for orders.
    pub(crate) fn start(client: Client, namespace: &str, mirror: Arc<Mirror>) -> Kubelet {
        let shared = Arc::new(Shared {
            client,
            namespace: namespace.to_owned(),
            mirror,
            orders: Mutex::default(),
            changed: Notify::new(),
            records: tokio::sync::Mutex::default(),
        });
        let mut engine = JoinSet::new();
        engine.spawn(engine::run(Arc::clone(&shared)));
        Kubelet {
            shared,
            _engine: engine,
        }
    }

    /// From now on every pod runs until it is told to end.
    pub fn run_all(&self) {
        self.run_up_to(Stage::Ready);
    }

    /// From now on every pod goes as far as `stage`.
    pub fn run_up_to(&self, stage: Stage) {
        self.order(|orders| orders.limit = stage);
    }

    /// Whatever the others do, pods of this name go as far as `stage`.
    pub fn hold(&self, pod: &str, stage: Stage) {
        self.order(|orders| orders.limits.insert(pod.to_owned(), stage));
    }

    /// Pods of this name do as the others again.
    pub fn release(&self, pod: &str) {
        self.order(|orders| orders.limits.remove(pod));
    }

    /// Pods of this name are placed on a node of their own.
    pub fn place(&self, pod: &str, node: &str) {
        let node = self.shared.node_name(node);
        self.order(|orders| orders.places.insert(pod.to_owned(), node));
    }

    /// Binds a pod to its node.
    pub async fn schedule(&self, pod: &str) -> Result<()> {
        self.bring(pod, Stage::Scheduled).await
    }

    /// Gives a pod its address.
    pub async fn give_ip(&self, pod: &str) -> Result<()> {
        self.bring(pod, Stage::Addressed).await
    }

    /// Starts the containers of a pod, as soon as what they require is there.
    pub async fn start_containers(&self, pod: &str) -> Result<()> {
        self.bring(pod, Stage::Started).await
    }

    /// Lets the containers of a pod be ready.
    pub async fn ready(&self, pod: &str) -> Result<()> {
        self.bring(pod, Stage::Ready).await
    }

    /// Lets a pod come as far as `stage`, and waits until it has.
    async fn bring(&self, pod: &str, stage: Stage) -> Result<()> {
        self.hold(pod, stage);
        until(
            &self.shared.mirror,
            &format!("pod {pod} comes to {stage:?}"),
            |world| (Stage::of(world.pods.get(pod)?) >= stage).then_some(()),
        )
        .await
    }

    /// Ends the containers of a pod: the paddle container with `code` and its
    /// last words, the others well. A `restartPolicy` that asks for it starts
    /// the paddle container again.
    pub async fn exit(&self, pod: &str, code: i32, message: &str) -> Result<()> {
        let reason = if code == 0 { "Completed" } else { "Error" };
        let ending = Ending::new(code, reason, message);
        self.act(pod, async |shared, seen, record| {
            record.end_containers(seen, &ending);
            engine::restart_containers(shared, seen, record).await
        })
        .await
    }

    /// Ends one container, or init container, of a pod.
    pub async fn exit_container(
        &self,
        pod: &str,
        container: &str,
        code: i32,
        reason: &str,
        message: &str,
    ) -> Result<()> {
        let ending = Ending::new(code, reason, message);
        self.act(pod, async |_, _, record| {
            let state = record
                .inits
                .iter_mut()
                .chain(&mut record.containers)
                .find(|state| state.name == container)
                .with_context(|| format!("pod {pod} has no container {container}"))?;
            state.state = State::Terminated(ending);
            Ok(())
        })
        .await
    }

    /// Reports that a container can't be started, such as `ImagePullBackOff`.
    pub async fn stall(&self, pod: &str, reason: &str, message: &str) -> Result<()> {
        self.act(pod, async |_, _, record| {
            for state in &mut record.containers {
                state.state = State::Waiting(reason.to_owned(), message.to_owned());
            }
            Ok(())
        })
        .await
    }

    /// Tries waiting containers again, as a real kubelet does after a while.
    pub async fn retry(&self, pod: &str) -> Result<()> {
        self.act(pod, async |_, _, record| {
            record.blocked = None;
            Ok(())
        })
        .await
    }

    /// Reports, as a scheduler does, that no node fits.
    pub async fn find_no_node(&self, pod: &str, message: &str) -> Result<()> {
        let conditions = json!([{
            "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": message,
        }]);
        let seen = self.shared.get(pod).await?;
        self.shared
            .patch_status(&seen, json!({"conditions": conditions}))
            .await
    }

    /// Evicts a pod because its node is short of memory.
    pub async fn evict(&self, pod: &str) -> Result<()> {
        self.act(pod, async |_, seen, record| {
            record.kill(seen, "Evicted", "The node was low on resource: memory.");
            Ok(())
        })
        .await
    }

    /// Ends a pod because its node is shut down in good order.
    pub async fn shut_down(&self, pod: &str) -> Result<()> {
        let message = "Pod was terminated in response to imminent node shutdown.";
        let conditions = json!([{
            "type": "DisruptionTarget", "status": "True",
            "reason": "TerminationByKubelet", "message": message,
        }]);
        let seen = self.shared.get(pod).await?;
        self.shared
            .patch_status(&seen, json!({"conditions": conditions}))
            .await?;
        self.act(pod, async |_, seen, record| {
            record.kill(seen, "Terminated", message);
            Ok(())
        })
        .await
    }

    /// Pods get IPv6 addresses from now on.
    pub fn use_ipv6(&self) {
        self.order(|orders| orders.ipv6 = true);
    }

    /// The deletion of pods of this name is not confirmed.
    pub fn refuse_to_delete(&self, pod: &str) {
        self.order(|orders| orders.stubborn.insert(pod.to_owned()));
    }

    /// The deletion of pods of this name is confirmed again.
    pub fn allow_to_delete(&self, pod: &str) {
        self.order(|orders| orders.stubborn.remove(pod));
    }

    /// The starts of a container in pods of this name, in order.
    pub fn starts(&self, pod: &str, container: &str) -> Vec<Start> {
        let starts = self.all_starts().into_iter();
        starts
            .filter(|start| start.pod == pod && start.container == container)
            .collect()
    }

    /// Every start of a container, in order.
    pub fn all_starts(&self) -> Vec<Start> {
        self.shared.orders().starts.clone()
    }

    /// The environment that a container was last started with.
    pub fn environment(&self, pod: &str, container: &str) -> Result<Environment> {
        let last = self.starts(pod, container).pop();
        last.map(|start| start.environment)
            .with_context(|| format!("container {container} of pod {pod} was never started"))
    }

    /// What the API answered and no kubelet expects.
    pub(crate) fn surprises(&self) -> Vec<String> {
        self.shared.orders().surprises.clone()
    }

    fn order<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        let result = change(&mut self.shared.orders());
        self.shared.changed.notify_one();
        result
    }

    /// Changes what the puppet knows of a pod, and reports it.
    async fn act(
        &self,
        pod: &str,
        change: impl AsyncFnOnce(&Shared, &Pod, &mut Record) -> Result<()>,
    ) -> Result<()> {
        let shared = &self.shared;
        let seen = shared.get(pod).await?;
        let uid = seen.metadata.uid.clone().unwrap_or_default();
        let mut records = shared.records.lock().await;
        let record = records
            .get_mut(&uid)
            .with_context(|| format!("pod {pod} has not been placed"))?;
        change(shared, &seen, record).await?;
        shared.report(&seen, record).await?;
        // A deadline may have begun or ended.
        shared.changed.notify_one();
        Ok(())
    }
}

impl Stage {
    /// How far a pod has come, as its status says.
    fn of(pod: &Pod) -> Stage {
        let status = pod.status.clone().unwrap_or_default();
        let holds = |type_: &str| {
            let mut all = status.conditions.iter().flatten();
            all.any(|condition| condition.type_ == type_ && condition.status == "True")
        };
        let spec = pod.spec.as_ref();
        if holds("Ready") {
            Stage::Ready
        } else if status.phase.as_deref() != Some("Pending") {
            Stage::Started
        } else if holds("Initialized") {
            Stage::Initialized
        } else if status.pod_ip.is_some() {
            Stage::Addressed
        } else if spec.is_some_and(|spec| spec.node_name.is_some()) {
            Stage::Scheduled
        } else {
            Stage::Created
        }
    }
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        // A scenario that panics leaves whole entries behind.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn get(&self, pod: &str) -> Result<Pod> {
        self.pods()
            .get(pod)
            .await
            .with_context(|| format!("get pod {pod}"))
    }

    /// Writes the status of a pod as the puppet knows it.
    async fn report(&self, pod: &Pod, record: &Record) -> Result<()> {
        self.patch_status(pod, record.status(pod)).await
    }

    async fn patch_status(&self, pod: &Pod, status: serde_json::Value) -> Result<()> {
        let name = pod.name_any();
        // By uid, because another pod may have the name by now; strategic,
        // because others write conditions of their own.
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        self.pods()
            .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .with_context(|| format!("report the status of pod {name}: {status}"))?;
        Ok(())
    }
}
