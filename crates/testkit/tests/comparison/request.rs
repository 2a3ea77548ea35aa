//! A request that is sent to both APIs.
//!
//! Paths and bodies may hold `$name`: `$ns` is a namespace of the test's own, the
//! others were kept from earlier answers of the same API.

use serde_json::Value;

/// What is asked, and what is made of the answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it shows; unique.
    pub name: &'static str,
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub body: String,
    /// What later requests need of the answer: a name, and where it is.
    pub keeps: Vec<(&'static str, &'static str)>,
    /// Asked again until the answer has this code and this value there.
    pub until: Option<(u16, &'static str, Value)>,
    /// The answer goes on for ever: so many lines of it are read.
    pub lines: Option<usize>,
}

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
/// As kubectl asks.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
/// As controllers ask who need no more.
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn request(name: &'static str, method: &'static str, path: &str) -> Request {
    Request {
        name,
        method,
        path: path.to_owned(),
        content_type: JSON,
        accept: JSON,
        body: String::new(),
        keeps: Vec::new(),
        until: None,
        lines: None,
    }
}

pub fn get(name: &'static str, path: &str) -> Request {
    request(name, "GET", path)
}

pub fn post(name: &'static str, path: &str, body: Value) -> Request {
    request(name, "POST", path).body(JSON, &body.to_string())
}

pub fn put(name: &'static str, path: &str, body: Value) -> Request {
    request(name, "PUT", path).body(JSON, &body.to_string())
}

pub fn patch(name: &'static str, path: &str, content_type: &'static str, body: Value) -> Request {
    request(name, "PATCH", path).body(content_type, &body.to_string())
}

pub fn delete(name: &'static str, path: &str) -> Request {
    request(name, "DELETE", path)
}

impl Request {
    pub fn body(self, content_type: &'static str, body: &str) -> Request {
        Request {
            content_type,
            body: body.to_owned(),
            ..self
        }
    }

    pub fn json(self, body: Value) -> Request {
        self.body(JSON, &body.to_string())
    }

    pub fn accept(self, accept: &'static str) -> Request {
        Request { accept, ..self }
    }

    pub fn keep(mut self, name: &'static str, place: &'static str) -> Request {
        self.keeps.push((name, place));
        self
    }

    pub fn until(self, code: u16, place: &'static str, value: Value) -> Request {
        Request {
            until: Some((code, place, value)),
            ..self
        }
    }

    pub fn lines(self, count: usize) -> Request {
        Request {
            lines: Some(count),
            ..self
        }
    }
}

/// The path of a built-in kind, or an object of it.
pub fn core(rest: &str) -> String {
    format!("/api/v1/namespaces/$ns/{rest}")
}

/// The same, of jobs.
pub fn job(rest: &str) -> String {
    format!("/apis/batch.paddlepaddle.org/v1/namespaces/$ns/paddlejobs{rest}")
}
