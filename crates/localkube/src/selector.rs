//! Selectors of lists and watches: by labels and by fields.

use std::str::FromStr;

use serde_json::Value;

use crate::path::at;

/// Which objects are meant, by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

/// Which objects are meant, by their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, bool, String)>);

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement: {0}")]
pub struct Malformed(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Requirement {
    fn holds(&self, label: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Missing(key) => label(key).is_none(),
            Requirement::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
            Requirement::NotIn(key, values) => {
                label(key).is_none_or(|value| !values.contains(&value))
            }
        }
    }
}

impl Labels {
    /// Whether an object is meant.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| Some(labels?.get(key)?.as_str()?.to_owned());
        self.0.iter().all(|requirement| requirement.holds(label))
    }
}

impl Fields {
    /// The fields that are looked at.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(path, _, _)| path.as_str())
    }

    /// Whether an object is meant. A field that is not there is empty.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, equal, wanted)| {
            let found = match at(object, path) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            };
            (found == *wanted) == *equal
        })
    }
}

impl FromStr for Labels {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Labels, Malformed> {
        let requirements = split(text).into_iter().filter(|part| !part.is_empty());
        Ok(Labels(
            requirements.map(requirement).collect::<Result<_, _>>()?,
        ))
    }
}

impl FromStr for Fields {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Fields, Malformed> {
        let terms = text.split(',').filter(|term| !term.is_empty());
        let terms = terms.map(|term| {
            let (path, equal, wanted) = comparison(term)
                .ok_or_else(|| Malformed(format!("{term:?} is no comparison of a field")))?;
            Ok((path.to_owned(), equal, wanted.to_owned()))
        });
        Ok(Fields(terms.collect::<Result<_, _>>()?))
    }
}

/// Splits at commas that are not in parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

/// `a=b`, `a==b` or `a!=b`.
fn comparison(text: &str) -> Option<(&str, bool, &str)> {
    let (operator, equal) = [("!=", false), ("==", true), ("=", true)]
        .into_iter()
        .find(|(operator, _)| text.contains(operator))?;
    let (key, value) = text.split_once(operator)?;
    Some((key.trim(), equal, value.trim()))
}

fn requirement(text: &str) -> Result<Requirement, Malformed> {
    let malformed = || Malformed(format!("{text:?}"));
    if let Some((key, equal, value)) = comparison(text) {
        let (key, values) = (label(key).ok_or_else(malformed)?, vec![value.to_owned()]);
        return Ok(match equal {
            true => Requirement::In(key, values),
            false => Requirement::NotIn(key, values),
        });
    }
    if let Some(key) = text.strip_prefix('!') {
        return label(key).map(Requirement::Missing).ok_or_else(malformed);
    }
    let Some((key, rest)) = text.split_once(char::is_whitespace) else {
        return label(text).map(Requirement::Exists).ok_or_else(malformed);
    };
    let key = label(key).ok_or_else(malformed)?;
    let (operator, values) = rest.split_once('(').ok_or_else(malformed)?;
    let values = values.trim().strip_suffix(')').ok_or_else(malformed)?;
    let values = values.split(',').map(|value| value.trim().to_owned());
    match operator.trim() {
        "in" => Ok(Requirement::In(key, values.collect())),
        "notin" => Ok(Requirement::NotIn(key, values.collect())),
        _ => Err(malformed()),
    }
}

/// The key of a label: letters, digits, and a few signs between them.
fn label(key: &str) -> Option<String> {
    let key = key.trim();
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!key.is_empty() && key.chars().all(is_good)).then(|| key.to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels() {
        let object =
            json!({"metadata": {"labels": {"app": "a", "example.com/tier": "b", "e": ""}}});
        for (selector, wanted) in [
            ("", true),
            ("app=a", true),
            ("app==a,example.com/tier=b", true),
            ("app=b", false),
            ("app!=b", true),
            ("other!=b", true),
            ("app", true),
            ("!app", false),
            ("other", false),
            ("!other", true),
            ("e=", true),
            ("app in (a, c)", true),
            ("app in (c),app", false),
            ("app notin (a,c)", false),
            ("other notin (a,c)", true),
        ] {
            let selector: Labels = selector.parse().unwrap();
            assert_eq!(selector.matches(&object), wanted, "{selector:?}");
        }
        for bad in [
            "=a",
            "app in a",
            "app near (a)",
            "a b",
            "app in (a",
            "!",
            "a\0",
        ] {
            assert!(bad.parse::<Labels>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fields() {
        let object = json!({"metadata": {"name": "x"}, "status": {"phase": "Running"}});
        for (selector, wanted) in [
            ("metadata.name=x", true),
            ("metadata.name!=x", false),
            ("status.phase!=Failed,metadata.name==x", true),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
        ] {
            let selector: Fields = selector.parse().unwrap();
            assert_eq!(selector.matches(&object), wanted, "{selector:?}");
        }
        assert!("metadata.name".parse::<Fields>().is_err());
    }
}
