//! Applying: writing what the plan says. Every step may be repeated.

use std::collections::BTreeMap;

use api::SampleSet;
use cache_api::Identity;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Resource};
use plan::names;
use plan::sampleset::{Child, Kind, NodeLabel, Object, Plan};
use serde_json::json;

use super::context::Context;
use super::target::Target;
use crate::Error;
use crate::error::code;
use crate::runtime::{CERTIFICATE, KEY, TOKEN};
use crate::writes::{self, failed, refusal};

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
    let on = Target::new(context, set);
    let common = &context.common;
    let is_going = set.metadata.deletion_timestamp.is_some();
    if let Some(finalizers) = finalizers
        && !is_going
    {
        common
            .set_finalizers::<SampleSet>(&set.metadata, finalizers)
            .await?;
        return Ok(Applied {
            is_over: true,
            ..Applied::default()
        });
    }
    let mut told = None;
    let mut note = |written: Result<(), Error>| {
        let say = |_: &str, kind: &str, name: &str, words: &str| format!("{kind} {name}: {words}");
        let refused = refusal(written, say)?;
        told = told.take().or(refused);
        Ok::<(), Error>(())
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
    let servers = &context.servers;
    servers
        .operate(on.uid, on.namespace, cancelled, posted)
        .await?;
    for pod in pods_deleted {
        note(on.delete_pod(pod).await)?;
    }
    for kind in deleted {
        note(on.delete(*kind).await)?;
    }
    if let Some(finalizers) = finalizers {
        common
            .set_finalizers::<SampleSet>(&set.metadata, finalizers)
            .await?;
    }
    Ok(Applied {
        refusal: told,
        is_over: finalizers.is_some(),
    })
}

impl Target<'_> {
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
        let secrets = self.context.common.api(self.namespace);
        writes::create(&secrets, "Secret", name, &secret).await
    }

    async fn create(&self, object: &Object) -> Result<(), Error> {
        let name = self.name_of(object.kind);
        let fail = |source| failed("create", kind_name(object.kind), &name, source);
        let child: DynamicObject = serde_json::from_value(object.value.clone())
            .map_err(|error| fail(kube::Error::SerdeError(error)))?;
        let children = self.api(object.kind);
        match children.create(&PostParams::default(), &child).await {
            Err(source) if code(&source) == Some(409) => {
                match self.uid_of(object.kind).await? {
                    Child::Ours(_) => {}
                    // The next pass says so.
                    Child::Foreign => self.context.concerned.tell(&self.set.metadata)(),
                    // It is gone by now; then the next pass makes it.
                    Child::Missing => return Err(fail(source)),
                }
                Ok(())
            }
            Err(source) => Err(fail(source)),
            Ok(_) => Ok(()),
        }
    }

    async fn patch(&self, object: &Object) -> Result<(), Error> {
        let (name, kind) = (self.name_of(object.kind), kind_name(object.kind));
        let children = self.api(object.kind);
        let patched = writes::patch(&children, "patch", kind, &name, &object.value).await;
        patched.map(drop)
    }

    async fn label(&self, label: &NodeLabel) -> Result<(), Error> {
        let nodes: Api<Node> = Api::all(self.context.common.client.clone());
        let patch = json!({"metadata": {"labels": {&label.key: label.value}}});
        let patched = writes::patch(&nodes, "label", "Node", &label.node, &patch).await;
        patched.map(drop)
    }

    async fn delete_pod(&self, pod: &plan::sampleset::Pod) -> Result<(), Error> {
        let pods: Api<Pod> = self.context.common.api(self.namespace);
        let how = DeleteParams::default().grace_period(0);
        writes::delete(&pods, "Pod", &pod.name, &pod.uid, how).await
    }

    /// Deletes a child that is ours.
    async fn delete(&self, kind: Kind) -> Result<(), Error> {
        let Child::Ours(uid) = self.uid_of(kind).await? else {
            return Ok(());
        };
        let (name, how) = (self.name_of(kind), DeleteParams::background());
        writes::delete(&self.api(kind), kind_name(kind), &name, &uid, how).await
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
