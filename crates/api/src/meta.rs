//! Small types that several kinds share.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

/// What a pod does in a job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Parameter server.
    Ps,
    /// Trainer.
    Worker,
    /// Trainer on other hardware (heterogeneous training).
    Heter,
}

impl Role {
    /// Every role, in the order in which pods are created.
    pub const ALL: [Role; 3] = [Role::Ps, Role::Worker, Role::Heter];

    /// The role as it stands in names, labels and field paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Ps => "ps",
            Role::Worker => "worker",
            Role::Heter => "heter",
        }
    }

    /// The role that a label names.
    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pod that belongs to the job.
///
/// It has the fields of an ObjectReference that the operator fills; objects
/// that the Go operators wrote have more of them, which are ignored.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct PodReference {
    /// Always `Pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the pod.
    #[serde(default)]
    pub name: String,
    /// The pod's uid: another pod of the same name is another pod.
    #[serde(default)]
    pub uid: String,
    /// The pod succeeded: it is not missed when it is deleted afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub succeeded: bool,
}

/// A Secret in the namespace of the object that names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Secret; only the namespace of the object that names it
    /// is accepted, which is also the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Reads an empty string as no value: the Go operators wrote `phase: ""`.
pub(crate) fn empty_as_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    match Option::<String>::deserialize(deserializer)? {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => T::deserialize(text.into_deserializer()).map(Some),
    }
}
