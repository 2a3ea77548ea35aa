//! The subresources of pods.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::asked::Asked;
use super::object::deletion_of;
use crate::api::{Api, Target};
use crate::status::Status;

/// What a part of a pod answers.
pub(super) async fn answer(
    api: &Api,
    target: &Target,
    part: &str,
    asked: &Asked,
) -> Result<Response, Status> {
    match part {
        "binding" | "eviction" if asked.method != Method::POST => Err(Status::method_not_allowed()),
        "binding" => {
            api.bind(target, asked.body()?, asked.writing()?).await?;
            Ok(done())
        }
        "eviction" => {
            let eviction = asked.body()?;
            let options = eviction.get("deleteOptions").unwrap_or(&Value::Null);
            let deletion = deletion_of(options, asked)?;
            api.evict(target, &eviction, deletion, asked.writing()?)
                .await?;
            Ok(done())
        }
        _ => Err(Status::no_such_path()),
    }
}

fn done() -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    (StatusCode::CREATED, axum::Json(status)).into_response()
}
