//! Children as they come over the wire: only what is kept of them is read.

use std::collections::BTreeMap;

use api::{PodGroup, PodGroupSpec, PodGroupStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use plan::paddlejob::{ConfigMapView, PodGroupView, PodView, wire};
use serde::{Deserialize, Deserializer};

use crate::cache::{Child, Owner};

const KIND: &str = "PaddleJob";

/// A pod, as far as the plan reads it.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(super) struct WirePod {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: wire::PodSpec,
    #[serde(default)]
    status: wire::PodStatus,
}

/// A ConfigMap without binary data.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
pub(super) struct WireConfigMap {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// A Service, of which only the name counts.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Service)]
pub(super) struct WireService {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
}

/// A PodGroup of Volcano.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = PodGroup)]
pub(super) struct WirePodGroup {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodGroupSpec,
    status: Option<PodGroupStatus>,
}

/// What can be kept in a cache of `V`s.
pub(super) trait IntoChild<V> {
    /// The child, if it belongs to a PaddleJob.
    fn into_child(self) -> Option<Child<V>>;
}

impl IntoChild<PodView> for WirePod {
    fn into_child(self) -> Option<Child<PodView>> {
        let owner = Owner::of(&self.metadata, KIND)?;
        let view = PodView::new(&owner.name, &self.metadata, &self.spec, &self.status)?;
        Child::new(&self.metadata, owner, view)
    }
}

impl IntoChild<ConfigMapView> for WireConfigMap {
    fn into_child(self) -> Option<Child<ConfigMapView>> {
        let owner = Owner::of(&self.metadata, KIND)?;
        Child::new(&self.metadata, owner, ConfigMapView { data: self.data })
    }
}

impl IntoChild<()> for WireService {
    fn into_child(self) -> Option<Child<()>> {
        Child::new(&self.metadata, Owner::of(&self.metadata, KIND)?, ())
    }
}

impl IntoChild<PodGroupView> for WirePodGroup {
    fn into_child(self) -> Option<Child<PodGroupView>> {
        let owner = Owner::of(&self.metadata, KIND)?;
        let view = PodGroupView::of(&self.metadata, &self.spec, self.status.as_ref());
        Child::new(&self.metadata, owner, view)
    }
}

/// Reads metadata without `managedFields`, which are most of it.
pub(super) fn slim_meta<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        finalizers: Option<Vec<String>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        deletion_grace_period_seconds: Option<i64>,
    }
    Slim::deserialize(deserializer).map(|slim| ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        labels: slim.labels,
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        finalizers: slim.finalizers,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        deletion_grace_period_seconds: slim.deletion_grace_period_seconds,
        ..ObjectMeta::default()
    })
}
