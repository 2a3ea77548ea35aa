//! PodGroup of Volcano, as far as jobs need it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What must find a place at once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "PodGroup",
    plural = "podgroups",
    namespaced,
    status = "PodGroupStatus",
    schema = "disabled",
    doc = "A group of pods that Volcano schedules together."
)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// How many pods.
    #[serde(default)]
    pub min_member: Option<i32>,
    /// What they take together.
    #[serde(default)]
    pub min_resources: Option<BTreeMap<String, Quantity>>,
    /// The queue.
    #[serde(default)]
    pub queue: Option<String>,
    /// The priority class.
    #[serde(default)]
    pub priority_class_name: Option<String>,
}

/// How far Volcano is with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodGroupStatus {
    /// Pending, Inqueue, Running, Unknown or Completed.
    #[serde(default)]
    pub phase: Option<String>,
    /// Why it waits.
    #[serde(default)]
    pub conditions: Vec<PodGroupCondition>,
}

/// Something that Volcano says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodGroupCondition {
    /// What it is about, such as `Unschedulable`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// `True` if it holds.
    #[serde(default)]
    pub status: String,
    /// In words.
    #[serde(default)]
    pub message: Option<String>,
}
