//! Secrets: how the servers of a set are known, and the keys of a sync. They are
//! read one by one, never listed or watched.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use cache_api::{Credentials, Identity};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use plan::sampleset::{Child, SecretSeen, SecretsNeeded, VolumeSecret};
use plan::{names, operation};

use crate::cache::Owner;
use crate::{Error, identity};

/// Keys of the Secret of the servers; those of a Secret of type kubernetes.io/tls,
/// and the token.
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
pub(crate) const TOKEN: &str = "token";

/// How the servers of a set are known, by the uid of the object that wants to know:
/// that stays the same while the set lives.
#[derive(Default)]
pub(super) struct Accesses(Mutex<HashMap<String, Identity>>);

impl Accesses {
    /// How the servers of a set are known. The Secret of an earlier set of the same name
    /// may still be there, and goes.
    pub(super) async fn of(
        &self,
        client: &Client,
        whose: &str,
        set: &ObjectMeta,
    ) -> Result<Child<Identity>, Error> {
        let known = |all: &HashMap<String, Identity>| all.get(whose).cloned();
        if let Some(identity) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Child::Ours(identity));
        }
        let secret = names::server_secret(identity(&set.name));
        let Some(found) = get(client, identity(&set.namespace), &secret).await? else {
            return Ok(Child::Missing);
        };
        let owner = Owner::of(&found.metadata, "SampleSet");
        if owner.is_none_or(|owner| Some(owner.uid) != set.uid) {
            return Ok(Child::Foreign);
        }
        let data = found.data.unwrap_or_default();
        let text = |key: &str| text(&data, key).unwrap_or_default();
        let found = Identity {
            certificate: text(CERTIFICATE),
            key: String::new(),
            token: text(TOKEN),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(whose.to_owned(), found.clone());
        Ok(Child::Ours(found))
    }

    /// Only these want to know.
    pub(super) fn keep(&self, uids: &HashSet<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|whose, _| uids.contains(whose));
    }

    /// Nobody wants to know any more, or the Secret may be gone.
    pub(super) fn forget(&self, whose: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(whose);
    }
}

async fn get(client: &Client, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.get_opt(name).await.map_err(Error::Observe)
}

/// The data of a Secret, if there is one.
async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<BTreeMap<String, ByteString>>, Error> {
    let secret = get(client, namespace, name).await?;
    Ok(secret.map(|secret| secret.data.unwrap_or_default()))
}

/// What may be known of the Secrets that a plan needs: of the volume, and of the
/// source.
pub(crate) async fn secrets(
    client: &Client,
    namespace: &str,
    needed: SecretsNeeded,
) -> Result<(Option<SecretSeen>, Option<SecretSeen>), Error> {
    let volume = secret(client, namespace, needed.volume).await?;
    Ok((volume, secret(client, namespace, needed.source).await?))
}

async fn secret(
    client: &Client,
    namespace: &str,
    name: Option<String>,
) -> Result<Option<SecretSeen>, Error> {
    let Some(name) = name else { return Ok(None) };
    let Some(data) = read(client, namespace, &name).await? else {
        return Ok(Some(SecretSeen::Missing));
    };
    let data = data.iter();
    let data = data.map(|(key, value)| (key.as_str(), value.0.as_slice()));
    Ok(Some(SecretSeen::Present(VolumeSecret::read(data))))
}

/// The keys of a sync, read for one request.
pub(super) async fn credentials(
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
    })
}

/// `echo … | base64` leaves a newline, and people do it.
fn text(data: &BTreeMap<String, ByteString>, key: &str) -> Option<String> {
    let value = String::from_utf8_lossy(&data.get(key)?.0).trim().to_owned();
    Some(value).filter(|value| !value.is_empty())
}
