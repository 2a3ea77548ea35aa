//! Events, as `kubectl describe` shows them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};

/// The API refuses longer messages.
const MAX_MESSAGE: usize = 1024;
/// Names end at 253 characters, and the time that makes them unique needs some.
const MAX_NAME: usize = 220;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Normal,
    Warning,
}

/// Somebody who tells of what he does.
#[derive(Clone)]
pub(crate) struct Teller {
    client: Client,
    component: &'static str,
}

impl Teller {
    pub(crate) fn new(client: Client, component: &'static str) -> Teller {
        Teller { client, component }
    }

    /// Tells of something. An event that can't be written is no reason to stop.
    pub(crate) async fn tell(
        &self,
        about: ObjectReference,
        weight: Weight,
        reason: &str,
        message: &str,
    ) {
        let now = Timestamp::now();
        let name = about.name.as_deref().unwrap_or_default();
        let namespace = about.namespace.as_deref().unwrap_or("default").to_owned();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", cut(name, MAX_NAME), now.as_nanosecond())),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(format!("{weight:?}")),
            reason: Some(reason.to_owned()),
            message: Some(cut(message, MAX_MESSAGE).to_owned()),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(self.component.to_owned()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            involved_object: about,
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::warn!(%namespace, reason, %error, "an event could not be written");
        }
    }
}

fn cut(text: &str, length: usize) -> &str {
    text.get(..text.floor_char_boundary(length))
        .unwrap_or_default()
}
