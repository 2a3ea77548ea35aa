//! Deletes pods whose node is gone: nobody else will ever do.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PartialObjectMeta, Preconditions};
use kube::{Api, Client};

use super::mirror::{Key, Mirror, Retry, unless_outdated};

/// Looks for lost pods, for ever.
pub(crate) async fn run(client: Client) {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let mut nodes = Mirror::new(nodes, |_| Some(()));
    let mut pods = Mirror::new(Api::<Pod>::all(client.clone()), placed);
    let mut retry = Retry::default();
    loop {
        tokio::select! {
            () = nodes.changed() => {}
            () = pods.changed() => {}
            () = retry.due() => {}
        }
        nodes.catch_up();
        pods.catch_up();
        if nodes.is_complete() && pods.is_complete() {
            let names: BTreeSet<&str> = nodes.objects().keys().map(|(_, name)| &**name).collect();
            let lost = pods.objects().iter();
            let lost: Vec<_> = lost
                .filter(|(_, pod)| !names.contains(&*pod.node))
                .collect();
            retry.note("deleting lost pods", delete(&client, &lost).await);
        }
    }
}

/// A pod that has a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    uid: String,
    node: String,
}

fn placed(pod: Pod) -> Option<Placed> {
    let node = pod.spec?.node_name.filter(|node| !node.is_empty())?;
    Some(Placed {
        uid: pod.metadata.uid?,
        node,
    })
}

async fn delete(client: &Client, lost: &[(&Key, &Placed)]) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for ((namespace, name), pod) in lost {
        // Watches lag: the node may be new.
        if nodes.get_metadata_opt(&pod.node).await?.is_some() {
            continue;
        }
        tracing::info!(%namespace, %name, node = pod.node, "deleting a pod whose node is gone");
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions {
                uid: Some(pod.uid.clone()),
                resource_version: None,
            });
        unless_outdated(pods.delete(name, &params).await)?;
    }
    Ok(())
}
