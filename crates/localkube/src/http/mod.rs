//! The API over HTTP: paths, queries and bodies.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::api::{Api, Patch, Selection, Target, Unknown, Writing};
use crate::discovery;
use crate::object::{Deletion, Part, meta, metadata_only};
use crate::scale;
use crate::served::Served;
use crate::status::Status;
use crate::store::Key;
use crate::table;

/// The longest body that is read: what etcd takes at most is 1.5 MiB.
const MAX_BODY: usize = 3 << 20;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

mod pod;
mod watch;

type Query = HashMap<String, String>;

/// The API as a service.
pub fn router(api: Api) -> Router {
    Router::new().fallback(serve).with_state(api)
}

async fn serve(State(api): State<Api>, request: Request) -> Response {
    answer(&api, request)
        .await
        .unwrap_or_else(|status| refusal(&status))
}

/// A failed request as it is answered.
pub fn refusal(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status.to_json())).into_response()
}

fn ok(value: &Value) -> Response {
    axum::Json(value).into_response()
}

/// A request, taken apart.
struct Asked {
    method: Method,
    query: Query,
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    fn is_set(&self, name: &str) -> bool {
        self.query
            .get(name)
            .is_some_and(|value| matches!(&**value, "true" | "1"))
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Status> {
        let Some(text) = self.query.get(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.parse();
        number
            .map(Some)
            .map_err(|_| Status::bad_request(format!("{name}: {text:?} is no number")))
    }

    fn body(&self) -> Result<Value, Status> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Status::bad_request(format!("the body is no JSON: {error}")))
    }

    fn writing(&self) -> Writing {
        Writing {
            is_dry: self.query.get("dryRun").is_some_and(|dry| dry == "All"),
            unknown: match self.query.get("fieldValidation").map(String::as_str) {
                Some("Strict") => Unknown::Refused,
                _ => Unknown::Dropped,
            },
        }
    }

    fn selection(&self) -> Result<Selection, Status> {
        let text = |name: &str| self.query.get(name).map_or("", String::as_str);
        let malformed = |error: crate::selector::Malformed| Status::bad_request(error.to_string());
        Ok(Selection {
            labels: text("labelSelector").parse().map_err(malformed)?,
            fields: text("fieldSelector").parse().map_err(malformed)?,
        })
    }

    /// What the client would rather have than the objects themselves.
    fn shape(&self) -> Shape {
        let accept = self
            .headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        let accept = accept.unwrap_or_default();
        // Clients name what they like best first.
        match accept.split(',').next().unwrap_or_default() {
            first if first.contains("as=Table") => Shape::Table,
            first if first.contains("as=PartialObjectMetadata") => Shape::Metadata,
            _ => Shape::Whole,
        }
    }
}

/// In which form objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    Metadata,
    Table,
}

impl Shape {
    fn of(self, served: &Served, object: &Value, revision: &str) -> Value {
        match self {
            Shape::Whole => object.clone(),
            Shape::Metadata => metadata_only(object),
            Shape::Table => table::of(served, &[object], revision, None),
        }
    }
}

async fn answer(api: &Api, request: Request) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let path = steps(parts.uri.path())?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let body = axum::body::to_bytes(body, MAX_BODY);
    let asked = Asked {
        query: serde_urlencoded::from_str(parts.uri.query().unwrap_or_default())
            .map_err(|error| Status::bad_request(error.to_string()))?,
        method: parts.method,
        headers: parts.headers,
        body: body
            .await
            .map_err(|error| Status::bad_request(error.to_string()))?,
    };
    if let Some(found) = discovery::find(&api.kinds(), &path) {
        return match asked.method {
            Method::GET | Method::HEAD => Ok(found),
            _ => Err(Status::method_not_allowed()),
        };
    }
    let (target, subresource) = target(api, &path).ok_or_else(Status::no_such_path)?;
    match subresource {
        "" if target.name.is_empty() => collection(api, &target, &asked).await,
        "" => object(api, &target, Part::Main, &asked).await,
        "status" if target.served.kind.has_status => {
            object(api, &target, Part::Status, &asked).await
        }
        "scale" if target.served.scale.is_some() => scaled(api, &target, &asked).await,
        part if target.served.kind.resource() == "pods" => {
            pod::answer(api, &target, part, &asked).await
        }
        _ => Err(Status::no_such_path()),
    }
}

/// The steps of a path. Names that could lead elsewhere are refused.
fn steps(path: &str) -> Result<Vec<String>, Status> {
    let steps = path.split('/').filter(|step| !step.is_empty());
    let steps = steps.map(|step| {
        let step = percent_encoding::percent_decode_str(step).decode_utf8();
        let step = step.map_err(|_| Status::bad_request("the path is no UTF-8"))?;
        if step == "." || step == ".." || step.contains(['/', '\\', '%']) || step.contains('\0') {
            return Err(Status::bad_request(format!(
                "{step:?} is no part of a path"
            )));
        }
        Ok(step.into_owned())
    });
    steps.collect()
}

/// What a path names, and what part of it.
fn target<'p>(api: &Api, path: &[&'p str]) -> Option<(Target, &'p str)> {
    let (group, version, rest) = match path {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        // The namespace itself, or a part of it.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => {
            ("", rest)
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return None,
    };
    let served = api.kind(group, version, plural)?;
    let kind = &served.kind;
    // An object of a namespace has one in its path; the others have none.
    let fits = match (kind.is_namespaced, namespace.is_empty()) {
        (true, true) => name.is_empty(),
        (false, false) => false,
        _ => true,
    };
    let target = Target {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        served,
    };
    fits.then_some((target, subresource))
}

async fn collection(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
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
        Shape::Table => {
            let found: Vec<&Value> = found.iter().map(|object| &**object).collect();
            table::of(&target.served, &found, &revision.to_string(), next)
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
        resource: target.served.kind.resource(),
        namespace,
        name,
    })
}

async fn object(api: &Api, target: &Target, part: Part, asked: &Asked) -> Result<Response, Status> {
    let found = match asked.method {
        Method::GET => api.get(target)?,
        Method::PUT => {
            api.replace(target, part, asked.body()?, asked.writing())
                .await?
        }
        Method::PATCH => {
            let patch = patch(&target.served, asked)?;
            api.patch(target, part, patch, asked.writing()).await?
        }
        Method::DELETE if part == Part::Main => return delete(api, target, asked).await,
        _ => return Err(Status::method_not_allowed()),
    };
    let shape = asked.shape();
    Ok(ok(&shape.of(
        &target.served,
        &found,
        meta(&found, "resourceVersion"),
    )))
}

fn patch(served: &Served, asked: &Asked) -> Result<Patch, Status> {
    const JSON: &str = "application/json-patch+json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    let given = asked
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let given = given
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    match given {
        JSON => Ok(Patch::Json(asked.body()?)),
        MERGE => Ok(Patch::Merge(asked.body()?)),
        // Nobody knows by what the lists of other kinds are merged.
        STRATEGIC if served.schema.is_none() => Ok(Patch::Strategic(asked.body()?)),
        _ if served.schema.is_none() => Err(Status::unsupported_patch(&[JSON, MERGE, STRATEGIC])),
        _ => Err(Status::unsupported_patch(&[JSON, MERGE])),
    }
}

fn deletion(asked: &Asked) -> Result<Deletion, Status> {
    let options = match asked.body.is_empty() {
        true => Value::Null,
        false => asked.body()?,
    };
    deletion_of(&options, asked)
}

fn deletion_of(options: &Value, asked: &Asked) -> Result<Deletion, Status> {
    let text = |path: &str| {
        options
            .pointer(path)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let grace = options
        .pointer("/gracePeriodSeconds")
        .and_then(Value::as_i64);
    let policy =
        text("/propagationPolicy").or_else(|| asked.query.get("propagationPolicy").cloned());
    Ok(Deletion {
        grace: grace.or(asked.number("gracePeriodSeconds")?),
        uid: text("/preconditions/uid"),
        version: text("/preconditions/resourceVersion"),
        finalizer: match policy.as_deref() {
            Some("Foreground") => Some(FOREGROUND.to_owned()),
            Some("Orphan") => Some(ORPHAN.to_owned()),
            _ => None,
        },
    })
}

async fn delete(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    let kind = &target.served.kind;
    let gone = api
        .delete(target, deletion(asked)?, asked.writing())
        .await?;
    let is_there = api
        .get(target)
        .is_ok_and(|now| meta(&now, "uid") == meta(&gone, "uid"));
    // As the real one: a pod is shown, of others only that they are gone.
    if is_there || kind.kind == "Pod" {
        return Ok(ok(&gone));
    }
    Ok(ok(&json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": target.name,
            "group": kind.group,
            "kind": kind.plural,
            "uid": meta(&gone, "uid"),
        },
    })))
}

async fn scaled(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    let Some(paths) = &target.served.scale else {
        return Err(Status::no_such_path());
    };
    let found = api.get(target)?;
    let change = match asked.method {
        Method::GET => return Ok(ok(&scale::of(paths, &found))),
        Method::PUT => asked.body()?,
        Method::PATCH => {
            let mut scale = scale::of(paths, &found);
            match patch(&target.served, asked)? {
                Patch::Json(steps) => crate::patch::json(&mut scale, steps)
                    .map_err(|error| Status::bad_request(error.to_string()))?,
                Patch::Merge(change) | Patch::Strategic(change) => {
                    crate::patch::merge(&mut scale, &change);
                }
            }
            scale
        }
        _ => return Err(Status::method_not_allowed()),
    };
    let change = Patch::Merge(scale::change(paths, &change)?);
    let found = api
        .patch(target, Part::Main, change, asked.writing())
        .await?;
    Ok(ok(&scale::of(paths, &found)))
}
