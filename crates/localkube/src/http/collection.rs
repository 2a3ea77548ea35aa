//! All objects of a kind: list, watch, create, delete.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::asked::{Asked, Shape};
use super::object::deletion;
use super::{ok, watch};
use crate::api::{Api, Target};
use crate::object::{meta, metadata_only};
use crate::served::Served;
use crate::status::Status;
use crate::store::Key;
use crate::table;

pub(super) async fn answer(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    match asked.method {
        Method::GET if asked.is_set("watch") => watch::watch(api, target, asked),
        Method::GET => list(api, target, asked),
        Method::POST => {
            let made = api.create(target, asked.body()?, asked.writing()).await?;
            let made = asked
                .shape()
                .of(&target.served, &made, meta(&made, "resourceVersion"));
            Ok((StatusCode::CREATED, axum::Json(made)).into_response())
        }
        // Not all at once by mistake.
        Method::DELETE if target.served.kind.resource() == "namespaces" => {
            Err(Status::method_not_allowed())
        }
        Method::DELETE => {
            let (found, _, _) = api.list(target, &asked.selection()?, None, usize::MAX);
            let deletion = deletion(asked)?;
            for object in &found {
                let target = Target {
                    namespace: meta(object, "namespace").to_owned(),
                    name: meta(object, "name").to_owned(),
                    ..target.clone()
                };
                match api.delete(&target, deletion.clone(), asked.writing()).await {
                    Err(status) if status.code != 404 => return Err(status),
                    _ => {}
                }
            }
            Ok(ok(&list_of(&target.served, &found, api.revision(), None)))
        }
        _ => Err(Status::method_not_allowed()),
    }
}

fn list_of(served: &Served, found: &[Arc<Value>], revision: u64, next: Option<String>) -> Value {
    json!({
        "kind": format!("{}List", served.kind.kind),
        "apiVersion": served.kind.api_version(),
        "metadata": {"resourceVersion": revision.to_string(), "continue": next.unwrap_or_default()},
        "items": found.iter().map(|object| &**object).collect::<Vec<_>>(),
    })
}

fn list(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    let limit = asked
        .number("limit")?
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let after = asked
        .query
        .get("continue")
        .filter(|token| !token.is_empty());
    let after = after.map(|token| key_of(token, target)).transpose()?;
    let (found, last, revision) = api.list(target, &asked.selection()?, after.as_ref(), limit);
    let next = last.map(|key| token_of(&key));
    Ok(ok(&match asked.shape() {
        Shape::Whole => list_of(&target.served, &found, revision, next),
        Shape::Metadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                "resourceVersion": revision.to_string(),
                "continue": next.unwrap_or_default(),
            },
            "items": found.iter().map(|object| metadata_only(object)).collect::<Vec<_>>(),
        }),
        Shape::Table(include) => {
            let found: Vec<&Value> = found.iter().map(|object| &**object).collect();
            table::of(&target.served, &found, include, &revision.to_string(), next)
        }
    }))
}

/// A list goes on behind this object.
fn token_of(key: &Key) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!([key.namespace, key.name]).to_string())
}

fn key_of(token: &str, target: &Target) -> Result<Key, Status> {
    let malformed = || Status::bad_request("continue key is not valid");
    let token = BASE64_URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| malformed())?;
    let (namespace, name) = serde_json::from_slice(&token).map_err(|_| malformed())?;
    Ok(Key {
        resource: target.served.kind.kept_as(),
        namespace,
        name,
    })
}
