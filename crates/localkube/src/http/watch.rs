//! Watches over HTTP: a line for each event, as long as somebody listens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value, json};

use super::asked::{Asked, Shape};
use crate::api::{Api, Page, Selection, Target};
use crate::object::meta;
use crate::served::Served;
use crate::status::Status;
use crate::store::{EventKind, Watch};

/// How long a watch lasts that does not say how long it shall.
const WATCH_FOR: Duration = Duration::from_secs(1800);
/// How long a watch lasts at most, whatever it says.
const WATCH_AT_MOST: Duration = Duration::from_secs(86_400);
/// How often a watch that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);

pub(super) fn watch(api: &Api, target: &Target, asked: &Asked) -> Result<Response, Status> {
    let selection = asked.selection(&target.served.kind)?;
    let shape = asked.shape();
    let served = Arc::clone(&target.served);
    let since: u64 = asked.number("resourceVersion")?.unwrap_or(0);
    // A watch may begin with all that there is, and say where that ends.
    let is_list = asked.is_set("sendInitialEvents");
    let tells_all = match asked.query.get("sendInitialEvents") {
        Some(_) => is_list,
        None => since == 0,
    };
    let mut first = Vec::new();
    let watch = if tells_all || since == 0 {
        let Page {
            objects: found,
            revision,
            ..
        } = api.list(target, &selection, None, usize::MAX);
        if tells_all {
            let found = found
                .iter()
                .map(|object| line(shape, &served, EventKind::Added, object));
            first.extend(found);
        }
        if is_list && asked.is_set("allowWatchBookmarks") {
            first.push(bookmark(shape, &served, revision, true));
        }
        api.watch(target, revision)?
    } else {
        api.watch(target, since)?
    };
    let lasts = asked
        .number("timeoutSeconds")?
        .map_or(WATCH_FOR, Duration::from_secs)
        .min(WATCH_AT_MOST);
    let follow = Follow {
        watch,
        selection,
        shape,
        served,
        bookmarks: asked.is_set("allowWatchBookmarks"),
        ends: tokio::time::Instant::now() + lasts,
    };
    let lines = stream::unfold((first, Some(follow)), |(first, follow)| async move {
        if !first.is_empty() {
            return Some((
                Ok::<_, std::convert::Infallible>(first.concat()),
                (Vec::new(), follow),
            ));
        }
        let mut follow = follow?;
        match follow.next().await? {
            Ok(lines) => Some((Ok(lines), (Vec::new(), Some(follow)))),
            Err(last) => Some((Ok(last), (Vec::new(), None))),
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// A watch as somebody follows it.
struct Follow {
    watch: Watch,
    selection: Selection,
    shape: Shape,
    served: Arc<Served>,
    bookmarks: bool,
    ends: tokio::time::Instant,
}

impl Follow {
    /// The next lines; `Err` has the last ones, `None` is the end of its time.
    async fn next(&mut self) -> Option<Result<String, String>> {
        loop {
            let rest = tokio::time::sleep(BOOKMARK_EVERY);
            tokio::select! {
                events = self.watch.next() => match events {
                    Ok(events) => {
                        let shown = events.iter().map(|event| self.served.show_event(event));
                        let seen = shown.filter_map(|event| self.selection.of_event(&event));
                        let lines: String = seen
                            .map(|(kind, object)| line(self.shape, &self.served, kind, &object))
                            .collect();
                        if !lines.is_empty() {
                            return Some(Ok(lines));
                        }
                    }
                    Err(error) => {
                        let status = Status::from(error).to_json();
                        return Some(Err(event("ERROR", &status)));
                    }
                },
                () = tokio::time::sleep_until(self.ends) => return None,
                () = rest, if self.bookmarks => {
                    let revision = self.watch.revision();
                    return Some(Ok(bookmark(self.shape, &self.served, revision, false)));
                }
            }
        }
    }
}

/// Tells up to where everything was told, and whether that was the beginning.
fn bookmark(shape: Shape, served: &Served, revision: u64, is_beginning: bool) -> String {
    let revision = revision.to_string();
    let mut object = json!({
        "kind": served.kind.kind,
        "apiVersion": served.kind.api_version(),
        "metadata": {"resourceVersion": revision},
    });
    if is_beginning {
        let end = json!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}});
        json_patch::merge(&mut object, &end);
    }
    let object = match shape {
        Shape::Whole => object,
        shape => shape.of(served, &object, &revision),
    };
    event("BOOKMARK", &object)
}

fn line(shape: Shape, served: &Served, kind: EventKind, object: &Value) -> String {
    let type_ = match kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    };
    let object = shape.of(served, object, meta(object, "resourceVersion"));
    event(type_, &object)
}

/// The type comes first, as with the real server: a client knows then what it reads,
/// and need not keep the object until it does.
fn event(type_: &str, object: &Value) -> String {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n")
}
