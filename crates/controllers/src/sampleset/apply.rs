//! Applying: writing what the plan says. Every step may be repeated.

use std::collections::BTreeMap;

use api::SampleSet;
use cache_api::{Identity, NewJob};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Resource};
use plan::names;
use plan::sampleset::{Kind, NodeLabel, Object, Plan};
use serde_json::json;

use super::context::Context;
use super::observe::is_ours;
use crate::error::{code, is_refusal, words};
use crate::runtime::{self, CERTIFICATE, KEY, TOKEN, credentials};
use crate::{Error, identity};

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::VolumeSecret => ApiResource::erase::<Secret>(&()),
        Kind::PersistentVolume => ApiResource::erase::<PersistentVolume>(&()),
        Kind::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
        Kind::Service => ApiResource::erase::<Service>(&()),
        Kind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
    }
}

/// What came of applying a plan.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// What the API server would not do, in its words.
    pub(super) refusal: Option<String>,
    /// The set itself was changed: the status waits for the next pass.
    pub(super) is_over: bool,
}

/// Writes what the plan says, in the order of its fields; the finalizer of a set
/// that is being deleted goes last.
pub(super) async fn apply(
    context: &Context,
    set: &SampleSet,
    plan: &Plan,
) -> Result<Applied, Error> {
    // Named one by one, so that a new kind of step can't be forgotten here.
    let Plan {
        finalizers,
        server_secret,
        created,
        patched,
        labelled,
        cancelled,
        posted,
        pods_deleted,
        deleted,
        status: _,
        events: _,
        wake_at: _,
    } = plan;
    let on = Target {
        context,
        set,
        namespace: identity(&set.metadata.namespace),
        name: identity(&set.metadata.name),
        uid: identity(&set.metadata.uid),
    };
    let is_going = set.metadata.deletion_timestamp.is_some();
    if let Some(finalizers) = finalizers
        && !is_going
    {
        on.set_finalizers(finalizers).await?;
        return Ok(Applied {
            is_over: true,
            ..Applied::default()
        });
    }
    let mut refusal = None;
    let mut note = |result: Result<(), Error>| match result {
        Err(Error::Apply {
            kind, name, source, ..
        }) if is_refusal(&source) => {
            refusal.get_or_insert(format!("{kind} {name}: {}", words(&source)));
            Ok(())
        }
        result => result,
    };
    if let Some(name) = server_secret {
        note(on.make_server_secret(name).await)?;
    }
    for object in created {
        note(on.create(object).await)?;
    }
    for object in patched {
        note(on.patch(object).await)?;
    }
    for label in labelled {
        note(on.label(label).await)?;
    }
    for cancel in cancelled {
        let servers = &context.servers;
        servers.cancel(on.uid, cancel.partition, &cancel.id).await;
    }
    for post in posted {
        let keys = match &post.credentials {
            Some(wanted) => Some(credentials(&context.client, on.namespace, wanted).await?),
            None => None,
        };
        let job = NewJob {
            id: post.id.clone(),
            owner: post.owner.clone(),
            task: runtime::task(&post.task),
            credentials: keys,
        };
        context.servers.post(on.uid, post.partition, &job).await;
    }
    for pod in pods_deleted {
        note(on.delete_pod(&pod.name, &pod.uid).await)?;
    }
    for kind in deleted {
        note(on.delete(*kind).await)?;
    }
    if let Some(finalizers) = finalizers {
        on.set_finalizers(finalizers).await?;
        return Ok(Applied {
            refusal,
            is_over: true,
        });
    }
    Ok(Applied {
        refusal,
        is_over: false,
    })
}

/// The set whose children are written.
struct Target<'a> {
    context: &'a Context,
    set: &'a SampleSet,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl Target<'_> {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let client = self.context.client.clone();
        match kind {
            Kind::PersistentVolume => Api::all_with(client, &resource(kind)),
            _ => Api::namespaced_with(client, self.namespace, &resource(kind)),
        }
    }

    async fn set_finalizers(&self, finalizers: &[String]) -> Result<(), Error> {
        let meta = &self.set.metadata;
        let patch = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let sets: Api<SampleSet> = Api::namespaced(self.context.client.clone(), self.namespace);
        let patched = sets
            .patch_metadata(self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(new) => self.context.memories.note_written(
                self.uid,
                identity(&meta.resource_version),
                new.metadata.resource_version.as_deref(),
            ),
            Err(source) if code(&source) == Some(404) => {}
            Err(source) => return Err(failed("patch", "SampleSet", self.name, source)),
        }
        Ok(())
    }

    /// The Secret by which servers and controllers know each other.
    async fn make_server_secret(&self, name: &str) -> Result<(), Error> {
        let identity = Identity::generate().map_err(|error| Error::Keys(error.to_string()))?;
        let data = [
            (CERTIFICATE, identity.certificate),
            (KEY, identity.key),
            (TOKEN, identity.token),
        ];
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.namespace.to_owned()),
                owner_references: self.set.controller_owner_ref(&()).map(|owner| vec![owner]),
                labels: Some(BTreeMap::from([(
                    api::labels::SET_NAME.to_owned(),
                    names::label_value(self.name),
                )])),
                ..ObjectMeta::default()
            },
            data: Some(
                data.into_iter()
                    .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
                    .collect(),
            ),
            ..Secret::default()
        };
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), self.namespace);
        match secrets.create(&PostParams::default(), &secret).await {
            Err(source) if code(&source) != Some(409) => {
                Err(failed("create", "Secret", name, source))
            }
            _ => Ok(()),
        }
    }

    async fn create(&self, object: &Object) -> Result<(), Error> {
        let name = object.kind.name(self.namespace, self.name);
        let kind = kind_name(object.kind);
        let api = self.api(object.kind);
        let child: DynamicObject = serde_json::from_value(object.value.clone())
            .map_err(|error| failed("create", kind, &name, kube::Error::SerdeError(error)))?;
        match api.create(&PostParams::default(), &child).await {
            Err(source) if code(&source) == Some(409) => {
                let there = api.get_metadata_opt(&name).await;
                let there = there.map_err(Error::Observe)?;
                let is_foreign = there.is_some_and(|there| !is_ours(&there.metadata, self.uid));
                self.context.note_foreign(self.uid, object.kind, is_foreign);
                if is_foreign {
                    self.context.tell(self.set)();
                }
                Ok(())
            }
            Err(source) => Err(failed("create", kind, &name, source)),
            Ok(_) => Ok(()),
        }
    }

    async fn patch(&self, object: &Object) -> Result<(), Error> {
        let name = object.kind.name(self.namespace, self.name);
        let patched = self
            .api(object.kind)
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&object.value))
            .await;
        match patched {
            Err(source) if code(&source) != Some(404) => {
                Err(failed("patch", kind_name(object.kind), &name, source))
            }
            _ => Ok(()),
        }
    }

    async fn label(&self, label: &NodeLabel) -> Result<(), Error> {
        let nodes: Api<Node> = Api::all(self.context.client.clone());
        let patch = json!({"metadata": {"labels": {&label.key: label.value}}});
        let patched = nodes
            .patch_metadata(&label.node, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Err(source) if code(&source) != Some(404) => {
                Err(failed("label", "Node", &label.node, source))
            }
            _ => Ok(()),
        }
    }

    async fn delete_pod(&self, name: &str, uid: &str) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.context.client.clone(), self.namespace);
        let how = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(only(uid)),
            ..DeleteParams::default()
        };
        gone(pods.delete(name, &how).await, "Pod", name)
    }

    /// Deletes a child that is ours.
    async fn delete(&self, kind: Kind) -> Result<(), Error> {
        let (name, api) = (kind.name(self.namespace, self.name), self.api(kind));
        let there = api.get_metadata_opt(&name).await.map_err(Error::Observe)?;
        let ours = there.filter(|there| is_ours(&there.metadata, self.uid));
        let Some(uid) = ours.and_then(|there| there.metadata.uid) else {
            return Ok(());
        };
        let how = DeleteParams::background().preconditions(only(&uid));
        gone(api.delete(&name, &how).await, kind_name(kind), &name)
    }
}

fn only(uid: &str) -> Preconditions {
    Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    }
}

/// Gone already, or replaced by another one, is as good.
fn gone<T>(deleted: kube::Result<T>, kind: &'static str, name: &str) -> Result<(), Error> {
    match deleted {
        Err(source) if !matches!(code(&source), Some(404 | 409)) => {
            Err(failed("delete", kind, name, source))
        }
        _ => Ok(()),
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::VolumeSecret => "Secret",
        Kind::PersistentVolume => "PersistentVolume",
        Kind::PersistentVolumeClaim => "PersistentVolumeClaim",
        Kind::Service => "Service",
        Kind::StatefulSet => "StatefulSet",
    }
}

fn failed(action: &'static str, kind: &'static str, name: &str, source: kube::Error) -> Error {
    Error::Apply {
        action,
        kind,
        name: name.to_owned(),
        source,
    }
}
