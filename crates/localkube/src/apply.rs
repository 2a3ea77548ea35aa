//! What clients apply.
//!
//! This is less than the server-side apply of Kubernetes: it is not kept who set
//! what. So nothing that somebody wanted once and no more is removed, and nobody
//! is told that he overrules another.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admit::{self, prepared, rewritten};
use crate::api::{Api, Target, Writing};
use crate::object::{self, Part, meta};
use crate::patch;
use crate::status::Status;
use crate::store::Change;

impl Api {
    /// Makes an object, or merges into it what is wanted.
    pub(crate) async fn apply(
        &self,
        target: &Target,
        part: Part,
        mut wanted: Value,
        writing: Writing,
    ) -> Result<Arc<Value>, Status> {
        is_applicable(target, &wanted)?;
        let is_named = !meta(&wanted, "name").is_empty();
        json_patch::merge(&mut wanted, &json!({"metadata": {"name": target.name}}));
        wanted = object::checked(&target.served.kind, &target.namespace, wanted)?;
        if self.get(target).is_err() {
            self.takes_objects(target, &target.name)?;
        }
        let missing = target.not_found();
        let unnamed = Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        ));
        self.change(target, writing, move |served, old| {
            let Some(old) = old else {
                if part != Part::Main {
                    return Err(missing);
                }
                // One that is there has its name from before.
                if !is_named {
                    return Err(unnamed);
                }
                json_patch::merge(&mut wanted, &json!({"metadata": {"resourceVersion": null}}));
                return admit::created(served, wanted, writing.unknown).map(Change::Put);
            };
            let mut new = old.clone();
            match served.schema {
                // Nobody knows by what the lists of other kinds are merged.
                Some(_) => patch::merge(&mut new, &wanted),
                None => patch::strategic(&mut new, &wanted)
                    .map_err(|error| Status::bad_request(error.to_string()))?,
            }
            let new = prepared(served, new, writing.unknown)?;
            rewritten(served, old, new, part)
        })
        .await
    }
}

/// What is applied says what it is, and whose state it is not.
fn is_applicable(target: &Target, wanted: &Value) -> Result<(), Status> {
    let text = |field: &str| {
        wanted
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if text("apiVersion").is_empty() || text("kind").is_empty() {
        let (version, kind) = (text("apiVersion"), text("kind"));
        return Err(Status::bad_request(format!(
            "invalid object type: /{version}, Kind={kind}"
        )));
    }
    if wanted.pointer("/metadata/managedFields").is_some() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let (name, asked) = (meta(wanted, "name"), &target.name);
    if !name.is_empty() && name != asked {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({asked})"
        )));
    }
    Ok(())
}
