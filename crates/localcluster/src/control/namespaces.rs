//! Ends namespaces: all that is in them goes first.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::census::{Census, Kind, Known};
use super::mirror::{Key, Mirror, Retry, unless_gone};

/// Our entry in `spec.finalizers` of a namespace.
const FINALIZER: &str = "kubernetes";

/// Ends the namespaces that are to end, for ever.
pub(crate) async fn run(client: Client) {
    let mut namespaces = Mirror::new(Api::<Namespace>::all(client.clone()), ours);
    let mut ending: BTreeMap<String, BoxFuture<'static, String>> = BTreeMap::new();
    loop {
        let ended = match ending.is_empty() {
            true => std::future::pending().boxed(),
            false => select_all(ending.values_mut())
                .map(|(uid, _, _)| uid)
                .boxed(),
        };
        tokio::select! {
            () = namespaces.changed() => {}
            uid = ended => { ending.remove(&uid); }
        }
        namespaces.catch_up();
        let wanted = namespaces.objects();
        ending.retain(|uid, _| wanted.values().any(|wanted| wanted == uid));
        for ((_, name), uid) in wanted {
            ending.entry(uid.clone()).or_insert_with(|| {
                let (client, name, uid) = (client.clone(), name.clone(), uid.clone());
                async move {
                    end(&client, &name).await;
                    uid
                }
                .boxed()
            });
        }
    }
}

/// The uid of a namespace that is for us to end.
fn ours(namespace: Namespace) -> Option<String> {
    let finalizers = namespace.spec.and_then(|spec| spec.finalizers);
    let is_ours = finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER));
    let meta = namespace.metadata;
    meta.uid
        .filter(|_| is_ours && meta.deletion_timestamp.is_some())
}

/// Empties a namespace and lets it go. Nothing can be made in it any more, so
/// what is seen from now on is all that there is.
async fn end(client: &Client, name: &str) {
    let mut census = Census::begin(client.clone(), Some(name.to_owned())).await;
    let mut retry = Retry::default();
    loop {
        tokio::select! {
            () = census.changed() => {}
            () = retry.due() => {}
        }
        if !census.is_complete() {
            continue;
        }
        let remains: Vec<_> = census
            .kinds()
            .filter(|(_, objects)| !objects.is_empty())
            .collect();
        let result = if remains.is_empty() {
            let released = release(client, name).await;
            if released.is_ok() {
                return;
            }
            released
        } else {
            empty(client, name, &remains).await
        };
        retry.note("the end of a namespace", result);
    }
}

type Remains<'a> = [(&'a Kind, &'a BTreeMap<Key, Known>)];

async fn empty(client: &Client, name: &str, remains: &Remains<'_>) -> kube::Result<()> {
    for (kind, objects) in remains {
        if objects.values().any(|known| !known.is_going) {
            let objects = kind.api(client.clone(), name);
            let params = (DeleteParams::background(), ListParams::default());
            unless_gone(objects.delete_collection(&params.0, &params.1).await)?;
        }
    }
    say(client, name, remains).await
}

/// Says in the conditions of a namespace what it still waits for.
async fn say(client: &Client, name: &str, remains: &Remains<'_>) -> kube::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(namespace) = namespaces.get_opt(name).await? else {
        return Ok(());
    };
    let old = namespace
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let new = conditions(remains, &old, Timestamp::now());
    if new == old {
        return Ok(());
    }
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": namespace.metadata.resource_version},
        "status": {"conditions": new},
    }));
    let patched = namespaces
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    unless_gone(patched)?;
    Ok(())
}

fn conditions(
    remains: &Remains<'_>,
    old: &[NamespaceCondition],
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let kinds = remains.iter().map(|(kind, objects)| {
        format!(
            "{} has {} resource instances",
            kind.qualified(),
            objects.len()
        )
    });
    let kinds: Vec<String> = kinds.collect();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    let objects = remains.iter().flat_map(|(_, objects)| objects.values());
    for finalizer in objects.flat_map(|known| &known.finalizers) {
        *finalizers.entry(finalizer).or_default() += 1;
    }
    let finalizers = finalizers.iter();
    let finalizers: Vec<String> = finalizers
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let remaining = match kinds.is_empty() {
        true => (
            "False",
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        ),
        false => (
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", kinds.join(", ")),
        ),
    };
    let held = match finalizers.is_empty() {
        true => (
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
        false => (
            "True",
            "SomeFinalizersRemain",
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                finalizers.join(", ")
            ),
        ),
    };
    // The first three are what else can go wrong in a real cluster.
    let good = |reason, message: &str| ("False", reason, message.to_owned());
    let all = [
        (
            "NamespaceDeletionDiscoveryFailure",
            good(
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            good(
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
        ),
        (
            "NamespaceDeletionContentFailure",
            good(
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        ("NamespaceContentRemaining", remaining),
        ("NamespaceFinalizersRemaining", held),
    ];
    let all = all.into_iter().map(|(type_, (status, reason, message))| {
        let before = old.iter().find(|condition| condition.type_ == type_);
        let since = before.filter(|before| before.status == status);
        NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: since
                .and_then(|before| before.last_transition_time.clone())
                .or(Some(Time(now))),
        }
    });
    all.collect()
}

/// Takes our finalizer away.
async fn release(client: &Client, name: &str) -> kube::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(mut namespace) = namespaces.get_opt(name).await? else {
        return Ok(());
    };
    if let Some(finalizers) = namespace
        .spec
        .as_mut()
        .and_then(|spec| spec.finalizers.as_mut())
    {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let params = PostParams::default();
    let released = namespaces.replace_subresource("finalize", name, &params, &namespace);
    unless_gone(released.await)?;
    Ok(())
}
