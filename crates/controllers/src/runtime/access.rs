//! Secrets: how the servers of a set are known, and the keys of a sync. They are
//! read one by one, never listed or watched.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use cache_api::{Credentials, Identity};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use plan::operation;

use crate::Error;

/// Keys of the Secret of the servers; those of a Secret of type kubernetes.io/tls,
/// and the token.
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
pub(crate) const TOKEN: &str = "token";

/// How the servers of the sets are known, by the uids of the sets: they stay the
/// same while the set lives.
#[derive(Default)]
pub(crate) struct Accesses(Mutex<HashMap<String, Identity>>);

impl Accesses {
    /// How the servers of a set are known; `None`: there is no such Secret.
    pub(crate) async fn of(
        &self,
        client: &Client,
        namespace: &str,
        secret: &str,
        set: &str,
    ) -> Result<Option<Identity>, Error> {
        let known = |all: &HashMap<String, Identity>| all.get(set).cloned();
        if let Some(identity) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Some(identity));
        }
        let Some(data) = read(client, namespace, secret).await? else {
            return Ok(None);
        };
        let text = |key: &str| text(&data, key).unwrap_or_default();
        let identity = Identity {
            certificate: text(CERTIFICATE),
            key: String::new(),
            token: text(TOKEN),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(set.to_owned(), identity.clone());
        Ok(Some(identity))
    }

    /// The set is gone, or its Secret is.
    pub(crate) fn forget(&self, set: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(set);
    }
}

/// The data of a Secret, if there is one.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<BTreeMap<String, ByteString>>, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(name).await.map_err(Error::Observe)?;
    Ok(secret.map(|secret| secret.data.unwrap_or_default()))
}

/// The keys of a sync, read for one request.
pub(crate) async fn credentials(
    client: &Client,
    namespace: &str,
    wanted: &operation::Credentials,
) -> Result<Credentials, Error> {
    let volume = read(client, namespace, &wanted.volume).await?;
    let volume = volume.unwrap_or_default();
    let source = match &wanted.source {
        Some(name) if *name != wanted.volume => read(client, namespace, name).await?,
        Some(_) => Some(volume.clone()),
        None => None,
    };
    let source = source.unwrap_or_default();
    Ok(Credentials {
        access_key: text(&source, "access-key"),
        secret_key: text(&source, "secret-key"),
        metaurl: text(&volume, "metaurl").unwrap_or_default(),
        environment: BTreeMap::new(),
    })
}

/// `echo … | base64` leaves a newline, and people do it.
fn text(data: &BTreeMap<String, ByteString>, key: &str) -> Option<String> {
    let value = String::from_utf8_lossy(&data.get(key)?.0).trim().to_owned();
    Some(value).filter(|value| !value.is_empty())
}
