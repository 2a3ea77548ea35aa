//! The API over HTTP: paths, queries and bodies.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::api::{Api, Target};
use crate::discovery;
use crate::object::Part;
use crate::status::Status;

mod asked;
mod collection;
mod kubelet;
mod object;
mod pod;
mod protobuf;
mod watch;

use asked::Asked;

/// The longest body that is read: what etcd takes at most is 1.5 MiB.
const MAX_BODY: usize = 3 << 20;

/// The API as a service. What it asks of the machines that run pods (their logs,
/// commands in them) it asks of `kubelet`, under the paths of a real one:
///
/// - `GET /containerLogs/{namespace}/{pod}/{container}` with `follow`, `previous`,
///   `timestamps`, `tailLines`, `sinceSeconds`, `sinceTime`, `limitBytes`;
/// - `GET` and `POST /exec/{namespace}/{pod}/{container}` with `command` (for
///   each word) and `input`, `output`, `error`, `tty` (1 when it is wanted);
/// - `/attach/{namespace}/{pod}/{container}`, the same without a command.
///
/// Requests keep their headers and extensions, so that connections can be
/// upgraded. Errors may be plain texts. A router without routes stands for no
/// machine at all.
pub fn router(api: Api, kubelet: Router) -> Router {
    Router::new().fallback(serve).with_state((api, kubelet))
}

async fn serve(State((api, kubelet)): State<(Api, Router)>, request: Request) -> Response {
    answer(&api, kubelet, request)
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

async fn answer(api: &Api, kubelet: Router, request: Request) -> Result<Response, Status> {
    let path = steps(request.uri().path())?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let Some(found) = discovery::find(&api.kinds(), &path) {
        return match *request.method() {
            Method::GET | Method::HEAD => Ok(found),
            _ => Err(Status::method_not_allowed()),
        };
    }
    let (target, part) = target(api, &path).ok_or_else(Status::no_such_path)?;
    let is_pod = target.served.kind.resource() == "pods";
    if let ("log" | "exec" | "attach", true) = (part, is_pod) {
        return kubelet::answer(api, kubelet, &target, part, request).await;
    }
    let asked = Asked::read(request, MAX_BODY).await?;
    match part {
        "" if target.name.is_empty() => collection::answer(api, &target, &asked).await,
        "" => object::answer(api, &target, Part::Main, &asked).await,
        "status" if target.served.kind.has_status => {
            object::answer(api, &target, Part::Status, &asked).await
        }
        "finalize" if target.served.kind.resource() == "namespaces" => match asked.method {
            Method::PUT => object::answer(api, &target, Part::Finalizers, &asked).await,
            _ => Err(Status::method_not_allowed()),
        },
        "scale" if target.served.scale.is_some() => object::scaled(api, &target, &asked).await,
        part if is_pod => pod::answer(api, &target, part, &asked).await,
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
