//! Walking through OpenAPI schemas in JSON.

use serde_json::{Map, Value};

/// Calls `visit` with a schema and every schema in it. A property may have any
/// name, `default` and `description` too, so keys mean something only where a
/// schema stands.
pub fn for_each(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    visit(node);
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut() {
            for_each(property, visit);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            for_each(child, visit);
        }
    }
}

/// The text at `pointer`, or nothing.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
