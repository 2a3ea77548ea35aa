//! The pod template of a role, kept as the user wrote it.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A pod template, as JSON text.
///
/// It is text for two reasons. Nothing is lost: a field that this program has
/// never heard of reaches the pod. And it is small: a template is read when
/// pods are made but kept in memory as long as its job lives, and a tree of
/// JSON values takes ten times the room of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate(Box<str>);

impl PodTemplate {
    /// The template as JSON; a fresh copy each time.
    pub fn to_json(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<Value> for PodTemplate {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl Serialize for PodTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PodTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for PodTemplate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PodTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
