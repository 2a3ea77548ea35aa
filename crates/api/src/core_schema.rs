//! Schemas of Kubernetes' own types, in the form in which a CRD can hold them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Keeps fields that the schema does not name: the API server would drop them.
pub(crate) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Marks a value that is a number or a string.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The schema of a Kubernetes type without its descriptions: they are several
/// times larger than the rest, and a CRD has to stay small enough for
/// `kubectl apply`, which stores a copy of it in an annotation of 256 KiB.
pub(crate) fn without_descriptions<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    strip(&mut schema);
    schema
}

/// For `#[schemars(schema_with = "…")]` on a field of a Kubernetes type.
pub(crate) fn core<T: JsonSchema>(_: &mut SchemaGenerator) -> Schema {
    schema(without_descriptions::<T>())
}

/// For `#[schemars(transform = …)]` on an enum. The description of the type would
/// take the place of the field's where the field is optional.
pub(crate) fn undescribed(schema: &mut Schema) {
    schema.remove("description");
}

/// A JSON value as a schema; what is no schema accepts everything.
pub(crate) fn schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

/// An object in which everything is kept.
pub(crate) fn open_object() -> Value {
    json!({ "type": "object", PRESERVE: true })
}

/// Keeps unknown fields in every object of a schema, so that a field that
/// Kubernetes gets after this program was built is not lost.
pub(crate) fn keep_unknown(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    for_each_child(node, keep_unknown);
    if node.get("type") == Some(&json!("object")) && !node.contains_key("additionalProperties") {
        node.insert(PRESERVE.to_owned(), json!(true));
    }
}

fn strip(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    node.remove("title");
    node.remove("description");
    for_each_child(node, strip);
}

/// Lets every quantity in a schema be any number: Kubernetes reads `cpu: 0.5`
/// in a pod as it reads `cpu: "0.5"`, and an int-or-string refuses it. Of all
/// that is int-or-string only a port is no quantity.
///
/// Not for fields that have a Rust type: nothing else but a number or a string
/// may get there.
pub(crate) fn any_quantity(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    for_each_child(node, any_quantity);
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            if name != "port" {
                any_value(property);
            }
        }
    }
    if let Some(values) = node.get_mut("additionalProperties") {
        any_value(values);
    }
}

fn any_value(schema: &mut Value) {
    if schema.get(INT_OR_STRING) == Some(&json!(true)) {
        *schema = json!({ PRESERVE: true });
    }
}

fn for_each_child(node: &mut Map<String, Value>, visit: fn(&mut Value)) {
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            visit(child);
        }
    }
}
