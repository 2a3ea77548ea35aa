//! Structural schemas: what a kind's objects hold, what is filled in, and what
//! is refused, in the words of the real API server.

use std::collections::BTreeSet;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use regex::Regex;
use serde_json::{Map, Value};

use crate::fault::{Fault, Path};
use crate::path::at;

/// Fields that every object has at its root, whatever its schema says.
const ROOT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What is said of rules that were not tried.
const NOT_CHECKED: &str = "Invalid value: null: some validation rules were not checked because the \
                           object was invalid; correct the existing errors to complete validation";

/// What the objects of a kind look like.
#[derive(Debug)]
pub struct Schema {
    root: Value,
    rules: CompiledSchema,
    has_rules: bool,
}

impl Schema {
    /// A schema in the form that OpenAPI v3 has.
    pub fn new(root: Value) -> Schema {
        let rules = compile_schema(&root);
        let has_rules = has_rules(&root);
        Schema {
            root,
            rules,
            has_rules,
        }
    }

    /// The schema as it was given.
    pub fn as_json(&self) -> &Value {
        &self.root
    }

    /// Removes the fields that the schema does not know; returns their paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        prune(&self.root, object, &Path::Root, &mut unknown);
        unknown.sort();
        unknown
    }

    /// Fills in what the schema has defaults for.
    pub fn set_defaults(&self, object: &mut Value) {
        set_defaults(&self.root, object);
    }

    /// What is wrong with an object. What was wrong in the same way before, in
    /// `old`, is let pass.
    pub fn faults(&self, object: &Value, old: Option<&Value>) -> Vec<Fault> {
        let mut faults = Vec::new();
        check(&self.root, object, old, &Path::Root, &mut faults);
        if self.has_rules && faults.iter().any(blocks_rules) {
            faults.push(Fault {
                field: "<nil>".to_owned(),
                reason: "FieldValueInvalid",
                message: NOT_CHECKED.to_owned(),
            });
        } else {
            let known = faults.len();
            let broken = Validator::new().validate_compiled(&self.rules, object, old);
            let broken = broken
                .err()
                .into_iter()
                .flat_map(|errors| errors.into_vec());
            faults.extend(broken.map(|error| {
                let (reason, message) = match error.reason.as_deref() {
                    Some("FieldValueRequired") => (
                        "FieldValueRequired",
                        format!("Required value: {}", error.message),
                    ),
                    Some("FieldValueForbidden") => (
                        "FieldValueForbidden",
                        format!("Forbidden: {}", error.message),
                    ),
                    _ => {
                        let found = match at(object, &error.field_path) {
                            Some(Value::Object(_) | Value::Array(_)) | None => String::new(),
                            Some(found) => format!("{found}: "),
                        };
                        let message = format!("Invalid value: {found}{}", error.message);
                        ("FieldValueInvalid", message)
                    }
                };
                Fault {
                    field: error.field_path,
                    reason,
                    message,
                }
            }));
            let broken = faults.split_off(known);
            faults.extend(broken.into_iter().filter(|fault| {
                let new = at(object, &fault.field);
                old.is_none_or(|old| new.is_none() || at(old, &fault.field) != new)
            }));
        }
        faults
    }
}

/// Whether rules could stumble over it.
fn blocks_rules(fault: &Fault) -> bool {
    [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
    .contains(&fault.reason)
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.contains_key("x-kubernetes-validations") || map.values().any(has_rules)
        }
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// The schema of a field, or of every field that is not named.
fn field<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let named = schema.get("properties").and_then(|all| all.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|s| s.is_object()))
}

fn prune(schema: &Value, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let keeps_all = flag(schema, "x-kubernetes-preserve-unknown-fields")
                || schema
                    .get("additionalProperties")
                    .is_some_and(|s| s == true);
            let is_object =
                matches!(path, Path::Root) || flag(schema, "x-kubernetes-embedded-resource");
            map.retain(|name, _| {
                let known = field(schema, name).is_some()
                    || keeps_all
                    || (is_object && ROOT.contains(&name.as_str()));
                if !known {
                    unknown.push(Path::Field(path, name).to_string());
                }
                known
            });
            for (name, value) in map.iter_mut() {
                if let Some(schema) = field(schema, name) {
                    prune(schema, value, &Path::Field(path, name), unknown);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune(schema, item, &Path::Index(path, index), unknown);
            }
        }
        _ => {}
    }
}

fn set_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let named = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in named.into_iter().flatten() {
                // Nothing where nothing may not be is as if it were not there.
                if map.get(name).is_some_and(Value::is_null) && !flag(schema, "nullable") {
                    map.remove(name);
                }
                if let (Some(default), false) = (schema.get("default"), map.contains_key(name)) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(schema) = field(schema, name) {
                    set_defaults(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| set_defaults(schema, item));
            }
        }
        _ => {}
    }
}

/// The name of a value's type, as the API server prints it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    if value.is_null() {
        return flag(schema, "nullable");
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some(wanted) => type_of(value) == wanted,
        None => true,
    }
}

fn check(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) {
    if old == Some(value) {
        return;
    }
    let mut fault = |reason, message: String| {
        faults.push(Fault {
            field: path.to_string(),
            reason,
            message,
        });
    };
    if !is_of_type(schema, value) {
        let found = type_of(value);
        let wanted = schema.get("type").and_then(Value::as_str);
        let wanted = wanted.unwrap_or("integer,string");
        let message = format!(
            "Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\""
        );
        return fault("FieldValueTypeInvalid", message);
    }
    if let Some(Value::Array(wanted)) = schema.get("enum")
        && !wanted.contains(value)
    {
        let wanted: Vec<String> = wanted.iter().map(Value::to_string).collect();
        let message = format!(
            "Unsupported value: {value}: supported values: {}",
            wanted.join(", ")
        );
        fault("FieldValueNotSupported", message);
    }
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let mut invalid = |what: String| {
        let message = format!("Invalid value: {value}: {path} in body {what}");
        fault("FieldValueInvalid", message);
    };
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            if let Some(least) = limit("minimum").filter(|least| number < *least) {
                invalid(format!("should be greater than or equal to {least}"));
            }
            if let Some(most) = limit("maximum").filter(|most| number > *most) {
                invalid(format!("should be less than or equal to {most}"));
            }
        }
        Value::String(text) => {
            let length = text.chars().count() as f64;
            if let Some(least) = limit("minLength").filter(|least| length < *least) {
                invalid(format!("should be at least {least} chars long"));
            }
            let pattern = schema.get("pattern").and_then(Value::as_str);
            // One that we can't read is let pass, rather than every object refused.
            let regex = pattern.and_then(|pattern| Regex::new(pattern).ok());
            if let (Some(pattern), Some(regex)) = (pattern, regex)
                && !regex.is_match(text)
            {
                invalid(format!("should match '{pattern}'"));
            }
            let format = schema.get("format").and_then(Value::as_str);
            if format == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
                let message = format!(
                    "Invalid value: {value}: {path} in body must be of type date-time: {value}"
                );
                fault("FieldValueTypeInvalid", message);
            }
            if let Some(most) = limit("maxLength").filter(|most| length > *most) {
                let message = format!("Too long: may not be more than {most} bytes");
                fault("FieldValueTooLong", message);
            }
        }
        Value::Array(items) => {
            let length = items.len() as f64;
            if let Some(least) = limit("minItems").filter(|least| length < *least) {
                let message = format!(
                    "Invalid value: {length}: {path} in body should have at least {least} items"
                );
                fault("FieldValueInvalid", message);
            }
            if let Some(most) = limit("maxItems").filter(|most| length > *most) {
                let message = format!("Too many: {length}: must have at most {most} items");
                fault("FieldValueTooMany", message);
            }
            duplicates(schema, items, path, faults);
            for (index, item) in items.iter().enumerate() {
                if let Some(schema) = schema.get("items") {
                    check(schema, item, None, &Path::Index(path, index), faults);
                }
            }
        }
        Value::Object(map) => {
            check_fields(schema, map, old, path, faults);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_fields(
    schema: &Value,
    map: &Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) {
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !map.contains_key(*name)) {
        faults.push(Fault {
            field: Path::Field(path, name).to_string(),
            reason: "FieldValueRequired",
            message: "Required value".to_owned(),
        });
    }
    for (name, value) in map {
        if let Some(schema) = field(schema, name) {
            let old = old.and_then(|old| old.get(name));
            check(schema, value, old, &Path::Field(path, name), faults);
        }
    }
}

/// Items of a set, or with the same keys of a list that is a map.
fn duplicates(schema: &Value, items: &[Value], path: &Path<'_>, faults: &mut Vec<Fault>) {
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let id = |item: &Value| -> Value {
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        let named = keys.map(|key| (key.to_owned(), item.get(key).cloned().unwrap_or_default()));
        match kind {
            Some("map") => named.collect::<Map<_, _>>().into(),
            _ => item.clone(),
        }
    };
    if !matches!(kind, Some("map" | "set")) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, id) in items.iter().map(id).enumerate() {
        if !seen.insert(id.to_string()) {
            faults.push(Fault {
                field: Path::Index(path, index).to_string(),
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {id}"),
            });
        }
    }
}
