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
use crate::fault::Faults;
use crate::object::{self, meta, metadata_only};
use crate::served::Served;
use crate::status::Status;
use crate::store::Key;
use crate::table;

pub(super) async fn answer(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    match asked.method {
        Method::GET if asked.is_set("watch") => watch::watch(api, target, asked),
        Method::GET => list(api, target, asked),
        // Of what belongs to a namespace one is made in one.
        Method::POST if target.served.kind.is_namespaced && target.namespace.is_empty() => {
            Err(Status::method_not_allowed())
        }
        Method::POST => {
            let made = api.create(target, asked.body()?, asked.writing()?).await?;
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
            let selection = asked.selection(&target.served.kind)?;
            let found = api.list(target, &selection, None, usize::MAX).objects;
            let deletion = deletion(asked)?;
            for object in &found {
                let target = Target {
                    namespace: meta(object, "namespace").to_owned(),
                    name: meta(object, "name").to_owned(),
                    ..target.clone()
                };
                match api
                    .delete(&target, deletion.clone(), asked.writing()?)
                    .await
                {
                    Err(status) if status.code != 404 => return Err(status),
                    _ => {}
                }
            }
            let metadata = json!({"resourceVersion": api.revision().to_string()});
            Ok(ok(&list_of(&target.served, &found, metadata)))
        }
        _ => Err(Status::method_not_allowed()),
    }
}

fn list_of(served: &Served, found: &[Arc<Value>], metadata: Value) -> Value {
    let items = found.iter().map(|object| match served.schema {
        Some(_) => Value::clone(object),
        // As the real one: what all have in common is told once.
        None => object::without_type(object),
    });
    json!({
        "kind": format!("{}List", served.kind.kind),
        "apiVersion": served.kind.api_version(),
        "metadata": metadata,
        "items": items.collect::<Vec<_>>(),
    })
}

fn list(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    check_version(asked)?;
    let limit = asked.number::<i64>("limit")?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let after = asked
        .query
        .get("continue")
        .filter(|token| !token.is_empty());
    let after = after.map(|token| key_of(token, target)).transpose()?;
    let selection = asked.selection(&target.served.kind)?;
    let page = api.list(target, &selection, after.as_ref(), limit);
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(last) = &page.last {
        let next = json!({"continue": token_of(last)});
        json_patch::merge(&mut metadata, &next);
        // With a selector the real one does not know.
        if !asked.selects() {
            json_patch::merge(&mut metadata, &json!({"remainingItemCount": page.rest}));
        }
    }
    let found = page.objects;
    Ok(ok(&match asked.shape() {
        Shape::Whole => list_of(&target.served, &found, metadata),
        Shape::Metadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": found.iter().map(|object| metadata_only(object)).collect::<Vec<_>>(),
        }),
        Shape::Table(include) => {
            let found: Vec<&Value> = found.iter().map(|object| &**object).collect();
            table::of(&target.served, &found, include, metadata)
        }
    }))
}

/// Whether the version that a list asks for is one. Which it is does not matter: the
/// newest is never too old.
fn check_version(asked: &Asked) -> Result<(), Status> {
    let given = |name: &str| self::given(asked, name);
    let version = given("resourceVersion");
    if given("resourceVersionMatch").is_some() && version.is_none() {
        let mut faults = Faults::default();
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        faults.forbidden("resourceVersionMatch", why);
        faults.of_options("ListOptions")?;
    }
    let Some(version) = version else {
        return Ok(());
    };
    if given("continue").is_some() && version != "0" {
        let message = "specifying resource version is not allowed when using continue";
        return Err(Status::bad_request(message));
    }
    match version.parse::<u64>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {version:?}"
        ))),
    }
}

fn given<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    let found = asked.query.get(name).map(String::as_str);
    found.filter(|text| !text.is_empty())
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
