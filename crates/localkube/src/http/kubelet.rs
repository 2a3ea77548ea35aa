//! Logs of pods and commands in them: checked here, done by the machine that
//! runs the pod.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tower::ServiceExt;

use super::asked::number;
use crate::api::{Api, Target};
use crate::fault::Fault;
use crate::object::meta;
use crate::path::text;
use crate::status::Status;

/// The longest explanation of an error that is passed on.
const MAX_REASON: usize = 64 << 10;

type Query = Vec<(String, String)>;

/// Hands a request about a pod's processes on to the machine that runs them.
pub(super) async fn answer(
    api: &Api,
    kubelet: Router,
    target: &Target,
    part: &str,
    mut request: Request,
) -> Result<Response, Status> {
    match (part, request.method()) {
        (_, &Method::GET) => {}
        ("exec" | "attach", &Method::POST) => {}
        _ => return Err(Status::method_not_allowed()),
    }
    let query: Query = serde_urlencoded::from_str(request.uri().query().unwrap_or_default())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let pod = api.get(target)?;
    let options = match part {
        "log" => log_options(&target.name, &query)?,
        _ => streams(&query),
    };
    let container = container(&pod, find(&query, "container"))?;
    if text(&pod, "spec.nodeName").is_empty() {
        return match part {
            // Nothing was written so far.
            "log" => Ok(().into_response()),
            _ => Err(Status::bad_request(format!(
                "pod {} does not have a host assigned",
                target.name
            ))),
        };
    }
    if !kubelet.has_routes() {
        return Err(Status::unavailable(
            "no machine runs pods here, so there are no logs and no commands",
        ));
    }
    let part = if part == "log" { "containerLogs" } else { part };
    let (namespace, name) = (&target.namespace, &target.name);
    let options = serde_urlencoded::to_string(options)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    *request.uri_mut() = format!("/{part}/{namespace}/{name}/{container}?{options}")
        .parse::<Uri>()
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let answer = match kubelet.oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    explained(answer).await
}

fn find<'q>(query: &'q Query, name: &str) -> Option<&'q str> {
    let found = query.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| &**value)
}

fn is_set(query: &Query, name: &str) -> bool {
    find(query, name).is_some_and(|value| matches!(value, "" | "true" | "1"))
}

/// The container that is meant: the one that is named, or the only one.
fn container(pod: &Value, asked: Option<&str>) -> Result<String, Status> {
    let names = |list: &str| -> Vec<&str> {
        let listed = pod.get("spec").and_then(|spec| spec.get(list)?.as_array());
        let listed = listed.into_iter().flatten();
        listed.map(|container| text(container, "name")).collect()
    };
    let name = meta(pod, "name");
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let (main, all) = (names("containers"), lists.map(names).concat());
    let needed = format!("a container name must be specified for pod {name}");
    match (asked.unwrap_or_default(), main.as_slice()) {
        ("", [only]) => Ok((*only).to_owned()),
        ("", []) => Err(Status::bad_request(needed)),
        ("", _) => Err(Status::bad_request(format!(
            "{needed}, choose one of: [{}]",
            all.join(" ")
        ))),
        (asked, _) if all.contains(&asked) => Ok(asked.to_owned()),
        (asked, _) => Err(Status::bad_request(format!(
            "container {asked} is not valid for pod {name}"
        ))),
    }
}

/// What a kubelet is asked for when its logs are.
fn log_options(pod: &str, query: &Query) -> Result<Query, Status> {
    let mut options = Query::new();
    let mut faults = Vec::new();
    for name in ["follow", "previous", "timestamps"] {
        if is_set(query, name) {
            options.push((name.to_owned(), "true".to_owned()));
        }
    }
    for (name, least, rule) in [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
        ("limitBytes", 1, "must be greater than 0"),
    ] {
        let Some(number) = number::<i64>(name, find(query, name))? else {
            continue;
        };
        if number < least {
            faults.push(Fault {
                field: name.to_owned(),
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {number}: {rule}"),
            });
        }
        options.push((name.to_owned(), number.to_string()));
    }
    if let Some(time) = find(query, "sinceTime").filter(|time| !time.is_empty()) {
        if time.parse::<jiff::Timestamp>().is_err() {
            return Err(Status::bad_request(format!(
                "parsing time \"{time}\" as \"2006-01-02T15:04:05Z07:00\""
            )));
        }
        if find(query, "sinceSeconds").is_some() {
            let message =
                "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
            faults.push(Fault {
                field: "[]".to_owned(),
                reason: "FieldValueForbidden",
                message: message.to_owned(),
            });
        }
        options.push(("sinceTime".to_owned(), time.to_owned()));
    }
    match faults.as_slice() {
        [] => Ok(options),
        faults => Err(Status::invalid_options("PodLogOptions", pod, faults)),
    }
}

/// What a kubelet is asked for when a command is to be run, or joined.
fn streams(query: &Query) -> Query {
    let streams = [
        ("stdin", "input"),
        ("stdout", "output"),
        ("stderr", "error"),
        ("tty", "tty"),
    ];
    let streams = streams.iter().filter(|(asked, _)| is_set(query, asked));
    let streams = streams.map(|(_, name)| ((*name).to_owned(), "1".to_owned()));
    let command = query.iter().filter(|(name, _)| name == "command");
    streams.chain(command.cloned()).collect()
}

/// An answer; when it is an error that is told in a text only, as a `Status`.
async fn explained(answer: Response) -> Result<Response, Status> {
    let code = answer.status();
    let is_json = answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|type_| type_.as_bytes().starts_with(b"application/json"));
    if is_json || !(code.is_client_error() || code.is_server_error()) {
        return Ok(answer);
    }
    let text = axum::body::to_bytes(Body::new(answer.into_body()), MAX_REASON).await;
    let text = text.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(match code.as_u16() {
        400 => Status::bad_request(text),
        404 if text.is_empty() => Status::no_such_path(),
        code => Status::of_kubelet(code, text),
    })
}
