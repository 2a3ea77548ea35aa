//! Binds claims to volumes that are there, and keeps both while they are in use.
//! Volumes are not provisioned, and what is behind them is never touched.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::mirror::{Mirror, Retry, unless_gone, unless_outdated};
use crate::events::{Teller, Weight};
use plan::{Plan, plan};

/// Binds claims and volumes for ever.
pub(crate) async fn run(client: Client) {
    let mut claims = Mirror::new(Api::<PersistentVolumeClaim>::all(client.clone()), Some);
    let mut volumes = Mirror::new(Api::<PersistentVolume>::all(client.clone()), Some);
    let mut pods = Mirror::new(Api::<Pod>::all(client.clone()), claims_in_use);
    let mut binder = Binder {
        teller: Teller::new(client.clone(), "persistentvolume-controller"),
        client,
        told: BTreeSet::new(),
    };
    let mut retry = Retry::default();
    loop {
        tokio::select! {
            () = claims.changed() => {}
            () = volumes.changed() => {}
            () = pods.changed() => {}
            () = retry.due() => {}
        }
        claims.catch_up();
        volumes.catch_up();
        pods.catch_up();
        if claims.is_complete() && volumes.is_complete() && pods.is_complete() {
            let used = pods.objects().iter().flat_map(|((namespace, _), claims)| {
                claims
                    .iter()
                    .map(|claim| (namespace.clone(), claim.clone()))
            });
            let plan = plan(claims.objects(), volumes.objects(), &used.collect());
            retry.note("binding volumes", binder.carry_out(plan).await);
        }
    }
}

/// The claims that a pod on a node uses until it ends.
fn claims_in_use(pod: Pod) -> Option<Vec<String>> {
    let phase = pod.status.and_then(|status| status.phase);
    let has_ended = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    let spec = pod
        .spec
        .filter(|spec| !has_ended && spec.node_name.is_some())?;
    let volumes = spec.volumes.into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim);
    let claims: Vec<String> = claims.map(|claim| claim.claim_name).collect();
    (!claims.is_empty()).then_some(claims)
}

struct Binder {
    client: Client,
    teller: Teller,
    /// Uids of claims of which it was told that nothing fits them.
    told: BTreeSet<String>,
}

impl Binder {
    async fn carry_out(&mut self, plan: Plan) -> kube::Result<()> {
        // A volume says first to whom it belongs: a claim that says so alone
        // would be lost to another.
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        for (old, new) in &plan.volumes {
            let spec = new.spec.clone().unwrap_or_default();
            let status = new.status.clone().unwrap_or_default();
            let is_same = (&old.spec, &old.metadata) == (&new.spec, &new.metadata);
            let spec = (!is_same).then(|| json!({"claimRef": spec.claim_ref}));
            let status = (old.status != new.status).then(|| json!({"phase": status.phase}));
            write(&volumes, new, spec, status).await?;
        }
        for (old, new) in &plan.claims {
            let namespace = new.namespace().unwrap_or_default();
            let claims: Api<PersistentVolumeClaim> =
                Api::namespaced(self.client.clone(), &namespace);
            let spec = new.spec.clone().unwrap_or_default();
            let status = new.status.clone().unwrap_or_default();
            let is_same = (&old.spec, &old.metadata) == (&new.spec, &new.metadata);
            let spec = (!is_same).then(|| json!({"volumeName": spec.volume_name}));
            let status = (old.status != new.status).then(|| {
                json!({
                    "phase": status.phase,
                    "accessModes": status.access_modes,
                    "capacity": status.capacity,
                })
            });
            write(&claims, new, spec, status).await?;
        }
        for volume in &plan.released {
            self.delete(&volumes, volume).await?;
        }
        self.complain(plan.unfit).await;
        Ok(())
    }

    /// Deletes a volume that nobody claims any more.
    async fn delete(
        &self,
        volumes: &Api<PersistentVolume>,
        volume: &PersistentVolume,
    ) -> kube::Result<()> {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
        let claim = claim.unwrap_or_default();
        let (namespace, name) = (
            claim.namespace.unwrap_or_default(),
            claim.name.unwrap_or_default(),
        );
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        // Watches lag: before a claim counts as gone the API is asked.
        let found = claims.get_metadata_opt(&name).await?;
        if found.and_then(|claim| claim.uid()) == claim.uid {
            return Ok(());
        }
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: volume.uid(),
            resource_version: volume.resource_version(),
        });
        unless_outdated(volumes.delete(&volume.name_any(), &params).await)?;
        Ok(())
    }

    /// Tells of claims that nothing fits, once.
    async fn complain(&mut self, unfit: Vec<PersistentVolumeClaim>) {
        let uids: BTreeSet<String> = unfit.iter().filter_map(ResourceExt::uid).collect();
        for claim in unfit {
            if claim.uid().is_some_and(|uid| !self.told.contains(&uid)) {
                let class = plan::class_of(&claim);
                let message = match class.is_empty() {
                    true => "no persistent volumes available for this claim and no storage class \
                             is set"
                        .to_owned(),
                    false => format!(
                        "no persistent volumes of class \"{class}\" are available for this claim, \
                         and none are provisioned here"
                    ),
                };
                let about = claim.object_ref(&());
                self.teller
                    .tell(about, Weight::Normal, "FailedBinding", &message)
                    .await;
            }
        }
        self.told = uids;
    }
}

/// Writes what has changed, if the object has not changed otherwise meanwhile.
async fn write<K>(
    api: &Api<K>,
    new: &K,
    spec: Option<Value>,
    status: Option<Value>,
) -> kube::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (name, params) = (new.name_any(), PatchParams::default());
    let mut version = new.resource_version();
    if let Some(spec) = spec {
        let annotations: &BTreeMap<String, String> = new.annotations();
        let patch = Patch::Merge(json!({
            "metadata": {
                "resourceVersion": version,
                "finalizers": new.finalizers(),
                "annotations": annotations,
            },
            "spec": spec,
        }));
        match unless_gone(api.patch(&name, &params, &patch).await)? {
            Some(written) => version = written.resource_version(),
            None => return Ok(()),
        }
    }
    if let Some(status) = status {
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": version}, "status": status,
        }));
        unless_gone(api.patch_status(&name, &params, &patch).await)?;
    }
    Ok(())
}
