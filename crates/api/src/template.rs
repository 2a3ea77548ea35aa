//! The pod template of a role, kept as the user wrote it.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::core_schema::{any_quantity, keep_unknown, open_object, schema, without_descriptions};

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

    /// How long its text is, in bytes.
    pub const fn size(&self) -> usize {
        self.0.len()
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
        schema(pod_template())
    }
}

/// Parts of a template that are large and seldom written. They are objects in
/// which everything is kept: three roles repeat this schema, and the CRD has
/// to stay small enough for `kubectl apply`.
const OPEN: &[&str] = &[
    "spec.containers[].lifecycle",
    "spec.ephemeralContainers[]",
    "spec.initContainers[].lifecycle",
];

/// The metadata that is spelled out. The rest means nothing in a template, but
/// tools write `creationTimestamp: null`, which a type would refuse.
const METADATA: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// The volumes that are spelled out; all others are open objects.
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "hostPath",
    "nfs",
    "persistentVolumeClaim",
    "secret",
];

/// The schema of a pod template: it refuses what no Kubernetes accepts, such as
/// a string where a list belongs, and keeps everything else.
fn pod_template() -> Value {
    let mut schema = without_descriptions::<PodTemplateSpec>();
    for path in OPEN {
        if let Some(part) = schema.pointer_mut(&pointer(path)) {
            *part = open_object();
        }
    }
    if let Some(metadata) = properties_mut(&mut schema, "metadata") {
        metadata.retain(|name, _| METADATA.contains(&name.as_str()));
    }
    for (name, volume) in properties_mut(&mut schema, "spec.volumes[]")
        .into_iter()
        .flatten()
    {
        if volume.get("type") == Some(&json!("object")) && !VOLUMES.contains(&name.as_str()) {
            *volume = open_object();
        }
    }
    any_quantity(&mut schema);
    keep_unknown(&mut schema);
    schema
}

/// The properties of the object at a field path.
fn properties_mut<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    schema
        .pointer_mut(&pointer(path))?
        .get_mut("properties")?
        .as_object_mut()
}

/// The JSON pointer in a schema to a field path such as `spec.containers[].name`.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    for step in path.split('.') {
        let (name, item) = match step.strip_suffix("[]") {
            Some(name) => (name, "/items"),
            None => (step, ""),
        };
        pointer.extend(["/properties/", name, item]);
    }
    pointer
}
