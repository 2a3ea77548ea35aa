//! Writes that may be repeated: what is there already, or gone already, is fine.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::error::{code, is_refusal, words};

/// What can be read from an API.
pub(crate) trait Object: Clone + DeserializeOwned + Debug {}

impl<K: Clone + DeserializeOwned + Debug> Object for K {}

/// A write that failed.
pub(crate) fn failed(
    action: &'static str,
    kind: impl Into<Cow<'static, str>>,
    name: &str,
    source: kube::Error,
) -> Error {
    Error::Apply {
        action,
        kind: kind.into(),
        name: name.to_owned(),
        source: Box::new(source),
    }
}

/// What the API server will not do, now or again, is for the user to know: `say` puts
/// the action, the kind, the name and the words of the API server into a sentence.
/// Anything else that went wrong is tried again.
pub(crate) fn refusal(
    written: Result<(), Error>,
    say: impl FnOnce(&str, &str, &str, &str) -> String,
) -> Result<Option<String>, Error> {
    match written {
        Ok(()) => Ok(None),
        Err(Error::Apply {
            action,
            kind,
            name,
            source,
        }) if is_refusal(&source) => Ok(Some(say(action, &kind, &name, &words(&source)))),
        Err(error) => Err(error),
    }
}

/// Creates an object, unless there is one of its name.
pub(crate) async fn create<K: Object + Serialize>(
    api: &Api<K>,
    kind: &'static str,
    name: &str,
    object: &K,
) -> Result<(), Error> {
    match api.create(&PostParams::default(), object).await {
        Err(source) if code(&source) != Some(409) => Err(failed("create", kind, name, source)),
        _ => Ok(()),
    }
}

/// Changes an object by a merge patch; `None`: it is gone.
pub(crate) async fn patch<K: Object>(
    api: &Api<K>,
    action: &'static str,
    kind: impl Into<Cow<'static, str>>,
    name: &str,
    patch: &Value,
) -> Result<Option<ObjectMeta>, Error> {
    let patch = Patch::Merge(patch);
    match api
        .patch_metadata(name, &PatchParams::default(), &patch)
        .await
    {
        Ok(new) => Ok(Some(new.metadata)),
        Err(source) if is_gone(&source) => Ok(None),
        Err(source) => Err(failed(action, kind, name, source)),
    }
}

/// Deletes the object with this uid. Gone already, or replaced by another one, is as
/// good.
pub(crate) async fn delete<K: Object>(
    api: &Api<K>,
    kind: &'static str,
    name: &str,
    uid: &str,
    how: DeleteParams,
) -> Result<(), Error> {
    match api.delete(name, &how.preconditions(only(uid))).await {
        Err(source) if !matches!(code(&source), Some(404 | 409)) => {
            Err(failed("delete", kind, name, source))
        }
        _ => Ok(()),
    }
}

/// This object, and no other of its name.
pub(crate) fn only(uid: &str) -> Preconditions {
    Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    }
}

/// Gone: nothing to be done. A conflict does not say so: it may be that another
/// object has the name now, but also that somebody else wrote to this one.
pub(crate) fn is_gone(error: &kube::Error) -> bool {
    code(error) == Some(404)
}
