//! One object: read, replace, patch, scale, delete.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::asked::Asked;
use super::ok;
use crate::api::{Api, Patch, Target};
use crate::fault::{At, Faults};
use crate::object::{Deletion, Part, meta};
use crate::scale;
use crate::served::Served;
use crate::status::Status;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

pub(super) async fn answer(
    api: &Api,
    target: &Target,
    part: Part,
    asked: &Asked,
) -> Result<Response, Status> {
    let found = match asked.method {
        Method::GET => api.get(target)?,
        Method::PUT => {
            api.replace(target, part, asked.body()?, asked.writing()?)
                .await?
        }
        Method::PATCH => {
            let patch = patch(&target.served, asked)?;
            let is_new = matches!(patch, Patch::Apply(_)) && api.get(target).is_err();
            let found = api.patch(target, part, patch, asked.writing()?).await?;
            if is_new {
                return Ok((StatusCode::CREATED, shown(target, &found, asked)).into_response());
            }
            found
        }
        Method::DELETE if part == Part::Main => return delete(api, target, asked).await,
        _ => return Err(Status::method_not_allowed()),
    };
    Ok(shown(target, &found, asked))
}

/// An object in the form that the client likes.
fn shown(target: &Target, found: &Value, asked: &Asked) -> Response {
    let version = meta(found, "resourceVersion");
    ok(&asked.shape().of(&target.served, found, version))
}

fn patch(served: &Served, asked: &Asked) -> Result<Patch, Status> {
    const JSON: &str = "application/json-patch+json";
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    let given = asked.content_type();
    if given == APPLY {
        if asked.query.get("fieldManager").is_none_or(String::is_empty) {
            return Err(Status::no_field_manager());
        }
        return Ok(Patch::Apply(asked.yaml()?));
    }
    match given {
        JSON => Ok(Patch::Json(asked.json()?)),
        MERGE => Ok(Patch::Merge(asked.json()?)),
        // Nobody knows by what the lists of other kinds are merged.
        STRATEGIC if served.schema.is_none() => Ok(Patch::Strategic(asked.json()?)),
        _ if served.schema.is_none() => {
            Err(Status::unsupported_media(&[JSON, MERGE, STRATEGIC, APPLY]))
        }
        _ => Err(Status::unsupported_media(&[JSON, MERGE, APPLY])),
    }
}

pub(super) fn deletion(asked: &Asked) -> Result<Deletion, Status> {
    let options = match asked.body.is_empty() {
        true => Value::Null,
        false => asked.body()?,
    };
    deletion_of(&options, asked)
}

pub(super) fn deletion_of(options: &Value, asked: &Asked) -> Result<Deletion, Status> {
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
    if let Some(kind) = options.get("kind").filter(|kind| *kind != "DeleteOptions") {
        return Err(Status::bad_request(format!("{kind} is no DeleteOptions")));
    }
    if options
        .get("orphanDependents")
        .is_some_and(Value::is_boolean)
        && policy.is_some()
    {
        let mut faults = Faults::default();
        let (found, why) = (
            json!(policy),
            "orphanDependents and deletionPropagation cannot be both set",
        );
        faults.invalid(&At::root(&found).named("propagationPolicy"), why);
        faults.of_options("DeleteOptions")?;
    }
    if let Some(policy) = &policy
        && !["Foreground", "Background", "Orphan"].contains(&policy.as_str())
    {
        let mut faults = Faults::default();
        let (found, supported) = (json!(policy), ["Foreground", "Background", "Orphan", "nil"]);
        faults.unsupported(&At::root(&found).named("propagationPolicy"), &supported);
        faults.of_options("DeleteOptions")?;
    }
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
    let writing = asked.writing()?;
    let gone = api.delete(target, deletion(asked)?, writing).await?;
    let is_there = match writing.is_dry {
        true => !meta(&gone, "deletionTimestamp").is_empty(),
        false => { api.get(target) }.is_ok_and(|now| meta(&now, "uid") == meta(&gone, "uid")),
    };
    // As the real one: a pod is shown, of others only that they are gone.
    if is_there || kind.kind == "Pod" {
        return Ok(ok(&gone));
    }
    let mut details = json!({
        "name": target.name, "kind": kind.plural, "uid": meta(&gone, "uid"),
    });
    if !kind.group.is_empty() {
        crate::patch::merge(&mut details, &json!({"group": kind.group}));
    }
    Ok(ok(&json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })))
}

pub(super) async fn scaled(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    let Some(paths) = &target.served.scale else {
        return Err(Status::no_such_path());
    };
    let found = api.get(target)?;
    let change = match asked.method {
        Method::GET => return Ok(ok(&scale::of(paths, &found))),
        Method::PUT => asked.body()?,
        Method::PATCH => {
            let mut scale = scale::of(paths, &found);
            // Only the version that the patch asks for: others write meanwhile.
            crate::patch::merge(&mut scale, &json!({"metadata": {"resourceVersion": null}}));
            match patch(&target.served, asked)? {
                Patch::Json(steps) => crate::patch::json(&mut scale, steps)
                    .map_err(|error| Status::bad_request(error.to_string()))?,
                Patch::Merge(change) | Patch::Strategic(change) | Patch::Apply(change) => {
                    crate::patch::merge(&mut scale, &change);
                }
            }
            scale
        }
        _ => return Err(Status::method_not_allowed()),
    };
    let change = Patch::Merge(scale::change(paths, &change)?);
    let found = api
        .patch(target, Part::Main, change, asked.writing()?)
        .await?;
    Ok(ok(&scale::of(paths, &found)))
}
