//! Deletes what has lost its owners, and sees to those who wait for what they
//! own: `Foreground` and `Orphan`.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::census::Census;
use super::mirror::{Retry, unless_gone, unless_outdated};
use plan::{Act, Graph, Object};

/// How many requests are under way at once.
const AT_ONCE: usize = 16;

/// Collects garbage for ever.
pub(crate) async fn run(client: Client) {
    let mut census = Census::begin(client.clone(), None).await;
    let mut retry = Retry::default();
    loop {
        tokio::select! {
            () = census.changed() => {}
            () = retry.due() => {}
        }
        if census.is_complete() {
            let graph = Graph::new(census.kinds());
            retry.note(
                "garbage collection",
                pass(&client, &graph, census.lost()).await,
            );
            let owners = graph.owner_uids();
            census.retain_lost(|uid| owners.contains(uid));
        }
    }
}

async fn pass(client: &Client, graph: &Graph<'_>, lost: &BTreeSet<String>) -> kube::Result<()> {
    let doubted = stream::iter(graph.doubted())
        .map(|owner| async move { Ok((!is_there(client, &owner).await?).then_some(owner)) })
        .buffer_unordered(AT_ONCE);
    let doubted: Vec<kube::Result<Option<Object>>> = doubted.collect().await;
    let (mut absent, mut failure) = (HashSet::new(), Ok(()));
    for owner in doubted {
        match owner {
            Ok(owner) => absent.extend(owner),
            Err(error) => failure = Err(error),
        }
    }
    let done = stream::iter(graph.plan(&absent, lost))
        .map(|act| carry_out(client, act))
        .buffer_unordered(AT_ONCE);
    let done: Vec<kube::Result<()>> = done.collect().await;
    done.into_iter().fold(failure, Result::and)
}

/// Watches lag: before an owner counts as gone the API is asked.
async fn is_there(client: &Client, claim: &Object) -> kube::Result<bool> {
    let owners = claim.kind.api(client.clone(), &claim.namespace);
    let found = owners.get_metadata_opt(&claim.name).await?;
    Ok(found.and_then(|owner| owner.uid()) == Some(claim.uid.clone()))
}

async fn carry_out(client: &Client, act: Act) -> kube::Result<()> {
    match act {
        Act::Delete(object) => delete(client, &object, DeleteParams::default()).await,
        Act::DeleteAfterItsOwn(object) => delete(client, &object, DeleteParams::foreground()).await,
        Act::Disown(object, uids) => {
            edit(client, &object, |meta| {
                let owners = meta.owner_references.iter_mut();
                owners.for_each(|owners| owners.retain(|owner| !uids.contains(&owner.uid)));
            })
            .await
        }
        Act::Unblock(object) => {
            edit(client, &object, |meta| {
                let owners = meta.owner_references.iter_mut().flatten();
                owners.for_each(|owner| owner.block_owner_deletion = Some(false));
            })
            .await
        }
        Act::Release(object, finalizer) => {
            edit(client, &object, |meta| {
                let finalizers = meta.finalizers.iter_mut();
                finalizers.for_each(|all| all.retain(|other| other != finalizer));
            })
            .await
        }
    }
}

async fn delete(client: &Client, object: &Object, params: DeleteParams) -> kube::Result<()> {
    let api = object.kind.api(client.clone(), &object.namespace);
    let params = params.preconditions(Preconditions {
        uid: Some(object.uid.clone()),
        resource_version: None,
    });
    tracing::debug!(
        kind = object.kind.kind,
        namespace = object.namespace,
        name = object.name,
        "has lost its owners"
    );
    unless_outdated(api.delete(&object.name, &params).await)?;
    Ok(())
}

/// Changes owners and finalizers of an object as it is now.
async fn edit(
    client: &Client,
    object: &Object,
    change: impl FnOnce(&mut ObjectMeta),
) -> kube::Result<()> {
    let api = object.kind.api(client.clone(), &object.namespace);
    let Some(found) = api.get_metadata_opt(&object.name).await? else {
        return Ok(());
    };
    let mut meta = found.metadata;
    if meta.uid.as_ref() != Some(&object.uid) {
        return Ok(());
    }
    change(&mut meta);
    let patch = Patch::Merge(json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": meta.owner_references.unwrap_or_default(),
        "finalizers": meta.finalizers.unwrap_or_default(),
    }}));
    // A conflict is an error here: what has changed may not show in our view.
    let params = PatchParams::default();
    unless_gone(api.patch_metadata(&object.name, &params, &patch).await)?;
    Ok(())
}
