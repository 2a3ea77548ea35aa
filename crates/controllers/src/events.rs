//! Events, as `kubectl describe` shows them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client, Resource};

/// The API server refuses longer messages.
const MAX_MESSAGE: usize = 1024;

/// What an event is about, and who tells it.
pub(crate) struct Reporter<'a> {
    client: &'a Client,
    component: &'static str,
    about: ObjectReference,
}

impl<'a> Reporter<'a> {
    /// Tells of the object of kind `K` with this metadata.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(
        client: &'a Client,
        component: &'static str,
        meta: &ObjectMeta,
    ) -> Reporter<'a> {
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: None,
        };
        Reporter {
            client,
            component,
            about,
        }
    }

    /// Tells of all that a plan found worth telling.
    pub(crate) async fn tell_all(&self, events: &[plan::Event], now: Timestamp) {
        for event in events {
            self.tell(event.is_warning, event.reason, &event.message, now)
                .await;
        }
    }

    /// Tells of something. An event that can't be written is no reason to stop.
    async fn tell(&self, is_warning: bool, reason: &str, message: &str, now: Timestamp) {
        let about = &self.about;
        let (Some(namespace), Some(name)) = (&about.namespace, &about.name) else {
            return;
        };
        let message = message
            .get(..message.floor_char_boundary(MAX_MESSAGE))
            .unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                // Names end at 253 characters, and the time makes them unique.
                name: Some(format!(
                    "{}.{:x}",
                    name.get(..name.floor_char_boundary(220))
                        .unwrap_or_default(),
                    Timestamp::now().as_nanosecond()
                )),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(if is_warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            involved_object: about.clone(),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: None,
            }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::warn!(%namespace, %name, reason, %error, "an event could not be written");
        }
    }
}
