//! Makes objects, or brings them up to date, as `kubectl apply` does.

use std::fmt;

use anyhow::Context;
use axum::http::{Method, Request, header};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use kube::core::discovery::Scope;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::manifest::{Kind, Manifest};

/// Where `kubectl apply` looks for what was applied before.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that was applied, and is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Key {
    /// The namespace and the name.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.resource().kind.to_lowercase();
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Created,
    Configured,
    Unchanged,
    /// A job of the same name had ended, and made room.
    Replaced,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Created => "created",
            Verb::Configured => "configured",
            Verb::Unchanged => "unchanged",
            Verb::Replaced => "started again",
        })
    }
}

/// Applies one object.
pub(crate) async fn apply(
    client: &Client,
    manifest: &Manifest,
    namespace: &str,
) -> anyhow::Result<(DynamicObject, Verb)> {
    let (kind, name) = (manifest.kind(), manifest.name());
    let group_version = manifest.api_version();
    let context = || format!("{}: {kind} {name}", manifest.place);
    let gvk = group_version.parse().map(|version| {
        let version: kube::core::GroupVersion = version;
        GroupVersionKind::gvk(&version.group, &version.version, kind)
    });
    let gvk = gvk.with_context(context)?;
    let found = kube::discovery::pinned_kind(client, &gvk).await;
    let (resource, capabilities) = found.map_err(|error| match error {
        kube::Error::Discovery(_) => unknown(manifest),
        kube::Error::Api(status) if status.code == 404 => unknown(manifest),
        error => explained(error, manifest),
    })?;
    let namespace = match capabilities.scope {
        Scope::Namespaced => Some(manifest.namespace().unwrap_or(namespace)),
        Scope::Cluster => None,
    };
    let place = Place {
        client,
        resource: &resource,
        namespace,
    };
    let applied = place.apply(manifest).await;
    applied.map_err(|error| explained(error, manifest))
}

fn unknown(manifest: &Manifest) -> anyhow::Error {
    anyhow::anyhow!(
        "{}: {} {}: there is no kind {} in {} here",
        manifest.place,
        manifest.kind(),
        manifest.name(),
        manifest.kind(),
        manifest.api_version()
    )
}

/// The words of the server, with what they don't say.
fn explained(error: kube::Error, manifest: &Manifest) -> anyhow::Error {
    let Manifest { place, .. } = manifest;
    let (kind, name) = (manifest.kind(), manifest.name());
    match error {
        kube::Error::Api(status) if status.message.contains(&format!("{name:?}")) => {
            anyhow::anyhow!("{place}: {}", status.message)
        }
        kube::Error::Api(status) => anyhow::anyhow!("{place}: {kind} {name}: {}", status.message),
        error => anyhow::Error::new(error).context(format!("{place}: {kind} {name}")),
    }
}

/// Where objects of a kind are.
struct Place<'a> {
    client: &'a Client,
    resource: &'a ApiResource,
    namespace: Option<&'a str>,
}

impl Place<'_> {
    fn api(&self) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, self.resource),
            None => Api::all_with(self.client.clone(), self.resource),
        }
    }

    async fn apply(&self, manifest: &Manifest) -> kube::Result<(DynamicObject, Verb)> {
        let wanted = with_last_applied(&manifest.object, self.namespace);
        let name = manifest.name();
        let old = match name {
            "" => None,
            name => self.api().get_opt(name).await?,
        };
        let Some(old) = old else {
            return Ok((self.create(&wanted).await?, Verb::Created));
        };
        if old.metadata.deletion_timestamp.is_some() || runs_once(manifest) && has_ended(&old) {
            // A job that has ended never runs again.
            delete(&self.api(), name, &old.uid().unwrap_or_default()).await?;
            return Ok((self.create(&wanted).await?, Verb::Replaced));
        }
        let last = old.annotations().get(LAST_APPLIED);
        let last = last.and_then(|last| serde_json::from_str(last).ok());
        let change = change(&last.unwrap_or(Value::Null), &wanted);
        let path = format!("{}/{name}", self.path());
        let new: DynamicObject = self.send(Method::PATCH, &path, &change).await?;
        let verb = match new.resource_version() == old.resource_version() {
            true => Verb::Unchanged,
            false => Verb::Configured,
        };
        Ok((new, verb))
    }

    async fn create(&self, object: &Value) -> kube::Result<DynamicObject> {
        self.send(Method::POST, &self.path(), object).await
    }

    fn path(&self) -> String {
        DynamicObject::url_path(self.resource, self.namespace)
    }

    /// A field that nobody knows is an error, as it is with kubectl.
    async fn send(&self, method: Method, path: &str, body: &Value) -> kube::Result<DynamicObject> {
        let format = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?fieldValidation=Strict"))
            .header(header::CONTENT_TYPE, format)
            .body(body.to_string().into_bytes());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

fn runs_once(manifest: &Manifest) -> bool {
    let kind = manifest.followed();
    matches!(kind, Some(Kind::PaddleJob | Kind::SampleJob))
}

fn has_ended(job: &DynamicObject) -> bool {
    let phase = job.data.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Completed" | "Succeeded" | "Failed"))
}

/// Deletes an object and waits until it is gone, with all that it owns.
async fn delete(api: &Api<DynamicObject>, name: &str, uid: &str) -> kube::Result<()> {
    unless_gone(api.delete(name, &DeleteParams::foreground()).await)?;
    let gone = await_condition(api.clone(), name, is_deleted(uid)).await;
    gone.map(drop)
        .map_err(|error| kube::Error::Service(error.into()))
}

/// Asks for the end of a job and of all that it owns.
pub(crate) async fn stop(client: &Client, job: &Key) -> kube::Result<()> {
    let kind = job.kind.resource();
    let jobs: Api<DynamicObject> = Api::namespaced_with(client.clone(), &job.namespace, &kind);
    let mut options = DeleteParams::foreground();
    options.preconditions = Some(kube::api::Preconditions {
        uid: Some(job.uid.clone()),
        resource_version: None,
    });
    unless_gone(jobs.delete(&job.name, &options).await)
}

fn unless_gone<T>(done: kube::Result<T>) -> kube::Result<()> {
    match done {
        // Somebody was faster, or it is another one of the same name.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        done => done.map(drop),
    }
}

/// An object that says how it was applied, for the next time.
fn with_last_applied(object: &Value, namespace: Option<&str>) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.extend(namespace.map(|name| ("namespace".to_owned(), json!(name))));
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
    }
    let text = object.to_string();
    if let Some(annotations) = object.pointer_mut("/metadata/annotations")
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.insert(LAST_APPLIED.to_owned(), json!(text));
    }
    object
}

/// A merge patch: what is wanted, and without what was wanted before and is not any more.
fn change(last: &Value, wanted: &Value) -> Value {
    let (Some(last), Some(wanted)) = (last.as_object(), wanted.as_object()) else {
        return wanted.clone();
    };
    let gone = last.keys().filter(|key| !wanted.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let given = wanted.iter().map(|(key, value)| {
        let last = last.get(key).unwrap_or(&Value::Null);
        (key.clone(), change(last, value))
    });
    gone.chain(given).collect()
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail"
)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_any_more_goes() {
        let last = json!({"spec": {"suspend": true, "worker": {"replicas": 1}}});
        let wanted = json!({"spec": {"worker": {"replicas": 2}}, "kind": "A"});
        let want = json!({"spec": {"suspend": null, "worker": {"replicas": 2}}, "kind": "A"});
        assert_eq!(change(&last, &wanted), want);
        assert_eq!(change(&Value::Null, &wanted), wanted);
    }

    #[test]
    fn an_object_says_how_it_was_applied() {
        let object = json!({"kind": "A", "metadata": {"name": "a"}});
        let with = with_last_applied(&object, Some("n"));
        assert_eq!(with["metadata"]["namespace"], "n");
        let text = with["metadata"]["annotations"][LAST_APPLIED].as_str();
        let last: Value = serde_json::from_str(text.unwrap()).unwrap();
        let want = json!({"name": "a", "namespace": "n", "annotations": {}});
        assert_eq!(last["metadata"], want);
        // Once more, it says the same.
        assert_eq!(with_last_applied(&with, Some("n")), with);
    }
}
