//! The set that a pass is about, and its children by their names.

use api::{SampleSet, labels};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use plan::sampleset::{Child, Kind};

use super::context::Context;
use crate::cache::Owner;
use crate::{Error, identity};

/// The set that a pass is about.
pub(super) struct Target<'a> {
    pub(super) context: &'a Context,
    pub(super) set: &'a SampleSet,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> Target<'a> {
    pub(super) fn new(context: &'a Context, set: &'a SampleSet) -> Target<'a> {
        Target {
            context,
            set,
            namespace: identity(&set.metadata.namespace),
            name: identity(&set.metadata.name),
            uid: identity(&set.metadata.uid),
        }
    }

    /// The name that the child of a kind has.
    pub(super) fn name_of(&self, kind: Kind) -> String {
        kind.name(self.namespace, self.name)
    }

    /// The API of a kind of children.
    pub(super) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (client, resource) = (self.context.common.client.clone(), resource(kind));
        match kind {
            Kind::PersistentVolume => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, self.namespace, &resource),
        }
    }

    /// Asks for the uid of a child, and remembers when its name is another's: such an
    /// object is not watched, since it lacks our label.
    pub(super) async fn uid_of(&self, kind: Kind) -> Result<Child<String>, Error> {
        let found = self.api(kind).get_metadata_opt(&self.name_of(kind)).await;
        let child = match found.map_err(Error::Observe)?.map(|found| found.metadata) {
            None => Child::Missing,
            Some(found) if self.owns(&found) => Child::Ours(identity(&found.uid).to_owned()),
            Some(_) => Child::Foreign,
        };
        let is_foreign = child == Child::Foreign;
        self.context.note_foreign(self.uid, kind, is_foreign);
        Ok(child)
    }

    /// Whether a child is the set's: cluster-wide ones carry its uid in a label.
    pub(super) fn owns(&self, child: &ObjectMeta) -> bool {
        let owner = Owner::of(child, "SampleSet");
        let label = child
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::SET_UID));
        owner.is_some_and(|owner| owner.uid == self.uid)
            || label.is_some_and(|label| label == self.uid)
    }
}

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::VolumeSecret => ApiResource::erase::<Secret>(&()),
        Kind::PersistentVolume => ApiResource::erase::<PersistentVolume>(&()),
        Kind::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
        Kind::Service => ApiResource::erase::<Service>(&()),
        Kind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
    }
}
