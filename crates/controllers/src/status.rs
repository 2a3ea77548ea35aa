//! Writing a status: all of it, at once, and provided that nobody else wrote
//! meanwhile.

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::json;

use crate::error::code;
use crate::{Error, identity};

/// Asks for an object without its spec and status.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Replaces the whole status. Of an object that is put there the API server takes
/// the status alone, so nothing else is sent; a patch, or an answer with the whole
/// object, would cost it more. `None`: it was not written, and need not be tried again.
pub(crate) async fn replace<K>(
    client: &Client,
    meta: &ObjectMeta,
    status: &impl Serialize,
) -> Result<Option<ObjectMeta>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
{
    let (namespace, name) = (identity(&meta.namespace), identity(&meta.name));
    let version = identity(&meta.resource_version);
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": meta.uid,
            "resourceVersion": version,
        },
        "status": status,
    });
    let mut request = Request::new(K::url_path(&(), Some(namespace)))
        .replace_subresource(
            "status",
            name,
            &PostParams::default(),
            object.to_string().into(),
        )
        .map_err(|error| Error::Publish(kube::Error::BuildRequest(error)))?;
    let accept = HeaderValue::from_static(METADATA_ONLY);
    request.headers_mut().insert(ACCEPT, accept);
    match client.request::<PartialObjectMeta<K>>(request).await {
        Ok(new) => return Ok(Some(new.metadata)),
        // Deleted meanwhile: there is nobody to tell.
        Err(error) if code(&error) == Some(404) => {}
        // An API server without ratcheting lets nothing of an object be
        // written whose spec it would refuse today; the events remain.
        Err(error) if code(&error) == Some(422) => {
            let kind = K::kind(&()).to_lowercase();
            tracing::warn!(namespace, name, %error, "{kind} {namespace}/{name}: the status is refused");
        }
        Err(error) => return Err(Error::Publish(error)),
    }
    Ok(None)
}
