//! A request, taken apart.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use serde_json::{Value, json};

use super::protobuf;
use crate::api::{Selection, Unknown, Writing};
use crate::fault::{At, Faults};
use crate::kind::Kind;
use crate::object::metadata_only;
use crate::selector::Fields;
use crate::served::Served;
use crate::status::Status;
use crate::table::{self, Include};
use crate::weight::MAX_DEPTH;

/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough for the depth that objects may have, also without optimisation.
const YAML_STACK: usize = 16 << 20;

/// A request, taken apart.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Asked {
    /// Reads a request to its end, which is not too far.
    pub(super) async fn read(request: Request, at_most: usize) -> Result<Asked, Status> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, at_most);
        let body = tokio::time::timeout(PATIENCE, body).await;
        let body = body.map_err(|_| Status::too_slow())?;
        Ok(Asked {
            query: serde_urlencoded::from_str(parts.uri.query().unwrap_or_default())
                .map_err(|error| Status::bad_request(error.to_string()))?,
            method: parts.method,
            headers: parts.headers,
            body: body.map_err(|_| Status::too_large(at_most))?,
        })
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.query
            .get(name)
            .is_some_and(|value| matches!(&**value, "true" | "1"))
    }

    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Status> {
        number(name, self.query.get(name).map(String::as_str))
    }

    /// What the body is, without its parameters.
    pub(super) fn content_type(&self) -> &str {
        let given = self.headers.get(header::CONTENT_TYPE);
        let given = given.and_then(|given| given.to_str().ok());
        let given = given.unwrap_or_default().split(';').next();
        given.unwrap_or_default().trim()
    }

    /// The object in the body.
    pub(super) fn body(&self) -> Result<Value, Status> {
        match self.content_type() {
            "" | "application/json" => self.json(),
            "application/yaml" => self.yaml(),
            protobuf::TYPE if let Some(object) = protobuf::read(&self.body) => Ok(object),
            _ => Err(Status::unsupported_media(&[
                "application/json",
                "application/yaml",
            ])),
        }
    }

    /// The body, whatever is said of it.
    pub(super) fn json(&self) -> Result<Value, Status> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Status::bad_request(format!("the body is no JSON: {error}")))
    }

    /// The body as YAML, of which JSON is a part.
    pub(super) fn yaml(&self) -> Result<Value, Status> {
        // What programs send is mostly JSON.
        self.json().or_else(|_| yaml(&self.body))
    }

    /// How to write. What is asked in vain is refused: who wants a dry run does not
    /// want a real one.
    pub(super) fn writing(&self) -> Result<Writing, Status> {
        let given = |name: &str| self.query.get(name).map_or("", String::as_str);
        let (dry, validation) = (given("dryRun"), given("fieldValidation"));
        let mut faults = Faults::default();
        if !matches!(dry, "" | "All") {
            let found = json!([dry]);
            faults.unsupported(&At::root(&found).named("dryRun"), &["All"]);
        }
        if !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
            let found = json!(validation);
            let supported = ["", "Ignore", "Strict", "Warn"];
            faults.unsupported(&At::root(&found).named("fieldValidation"), &supported);
        }
        let options = match self.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        };
        faults.of_options(options)?;
        Ok(Writing {
            is_dry: dry == "All",
            unknown: match validation {
                "Strict" => Unknown::Refused,
                _ => Unknown::Dropped,
            },
        })
    }

    pub(super) fn selection(&self, kind: &Kind) -> Result<Selection, Status> {
        let text = |name: &str| self.query.get(name).map_or("", String::as_str);
        let malformed = |error: crate::selector::Malformed| Status::bad_request(error.to_string());
        let fields: Fields = text("fieldSelector").parse().map_err(malformed)?;
        if let Some(other) = fields.paths().find(|path| !kind.is_selected_by(path)) {
            let message = format!("field label not supported: {other}");
            return Err(Status::bad_request(message));
        }
        Ok(Selection {
            labels: text("labelSelector").parse().map_err(malformed)?,
            fields,
        })
    }

    pub(super) fn selects(&self) -> bool {
        let is_given = |name: &str| self.query.get(name).is_some_and(|text| !text.is_empty());
        is_given("labelSelector") || is_given("fieldSelector")
    }

    /// How much of the objects a table has.
    fn include(&self) -> Include {
        match self.query.get("includeObject").map(String::as_str) {
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            _ => Include::Metadata,
        }
    }

    /// What the client would rather have than the objects themselves.
    pub(super) fn shape(&self) -> Shape {
        let accept = self
            .headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default();
        // Clients name what they like best first.
        match accept.split(',').next().unwrap_or_default() {
            first if first.contains("as=Table") => Shape::Table(self.include()),
            first if first.contains("as=PartialObjectMetadata") => Shape::Metadata,
            _ => Shape::Whole,
        }
    }
}

/// Reads YAML, on a stack of its own: the parser takes much of it for each level.
fn yaml(text: &[u8]) -> Result<Value, Status> {
    let read = || {
        let options = serde_saphyr::options! {
            legacy_octal_numbers: true,
            budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        };
        let read = serde_saphyr::from_slice_with_options(text, options);
        read.map_err(|error| Status::bad_request(format!("the body is no YAML: {error}")))
    };
    let read = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(YAML_STACK);
        let thread = thread.spawn_scoped(scope, read);
        thread.ok().and_then(|thread| thread.join().ok())
    });
    read.unwrap_or_else(|| Err(Status::internal("the YAML could not be read")))
}

/// The number that a parameter has, if it has something.
pub(super) fn number<N: std::str::FromStr>(
    name: &str,
    text: Option<&str>,
) -> Result<Option<N>, Status> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let number = text.parse();
    number
        .map(Some)
        .map_err(|_| Status::bad_request(format!("{name}: {text:?} is no number")))
}

/// In which form objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    Metadata,
    Table(Include),
}

impl Shape {
    pub(super) fn of(self, served: &Served, object: &Value, revision: &str) -> Value {
        match self {
            Shape::Whole => object.clone(),
            Shape::Metadata => metadata_only(object),
            Shape::Table(include) => table::of(
                served,
                &[object],
                include,
                json!({"resourceVersion": revision}),
            ),
        }
    }
}
