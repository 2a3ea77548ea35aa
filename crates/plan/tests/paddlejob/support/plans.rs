//! What a test asks of a plan.

use api::{Condition, Phase};
use plan::paddlejob::Plan;
use serde_json::Value;

/// Questions that many tests ask of a plan.
pub trait PlanExt {
    /// Names of the pods to be created, in order.
    fn created(&self) -> Vec<String>;
    /// Names of the pods to be deleted, in order.
    fn deleted(&self) -> Vec<&str>;
    /// Names of the pods to be stopped.
    fn stopped(&self) -> Vec<&str>;
    /// Names of the pods to be woken.
    fn woken(&self) -> Vec<&str>;
    /// The phase in the status.
    fn phase(&self) -> Phase;
    /// A condition, as `True AllReady: every container is, or was, ready`.
    fn condition(&self, type_: &str) -> String;
    /// The pod to be created with this name.
    fn pod(&self, name: &str) -> &Value;
    /// Reasons of the events.
    fn told(&self) -> Vec<&str>;
}

impl PlanExt for Plan {
    fn created(&self) -> Vec<String> {
        self.pods_created.iter().map(name_of).collect()
    }

    fn deleted(&self) -> Vec<&str> {
        self.pods_deleted.iter().map(|d| d.name.as_str()).collect()
    }

    fn stopped(&self) -> Vec<&str> {
        self.pods_stopped.iter().map(|d| d.name.as_str()).collect()
    }

    fn woken(&self) -> Vec<&str> {
        self.pods_woken.iter().map(|w| w.name.as_str()).collect()
    }

    fn phase(&self) -> Phase {
        self.status.phase.unwrap()
    }

    fn condition(&self, type_: &str) -> String {
        let of = |c: &Condition| format!("{:?} {}: {}", c.status, c.reason, c.message);
        let found = self.status.conditions.iter().find(|c| c.type_ == type_);
        found.map_or_else(|| "none".to_owned(), of)
    }

    fn pod(&self, name: &str) -> &Value {
        let mut pods = self.pods_created.iter();
        pods.find(|pod| name_of(pod) == name).unwrap()
    }

    fn told(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason).collect()
    }
}

/// The name of an object.
pub fn name_of(object: &Value) -> String {
    object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned()
}
