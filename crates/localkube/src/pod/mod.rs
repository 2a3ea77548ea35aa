//! What can be done with a pod beside writing it: give it a node, and send it
//! away.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{Api, Target, Writing};
use crate::object::{self, Deletion, meta, meta_mut, seconds};
use crate::path::text;
use crate::status::Status;
use crate::store::Change;

impl Api {
    /// Gives a pod the node that a `Binding` names.
    ///
    /// # Errors
    /// 404 when there is no such pod, 409 when it has a node or is going.
    pub async fn bind(
        &self,
        target: &Target,
        binding: Value,
        writing: Writing,
    ) -> Result<(), Status> {
        is_named(target, &binding, "Binding")?;
        let kind = text(&binding, "target.kind");
        if !["", "Node"].contains(&kind) {
            return Err(Status::bad_request(format!(
                "target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\""
            )));
        }
        if text(&binding, "target.name").is_empty() {
            return Err(Status::bad_request("target.name: Required value"));
        }
        let missing = target.not_found();
        self.change(target, writing, move |served, pod| {
            let pod = pod.ok_or(missing)?;
            bound(pod, &binding, Timestamp::now())
                .map(Change::Put)
                .map_err(|why| {
                    Status::conflict_of("pods/binding", &served.kind, meta(pod, "name"), &why)
                })
        })
        .await
        .map(|_| ())
    }

    /// Deletes a pod, and says in its status that it was sent away.
    ///
    /// # Errors
    /// 404 when there is no such pod, 409 when it is another.
    pub async fn evict(
        &self,
        target: &Target,
        eviction: &Value,
        deletion: Deletion,
        writing: Writing,
    ) -> Result<(), Status> {
        is_named(target, eviction, "Eviction")?;
        let missing = target.not_found();
        self.change(target, writing, move |served, pod| {
            let (mut pod, now) = (pod.ok_or(missing)?.clone(), Timestamp::now());
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": seconds(now),
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            });
            set_condition(&mut pod, condition);
            match object::delete(&served.kind, &pod, &deletion, now)? {
                // It was going already; now it is known why.
                Change::Keep => Ok(Change::Put(pod)),
                change => Ok(change),
            }
        })
        .await
        .map(|_| ())
    }
}

/// A request about a pod names it in its body too.
fn is_named(target: &Target, body: &Value, kind: &str) -> Result<(), Status> {
    if meta(body, "name") == target.name {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "name in URL does not match name in {kind} object"
    )))
}

/// A pod with its node, or why it can't have it.
fn bound(pod: &Value, binding: &Value, now: Timestamp) -> Result<Value, String> {
    let (name, node) = (meta(pod, "name"), text(pod, "spec.nodeName"));
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (asked, own) = (meta(binding, field), meta(pod, field));
        if !asked.is_empty() && asked != own {
            return Err(format!(
                "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {own}"
            ));
        }
    }
    if !meta(pod, "deletionTimestamp").is_empty() {
        return Err(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node \"{node}\""));
    }
    let gates = pod.pointer("/spec/schedulingGates");
    if gates
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    let node = text(binding, "target.name");
    json_patch::merge(&mut pod, &json!({"spec": {"nodeName": node}}));
    for field in ["labels", "annotations"] {
        if let Some(given) = binding.get("metadata").and_then(|meta| meta.get(field)) {
            let own = meta_mut(&mut pod).entry(field).or_insert_with(|| json!({}));
            json_patch::merge(own, given);
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": seconds(now),
    });
    set_condition(&mut pod, condition);
    Ok(pod)
}

/// Sets a condition in the status of a pod; the time of one that was so before
/// stays.
fn set_condition(pod: &mut Value, mut condition: Value) {
    if !pod
        .pointer("/status/conditions")
        .is_some_and(Value::is_array)
    {
        json_patch::merge(pod, &json!({"status": {"conditions": []}}));
    }
    let Some(Value::Array(all)) = pod.pointer_mut("/status/conditions") else {
        return;
    };
    match all
        .iter_mut()
        .find(|old| old.get("type") == condition.get("type"))
    {
        Some(old) => {
            if old.get("status") == condition.get("status")
                && let (Some(since), Some(condition)) =
                    (old.get("lastTransitionTime"), condition.as_object_mut())
            {
                condition.insert("lastTransitionTime".to_owned(), since.clone());
            }
            *old = condition;
        }
        None => all.push(condition),
    }
}
