//! ConfigMaps and Secrets, for variables and for volumes alike.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// What a pod is given beside its spec.
pub(super) struct Given<'a> {
    /// Where it is.
    pub(super) client: &'a Client,
    /// Whose it is.
    pub(super) pod: &'a Pod,
}

impl Given<'_> {
    /// A ConfigMap; an optional one that is not there is empty.
    pub(super) async fn config_map(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<ConfigMap, String> {
        self.get("configmap", name, optional).await
    }

    /// What a Secret holds.
    pub(super) async fn secret(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let secret: Secret = self.get("secret", name, optional).await?;
        let data = secret.data.unwrap_or_default().into_iter();
        Ok(data.map(|(key, bytes)| (key, bytes.0)).collect())
    }

    async fn get<K>(&self, kind: &str, name: &str, optional: Option<bool>) -> Result<K, String>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Default + DeserializeOwned + std::fmt::Debug,
    {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let found = Api::<K>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await;
        match found.map_err(|error| format!("{kind} {name:?}: {error}"))? {
            Some(found) => Ok(found),
            None if optional == Some(true) => Ok(K::default()),
            None => Err(format!("{kind} {name:?} not found")),
        }
    }
}
