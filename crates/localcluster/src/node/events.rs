//! What users read in `kubectl describe pod`.

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};

use super::Machine;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Normal,
    Warning,
}

impl Machine {
    /// Tells of something that happened to a pod. It is no loss if that fails.
    pub(super) async fn event(&self, pod: &Pod, level: Level, reason: &str, message: &str) {
        let event = Event {
            type_: match level {
                Level::Normal => EventType::Normal,
                Level::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(message.chars().take(1024).collect()),
            action: reason.to_owned(),
            secondary: None,
        };
        let published = self.recorder.publish(&event, &pod.object_ref(&())).await;
        if let Err(error) = published {
            tracing::debug!(pod = %pod.name_any(), reason, %error, "event");
        }
    }
}
