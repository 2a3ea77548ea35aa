//! What differs between two answers, apart from what must.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// A place where two answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The name of the request.
    pub request: &'static str,
    /// Where in the answer.
    pub place: String,
    /// What the real one says there, if anything.
    pub real: Option<Value>,
    /// What the embedded one says there, if anything.
    pub embedded: Option<Value>,
}

/// What a control plane writes, at times of its own, and what no client reads.
const CONTROL_PLANE: [&str; 6] = [
    "node.alpha.kubernetes.io/ttl",
    "collisionCount",
    "currentRevision",
    "observedGeneration",
    "updateRevision",
    "storageVersionHash",
];

/// An answer without what no two servers have in common.
pub fn normal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            // Who wrote what is told by the real one only. It is in the list of what is
            // missing; here it would cover everything else.
            let fields = fields.filter(|(name, _)| *name != "managedFields");
            let fields = fields.filter(|(name, _)| !CONTROL_PLANE.contains(&name.as_str()));
            let fields = fields.map(|(name, value)| (name.clone(), normal_field(name, value)));
            // Nothing, written or left out, is the same to every client.
            let fields = fields.filter(|(_, value)| !is_empty(value));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::String(text) => json!(normal_text(text)),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn normal_field(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("resourceVersion", Value::String(text)) if text.parse::<u64>().is_ok_and(|n| n > 0) => {
            json!("<version>")
        }
        ("continue", Value::String(text)) if !text.is_empty() => json!("<token>"),
        ("clusterIP", Value::String(text)) if text != "None" => json!("<address>"),
        ("clusterIPs", Value::Array(all)) if *all != [json!("None")] => json!(["<address>"]),
        ("taints", Value::Array(all)) => {
            let ours = all.iter().filter(|taint| taint.get("timeAdded").is_none());
            ours.map(normal).collect()
        }
        _ => normal(value),
    }
}

/// Uids, times, ages, generated names and versions in messages.
fn normal_text(text: &str) -> String {
    let words = text.split_inclusive([' ', '"', ',', ')', '(', '\n']);
    words
        .map(|word| {
            let end = word.len() - word.trim_end_matches([' ', '"', ',', ')', '(', '\n']).len();
            let (word, end) = word.split_at(word.len() - end);
            format!("{}{end}", normal_word(word))
        })
        .collect()
}

fn normal_word(word: &str) -> String {
    let is_uid = word.len() == 36
        && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && word.bytes().all(|c| c == b'-' || c.is_ascii_hexdigit());
    let is_time = word.parse::<jiff::Timestamp>().is_ok();
    let seconds = word.strip_suffix('s').and_then(|n| n.parse::<u16>().ok());
    match word {
        _ if is_uid => "<uid>".to_owned(),
        _ if is_time => "<time>".to_owned(),
        _ if seconds.is_some_and(|seconds| seconds < 120) => "<age>".to_owned(),
        // What the tests make with generateName.
        _ if word.starts_with("made-") && word.len() == 10 => "made-<any>".to_owned(),
        _ => word.to_owned(),
    }
}

/// All places where two answers differ.
pub fn between(request: &'static str, real: &Value, embedded: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    if real.get("code") == embedded.get("code") {
        compare(request, "", Some(real), Some(embedded), &mut found);
    } else {
        // Who refuses says something else altogether.
        found.push(Difference {
            request,
            place: "/code".to_owned(),
            real: Some(in_short(real)),
            embedded: Some(in_short(embedded)),
        });
    }
    found
}

fn in_short(answer: &Value) -> Value {
    let message = answer.pointer("/body/message").or(answer.get("failed"));
    json!([answer.get("code"), message])
}

fn compare(
    request: &'static str,
    place: &str,
    real: Option<&Value>,
    embedded: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    if real == embedded {
        return;
    }
    if let (Some(one), Some(other)) = (real.and_then(parts), embedded.and_then(parts)) {
        let names: BTreeSet<&String> = { one.iter().chain(&other) }.map(|(name, _)| name).collect();
        for name in names {
            let of = |parts: &[(String, &Value)]| {
                { parts.iter() }
                    .find(|(other, _)| other == name)
                    .map(|(_, value)| (*value).clone())
            };
            let place = format!("{place}/{name}");
            compare(
                request,
                &place,
                of(&one).as_ref(),
                of(&other).as_ref(),
                found,
            );
        }
        // Only the order differs.
        return;
    }
    found.push(Difference {
        request,
        place: place.to_owned(),
        real: real.cloned(),
        embedded: embedded.cloned(),
    });
}

/// The parts of a value, each with a name: in a list, its own if it has one.
fn parts(value: &Value) -> Option<Vec<(String, &Value)>> {
    match value {
        Value::Object(fields) => Some(fields.iter().map(|(k, v)| (k.clone(), v)).collect()),
        Value::Array(items) => {
            let names = items.iter().enumerate().map(|(index, item)| {
                let name = item.get("name").and_then(Value::as_str);
                let name = name.map(|name| name.replace('/', "~"));
                name.unwrap_or_else(|| index.to_string())
            });
            Some(names.zip(items).collect())
        }
        _ => None,
    }
}
