//! The accounts and roles of the managers, on an API that has roles.

use anyhow::{Context as _, Result};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use testkit::accounts;

/// Gives the managers their accounts and roles, in all namespaces.
pub async fn install(client: &Client) -> Result<()> {
    let bindings = "overlays/all-namespaces/bindings.yaml";
    let mut objects = accounts::manifest(bindings)?;
    for path in accounts::MANIFESTS {
        objects.extend(accounts::manifest(path)?);
    }
    // The namespace first.
    objects.sort_by_key(|object| object.get("kind") != Some(&json!("Namespace")));
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object without a kind")?;
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        if kind.kind == "Deployment" {
            continue;
        }
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        let how = PatchParams::apply("paddle-operator-tests").force();
        api.patch(&object.name_any(), &how, &Patch::Apply(&object))
            .await?;
    }
    Ok(())
}
