//! What an API server does with an object and a structural schema, as far as
//! these tests need it: it refuses what has the wrong form and drops what the
//! schema does not name.

use serde_json::Value;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What would be refused or dropped, as lines such as `spec.x: dropped`.
pub fn problems(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        if let Some(value) = object.get(part) {
            check(part, &schema["properties"][part], value, &mut found);
        }
    }
    found
}

pub fn check(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    let preserve = schema[PRESERVE] == true;
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ if schema[INT_OR_STRING] == true => value.is_i64() || value.is_string(),
        _ => preserve,
    };
    if !fits {
        found.push(format!("{path}: {value} does not fit"));
        return;
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        found.push(format!("{path}: {value} is none of the values"));
    }
    let below = |key: &str, have: Option<f64>| {
        let least = schema[key].as_f64();
        least.zip(have).is_some_and(|(least, have)| have < least)
    };
    let items = value.as_array().map(|items| items.len() as f64);
    let length = value.as_str().map(|text| text.len() as f64);
    let above = schema["maximum"]
        .as_f64()
        .zip(value.as_f64())
        .is_some_and(|(most, have)| have > most);
    if below("minimum", value.as_f64())
        || below("minItems", items)
        || below("minLength", length)
        || above
    {
        found.push(format!("{path}: {value} is out of bounds"));
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap();
        if value.get(name).is_none() {
            found.push(format!("{path}.{name}: missing"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match (
            schema["properties"].get(name),
            schema.get("additionalProperties"),
        ) {
            (Some(property), _) => check(&path, property, value, found),
            (None, Some(values)) => check(&path, values, value, found),
            (None, None) if preserve => {}
            (None, None) => found.push(format!("{path}: dropped")),
        }
    }
    for (at, value) in value.as_array().into_iter().flatten().enumerate() {
        check(&format!("{path}[{at}]"), &schema["items"], value, found);
    }
}

/// Calls `visit` with every schema in `schema` and its path.
pub fn for_each(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        for_each(&format!("{path}.{name}"), property, visit);
    }
    if let Some(items) = schema.get("items") {
        for_each(&format!("{path}[]"), items, visit);
    }
    if let Some(values) = schema.get("additionalProperties") {
        for_each(&format!("{path}.*"), values, visit);
    }
}
