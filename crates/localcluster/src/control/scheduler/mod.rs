//! Gives pods a node.

mod affinity;
mod fit;
mod place;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::mirror::{Mirror, Retry, unless_outdated};
use crate::events::{Teller, Weight};
use place::{Outcome, Placement, World};
use view::{ClaimView, Labels, NodeView, PodView, VolumeView};

/// How many requests are under way at once.
const AT_ONCE: usize = 16;

/// Schedules pods for ever.
pub(crate) async fn run(client: Client) {
    let mut scheduler = Scheduler::new(client);
    let mut retry = Retry::default();
    loop {
        tokio::select! {
            () = scheduler.seen.changed() => {}
            () = retry.due() => {}
        }
        if scheduler.seen.is_complete() {
            retry.note("scheduling", scheduler.pass().await);
        }
    }
}

/// What decisions are taken on.
struct Seen {
    pods: Mirror<PodView>,
    nodes: Mirror<NodeView>,
    claims: Mirror<ClaimView>,
    volumes: Mirror<VolumeView>,
    namespaces: Mirror<Labels>,
}

impl Seen {
    fn new(client: &Client) -> Seen {
        let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
        Seen {
            pods: Mirror::new(Api::<Pod>::all(client.clone()), PodView::of),
            nodes: Mirror::new(Api::<Node>::all(client.clone()), NodeView::of),
            claims: Mirror::new(
                Api::<PersistentVolumeClaim>::all(client.clone()),
                ClaimView::of,
            ),
            volumes: Mirror::new(Api::<PersistentVolume>::all(client.clone()), VolumeView::of),
            namespaces: Mirror::new(namespaces, |namespace| {
                Some(namespace.metadata.labels.unwrap_or_default())
            }),
        }
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.pods.changed() => {}
            () = self.nodes.changed() => {}
            () = self.claims.changed() => {}
            () = self.volumes.changed() => {}
            () = self.namespaces.changed() => {}
        }
        self.pods.catch_up();
        self.nodes.catch_up();
        self.claims.catch_up();
        self.volumes.catch_up();
    }

    fn is_complete(&self) -> bool {
        self.pods.is_complete()
            && self.nodes.is_complete()
            && self.claims.is_complete()
            && self.volumes.is_complete()
            && self.namespaces.is_complete()
    }
}

struct Scheduler {
    client: Client,
    teller: Teller,
    seen: Seen,
    /// Nodes of pods that we bound and the watch does not show bound yet, by uid.
    assumed: BTreeMap<String, String>,
    /// What we last said of pods that wait, by uid: the watch may lag behind it.
    said: BTreeMap<String, String>,
}

impl Scheduler {
    fn new(client: Client) -> Scheduler {
        Scheduler {
            seen: Seen::new(&client),
            teller: Teller::new(client.clone(), "default-scheduler"),
            client,
            assumed: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// Places all pods that wait.
    async fn pass(&mut self) -> kube::Result<()> {
        let placements = self.decide();
        let (client, teller) = (&self.client, &self.teller);
        let done = stream::iter(placements)
            .map(|placement| async move {
                let result = carry_out(client, teller, &placement).await;
                (placement, result)
            })
            .buffer_unordered(AT_ONCE);
        let done: Vec<(Placement, kube::Result<()>)> = done.collect().await;
        let mut failure = Ok(());
        for (Placement { uid, outcome, .. }, result) in done {
            match (result, outcome) {
                (Ok(()), Outcome::Fits(node)) => drop(self.assumed.insert(uid, node)),
                (Ok(()), Outcome::Waits { message, .. }) => drop(self.said.insert(uid, message)),
                (Err(error), _) => failure = Err(error),
            }
        }
        failure
    }

    /// What becomes of the pods that wait, without what has been said already.
    fn decide(&mut self) -> Vec<Placement> {
        let seen = &self.seen;
        let waiting: BTreeMap<&str, &PodView> = { seen.pods.objects().values() }
            .filter(|pod| pod.node.is_none())
            .map(|pod| (pod.uid.as_str(), pod))
            .collect();
        self.assumed
            .retain(|uid, _| waiting.contains_key(uid.as_str()));
        self.said
            .retain(|uid, _| waiting.contains_key(uid.as_str()));
        let mut world = World::new(
            seen.nodes.objects(),
            seen.claims.objects(),
            seen.volumes.objects(),
            seen.namespaces.objects(),
        );
        let mut placements = world.schedule(seen.pods.objects(), &self.assumed);
        placements.retain(|placement| match &placement.outcome {
            Outcome::Fits(_) => true,
            Outcome::Waits { message, .. } => {
                let before = waiting.get(placement.uid.as_str());
                let before = before.and_then(|pod| pod.waits_because.as_ref());
                self.said.get(&placement.uid).or(before) != Some(message)
            }
        });
        placements
    }
}

async fn carry_out(client: &Client, teller: &Teller, placement: &Placement) -> kube::Result<()> {
    let (namespace, name) = &placement.pod;
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(name.clone()),
        uid: Some(placement.uid.clone()),
        ..ObjectReference::default()
    };
    match &placement.outcome {
        Outcome::Fits(node) => {
            if bind(client, placement, node).await?.is_some() {
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                teller
                    .tell(about, Weight::Normal, "Scheduled", &message)
                    .await;
            }
        }
        Outcome::Waits { reason, message } => {
            let is_told = say(client, placement, reason, message).await?.is_some();
            // Gates are the user's own doing.
            if is_told && *reason == place::UNSCHEDULABLE {
                teller
                    .tell(about, Weight::Warning, "FailedScheduling", message)
                    .await;
            }
        }
    }
    Ok(())
}

async fn bind(client: &Client, placement: &Placement, node: &str) -> kube::Result<Option<Status>> {
    let (namespace, name) = &placement.pod;
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: Some(placement.uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = PostParams::default();
    unless_outdated(
        pods.create_subresource("binding", name, &params, &binding)
            .await,
    )
}

/// Says in the conditions of a pod why it waits.
async fn say(
    client: &Client,
    placement: &Placement,
    reason: &str,
    message: &str,
) -> kube::Result<Option<Pod>> {
    let (namespace, name) = &placement.pod;
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
    });
    if let (false, Some(condition)) = (placement.has_waited, condition.as_object_mut()) {
        condition.insert("lastTransitionTime".to_owned(), json!(Timestamp::now()));
    }
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": placement.uid}, "status": {"conditions": [condition]},
    }));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    unless_outdated(
        pods.patch_status(name, &PatchParams::default(), &patch)
            .await,
    )
}
