//! Events. They are kept once, in the form of the core, and shown in the form
//! that the client asks for; and they are forgotten in time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::{Api, Selection, Target, Writing};
use crate::kind::Kind;
use crate::object::{Deletion, meta};
use crate::path::text;

/// The fields that the two forms call differently: in the core, and in
/// `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];
/// How long an event is remembered after it happened last.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);
/// How often old ones are looked for, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Whether objects of a kind are events in the other form.
pub(crate) fn is_other_form(kind: &Kind) -> bool {
    kind.group == "events.k8s.io" && kind.kind == "Event"
}

/// An event of the core in the other form.
pub(crate) fn to_other(event: &Value) -> Value {
    renamed(event, |name| {
        let mut names = NAMES.iter();
        names
            .find(|(core, _)| *core == name)
            .map(|(_, other)| *other)
    })
}

/// An event in the other form as one of the core.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut event = renamed(event, |name| {
        let mut names = NAMES.iter();
        names
            .find(|(_, other)| *other == name)
            .map(|(core, _)| *core)
    });
    if let Some(event) = event.as_object_mut() {
        event.insert("apiVersion".to_owned(), "v1".into());
    }
    event
}

fn renamed(event: &Value, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let fields = event.as_object().into_iter().flatten();
    fields
        .map(|(old, value)| (name(old).unwrap_or(old).to_owned(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Forgets old events, now and then.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<Option<Instant>>);

impl Sweep {
    /// Whether it is time to look.
    fn is_due(&self) -> bool {
        let Ok(mut last) = self.0.lock() else {
            return false;
        };
        let is_due = last.is_none_or(|last| last.elapsed() >= SWEEP_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl Api {
    /// Forgets events that happened long ago. Called when there is a new one:
    /// they do not grow without that, and nothing runs while nothing happens.
    pub(crate) async fn forget_old_events(&self) {
        let events = self.kind("", "v1", "events");
        let Some(served) = events.filter(|_| self.sweep().is_due()) else {
            return;
        };
        let all = Target {
            served,
            namespace: String::new(),
            name: String::new(),
        };
        let now = Timestamp::now();
        let found = { self.list(&all, &Selection::default(), None, usize::MAX) }.objects;
        for event in found.iter().filter(|event| is_old(event, now)) {
            let target = Target {
                namespace: meta(event, "namespace").to_owned(),
                name: meta(event, "name").to_owned(),
                ..all.clone()
            };
            let deletion = Deletion {
                version: Some(meta(event, "resourceVersion").to_owned()),
                ..Deletion::default()
            };
            // One that was written meanwhile is not old.
            let _ = self.delete(&target, deletion, Writing::default()).await;
        }
    }
}

fn is_old(event: &Value, now: Timestamp) -> bool {
    let times = [
        "metadata.creationTimestamp",
        "lastTimestamp",
        "series.lastObservedTime",
    ];
    let times = times
        .iter()
        .filter_map(|path| text(event, path).parse().ok());
    times
        .max()
        .is_none_or(|last: Timestamp| now.duration_since(last) > REMEMBERED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "count": 2,
            "source": {"component": "c"}, "reason": "R",
        });
        let other = to_other(&core);
        assert_eq!(
            other,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"},
                "regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 2,
                "deprecatedSource": {"component": "c"}, "reason": "R",
            })
        );
        assert_eq!(to_core(&other), core);
    }

    #[test]
    fn an_event_is_old_an_hour_after_it_was_last_seen() {
        let event = |last: &str| {
            json!({
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
                "series": {"lastObservedTime": last},
            })
        };
        let at = |now: &str| now.parse::<Timestamp>().unwrap_or_default();
        let seen = event("2026-01-01T02:00:00.000000Z");
        assert!(!is_old(&seen, at("2026-01-01T02:59:00Z")));
        assert!(is_old(&seen, at("2026-01-01T03:00:01Z")));
        assert!(is_old(&event(""), at("2026-01-01T01:00:01Z")));
    }
}
