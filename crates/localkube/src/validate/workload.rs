//! StatefulSets.

use serde_json::Value;

use super::{metadata, pod, scheduling, storage};
use crate::fault::{At, Faults};

pub(super) fn stateful_set(spec: &At<'_, '_>, faults: &mut Faults) {
    let policy = spec.get("podManagementPolicy");
    if policy.is_set() && !["OrderedReady", "Parallel"].contains(&policy.text()) {
        faults.invalid(&policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = spec.get("updateStrategy");
    let type_ = strategy.get("type");
    if type_.is_set() && !["RollingUpdate", "OnDelete"].contains(&type_.text()) {
        faults.invalid(&strategy, "must be 'RollingUpdate' or 'OnDelete'");
    }
    faults.at_least(&strategy.get("rollingUpdate").get("partition"), 0);
    faults.at_least(&spec.get("replicas"), 0);
    faults.at_least(&spec.get("minReadySeconds"), 0);
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    if !selector.is_set() {
        faults.required(&selector);
    } else if selector
        .value
        .as_object()
        .is_some_and(serde_json::Map::is_empty)
    {
        faults.invalid(&selector, "empty selector is invalid for statefulset");
    }
    scheduling::label_selector(&selector, faults);
    let meta = template.get("metadata");
    let labels = meta.get("labels");
    let is_empty = selector.is_set() && selector.is_empty();
    if !is_empty && (!selector.is_set() || !selects(selector.value, labels.value)) {
        faults.invalid(&labels, "`selector` does not match template `labels`");
    }
    metadata::labels(&labels, faults);
    let claims = spec.get("volumeClaimTemplates");
    let names: Vec<&str> = claims
        .items()
        .map(|claim| claim.get("metadata").get("name").text())
        .collect();
    pod::spec(&template.get("spec"), &names, faults);
    let restart = template.get("spec");
    let restart = restart.get("restartPolicy");
    if ["Never", "OnFailure"].contains(&restart.text()) {
        faults.unsupported(&restart, &["Always"]);
    }
    for claim in claims.items() {
        storage::claim(&claim.get("spec"), faults);
    }
}

/// Whether labels are among those that a selector means.
fn selects(selector: &Value, labels: &Value) -> bool {
    let has = |key: &str, values: &[Value]| labels.get(key).is_some_and(|own| values.contains(own));
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let mut wanted = wanted.into_iter().flatten();
    let selector = At::root(selector);
    let all = selector.get("matchExpressions");
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && all.items().all(|requirement| {
            let key = requirement.get("key").text();
            let values = requirement.get("values").value.as_array();
            let values = values.map_or(&[][..], Vec::as_slice);
            match requirement.get("operator").text() {
                "In" => has(key, values),
                "NotIn" => !has(key, values),
                "Exists" => labels.get(key).is_some(),
                "DoesNotExist" => labels.get(key).is_none(),
                _ => true,
            }
        })
}

pub(super) fn status(status: &At<'_, '_>, faults: &mut Faults) {
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    for count in counts {
        faults.at_least(&status.get(count), 0);
    }
    let all = status.get("replicas").number().unwrap_or(0);
    for count in counts {
        let count = status.get(count);
        if count.number().is_some_and(|count| count > all) {
            faults.invalid(&count, "cannot be greater than status.replicas");
        }
    }
}
