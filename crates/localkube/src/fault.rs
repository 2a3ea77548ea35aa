//! What is wrong with an object, and where: in the words of the real API server.

use std::fmt;

use serde_json::Value;

use crate::kind::Kind;
use crate::status::Status;

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: String,
    /// The reason of a `StatusCause`.
    pub reason: &'static str,
    /// What was found, and what would be right.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
    /// An entry of a map whose keys are data.
    Key(&'a Path<'a>, &'a str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => write!(f, "{name}"),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// A value and its place. What is not there is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'p, 'v> {
    pub(crate) value: &'v Value,
    pub(crate) path: Path<'p>,
}

impl<'v> At<'_, 'v> {
    pub(crate) fn root(value: &'v Value) -> At<'static, 'v> {
        At {
            value,
            path: Path::Root,
        }
    }

    /// The same, as if it were a field.
    pub(crate) fn named(self, name: &str) -> At<'_, 'v> {
        At {
            value: self.value,
            path: Path::Field(&Path::Root, name),
        }
    }

    /// A field of it.
    pub(crate) fn get<'b>(&'b self, name: &'b str) -> At<'b, 'v> {
        At {
            value: self.value.get(name).unwrap_or(&Value::Null),
            path: Path::Field(&self.path, name),
        }
    }

    /// The items of a list.
    pub(crate) fn items<'b>(&'b self) -> impl Iterator<Item = At<'b, 'v>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| At {
            value,
            path: Path::Index(&self.path, index),
        })
    }

    /// The entries of a map whose keys are data.
    pub(crate) fn entries<'b>(&'b self) -> impl Iterator<Item = (&'v str, At<'b, 'v>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| {
            let path = Path::Key(&self.path, key);
            (key.as_str(), At { value, path })
        })
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text; empty when there is none.
    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(crate) fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// Whether it is nothing, or has nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// All that is wrong with an object.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    fn push(&mut self, place: impl fmt::Display, reason: &'static str, message: String) {
        self.0.push(Fault {
            field: place.to_string(),
            reason,
            message,
        });
    }

    pub(crate) fn required(&mut self, at: &At<'_, '_>) {
        self.push(at.path, "FieldValueRequired", "Required value".to_owned());
    }

    pub(crate) fn required_so(&mut self, at: &At<'_, '_>, why: &str) {
        let message = format!("Required value: {why}");
        self.push(at.path, "FieldValueRequired", message);
    }

    pub(crate) fn invalid(&mut self, at: &At<'_, '_>, why: &str) {
        self.invalid_value(&at.path, at.value, why);
    }

    /// As `invalid`, of a value that is a key, or a part of another.
    pub(crate) fn invalid_value(&mut self, path: &Path<'_>, value: &Value, why: &str) {
        let message = format!("Invalid value: {value}: {why}");
        self.push(path, "FieldValueInvalid", message);
    }

    pub(crate) fn unsupported(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        let supported: Vec<String> = supported
            .iter()
            .map(|value| format!("\"{value}\""))
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            at.value,
            supported.join(", ")
        );
        self.push(at.path, "FieldValueNotSupported", message);
    }

    pub(crate) fn duplicate(&mut self, at: &At<'_, '_>, value: &str) {
        let message = format!("Duplicate value: {}", Value::from(value));
        self.push(at.path, "FieldValueDuplicate", message);
    }

    /// As `duplicate`, of what is more than a name.
    pub(crate) fn duplicate_value(&mut self, at: &At<'_, '_>, value: &Value) {
        let message = format!("Duplicate value: {value}");
        self.push(at.path, "FieldValueDuplicate", message);
    }

    pub(crate) fn forbidden(&mut self, place: impl fmt::Display, why: &str) {
        self.push(place, "FieldValueForbidden", format!("Forbidden: {why}"));
    }

    pub(crate) fn not_found(&mut self, at: &At<'_, '_>) {
        let message = format!("Not found: {}", Value::from(at.text()));
        self.push(at.path, "FieldValueNotFound", message);
    }

    pub(crate) fn too_long(&mut self, place: impl fmt::Display, most: usize) {
        let message = format!("Too long: may not be more than {most} bytes");
        self.push(place, "FieldValueTooLong", message);
    }

    /// Refuses a request whose options are at fault.
    pub(crate) fn of_options(&self, options: &str) -> Result<(), Status> {
        match self.0.as_slice() {
            [] => Ok(()),
            faults => Err(Status::invalid(&Kind::of_options(options), "", faults)),
        }
    }

    /// A value that is one of a few, where it is set.
    pub(crate) fn one_of(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        if at.is_set() && !supported.contains(&at.text()) {
            self.unsupported(at, supported);
        }
    }

    /// A number that is not too small, where it is set.
    pub(crate) fn at_least(&mut self, at: &At<'_, '_>, least: i64) {
        if at.number().is_some_and(|number| number < least) {
            let why = match least {
                1 => "must be greater than 0".to_owned(),
                least => format!("must be greater than or equal to {least}"),
            };
            self.invalid(at, &why);
        }
    }

    /// A number within bounds, where it is set.
    pub(crate) fn between(&mut self, at: &At<'_, '_>, least: i64, most: i64) {
        if at
            .number()
            .is_some_and(|number| !(least..=most).contains(&number))
        {
            self.invalid(
                at,
                &format!("must be between {least} and {most}, inclusive"),
            );
        }
    }
}
