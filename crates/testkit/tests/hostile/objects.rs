//! How hostile objects are written down: what each is, and what the answer to it
//! must be.

use serde_json::{Value, json};

/// An object that nobody should have written.
#[derive(Clone, Debug)]
pub struct Hostile {
    /// What is wrong with it; its name if it has no other.
    pub what: &'static str,
    /// As it is sent: text, because some of it is nothing that a type can hold.
    pub body: String,
    /// A status that is written afterwards, by somebody who may.
    pub forged_status: Option<Value>,
    /// What it is answered.
    pub answer: Answer,
}

/// What an object is answered. Words are parts of the message.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The API server refuses it.
    Refused(&'static [&'static str]),
    /// It is stored, and a condition and an event say with this reason why
    /// nothing comes of it.
    Condition(&'static str, &'static [&'static str]),
    /// It waits for what may come, and a condition with this reason says for what.
    Waits(&'static str, &'static [&'static str]),
    /// It is stored in such a form that the API server takes no more changes of
    /// it, its status included: an event says with this reason why nothing comes
    /// of it.
    OnlyWarned(&'static str, &'static [&'static str]),
    /// It runs, and an event warns of what is odd about it.
    Warning(&'static str, &'static [&'static str]),
    /// It runs: what is odd about it is the user's right, or has been mended.
    Runs,
}

impl Hostile {
    /// The job called `what` with this spec.
    pub fn job(what: &'static str, spec: Value, answer: Answer) -> Hostile {
        Hostile::named(what, what, spec, answer)
    }

    /// A job with another name than what is wrong with it.
    pub fn named(what: &'static str, name: &str, spec: Value, answer: Answer) -> Hostile {
        let body = json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": name},
            "spec": spec,
        });
        Hostile::object(what, body.to_string(), answer)
    }

    /// Anything.
    pub fn object(what: &'static str, body: String, answer: Answer) -> Hostile {
        Hostile {
            what,
            body,
            forged_status: None,
            answer,
        }
    }

    /// With a status that somebody forges.
    pub fn with_status(mut self, status: Value) -> Hostile {
        self.forged_status = Some(status);
        self
    }
}

/// A template with nothing wrong in it.
pub fn template() -> Value {
    template_with(json!({}), json!({}))
}

/// A template with more in its metadata and in its only container.
pub fn template_with(metadata: Value, container: Value) -> Value {
    let mut paddle = json!({"name": "paddle", "image": "paddle:test"});
    merge(&mut paddle, container);
    json!({"metadata": metadata, "spec": {"containers": [paddle]}})
}

/// A spec with one worker of this template.
pub fn worker(template: Value) -> Value {
    json!({"worker": {"replicas": 1, "template": template}})
}

/// A spec with nothing wrong in it but these fields.
pub fn spec_with(fields: Value) -> Value {
    let mut spec = worker(template());
    merge(&mut spec, fields);
    spec
}

/// A spec with so many workers, whatever that means.
pub fn replicas(replicas: Value) -> Value {
    json!({"worker": {"replicas": replicas, "template": template()}})
}

/// JSON as deep as this.
pub fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

/// A good job whose template holds something this deep that nobody knows.
pub fn deep_job(name: &str, levels: usize) -> String {
    let body = json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": worker(template_with(json!({}), json!({"deep": "HERE"}))),
    });
    body.to_string().replace(r#""HERE""#, &nested(levels))
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}
