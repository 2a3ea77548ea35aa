//! Keeps StatefulSets: pods with names that stay, one after the other.

mod plan;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::mirror::{Key, Mirror, Retry, unless_gone, unless_outdated};
use crate::events::{Teller, Weight};
use plan::{Act, Plan, plan};
use pod::Member;

/// Keeps StatefulSets for ever.
pub(crate) async fn run(client: Client) {
    let mut sets = Mirror::new(Api::<StatefulSet>::all(client.clone()), Some);
    let mut pods = Mirror::new(Api::<Pod>::all(client.clone()), Member::of);
    let mut keeper = Keeper::new(client);
    let mut retry = Retry::default();
    let mut wake: Option<Timestamp> = None;
    loop {
        tokio::select! {
            () = sets.changed() => {}
            () = pods.changed() => {}
            () = retry.due() => {}
            () = sleep_until(wake) => {}
        }
        sets.catch_up();
        pods.catch_up();
        if sets.is_complete() && pods.is_complete() {
            let (result, next) = keeper.pass(sets.objects(), pods.objects()).await;
            retry.note("keeping StatefulSets", result);
            wake = next;
        }
    }
}

async fn sleep_until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let rest = time
        .duration_since(Timestamp::now())
        .max(SignedDuration::ZERO);
    tokio::time::sleep(rest.unsigned_abs()).await;
}

struct Keeper {
    client: Client,
    teller: Teller,
    /// What last went wrong with a set, by uid: it is told once.
    troubles: BTreeMap<String, String>,
}

impl Keeper {
    fn new(client: Client) -> Keeper {
        Keeper {
            teller: Teller::new(client.clone(), "statefulset-controller"),
            client,
            troubles: BTreeMap::new(),
        }
    }

    /// Sees to all sets; says when to look again if nothing changes.
    async fn pass(
        &mut self,
        sets: &BTreeMap<Key, StatefulSet>,
        pods: &BTreeMap<Key, Member>,
    ) -> (kube::Result<()>, Option<Timestamp>) {
        let uids: Vec<String> = sets.values().filter_map(ResourceExt::uid).collect();
        self.troubles.retain(|uid, _| uids.contains(uid));
        let (mut failure, mut wake) = (Ok(()), None);
        for set in sets.values() {
            let uid = set.uid().unwrap_or_default();
            let members: Vec<&Member> = pods.values().filter(|pod| pod.owner == uid).collect();
            let plan = plan(set, &members, Timestamp::now());
            wake = [wake, plan.wake].into_iter().flatten().min();
            match self.carry_out(set, plan).await {
                Ok(()) => drop(self.troubles.remove(&uid)),
                Err(error) => {
                    self.complain(set, &error.to_string()).await;
                    failure = Err(error);
                }
            }
        }
        (failure, wake)
    }

    async fn complain(&mut self, set: &StatefulSet, error: &str) {
        let uid = set.uid().unwrap_or_default();
        if self.troubles.insert(uid, error.to_owned()).as_deref() != Some(error) {
            let about = set.object_ref(&());
            self.teller
                .tell(about, Weight::Warning, "FailedCreate", error)
                .await;
        }
    }

    async fn carry_out(&self, set: &StatefulSet, plan: Plan) -> kube::Result<()> {
        let namespace = set.namespace().unwrap_or_default();
        let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), &namespace);
        let name = set.name_any();
        // First, so that nobody sees pods of a generation that counts as unseen.
        if set.status.as_ref() != Some(&plan.status) {
            let patch = Patch::Merge(json!({"status": plan.status}));
            unless_gone(
                sets.patch_status(&name, &PatchParams::default(), &patch)
                    .await,
            )?;
        }
        for act in plan.acts {
            match act {
                Act::Create(ordinal) => self.create(set, &namespace, ordinal).await?,
                Act::Delete { name, uid } => self.delete(set, &namespace, &name, uid).await?,
            }
        }
        Ok(())
    }

    async fn create(&self, set: &StatefulSet, namespace: &str, ordinal: i32) -> kube::Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams::default();
        for claim in pod::claims(set, ordinal) {
            unless_outdated(claims.create(&params, &claim).await)?;
        }
        let pod = pod::build(set, ordinal);
        if unless_outdated(pods.create(&params, &pod).await)?.is_some() {
            self.tell(set, "SuccessfulCreate", "create", &pod.name_any())
                .await;
        }
        Ok(())
    }

    async fn delete(
        &self,
        set: &StatefulSet,
        namespace: &str,
        name: &str,
        uid: String,
    ) -> kube::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        if unless_outdated(pods.delete(name, &params).await)?.is_some() {
            self.tell(set, "SuccessfulDelete", "delete", name).await;
        }
        Ok(())
    }

    async fn tell(&self, set: &StatefulSet, reason: &str, action: &str, pod: &str) {
        let set_name = set.name_any();
        let message = format!("{action} Pod {pod} in StatefulSet {set_name} successful");
        let about = set.object_ref(&());
        self.teller
            .tell(about, Weight::Normal, reason, &message)
            .await;
    }
}
