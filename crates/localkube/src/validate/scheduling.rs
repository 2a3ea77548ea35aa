//! Where pods may go.

use super::metadata::labels;
use super::names;
use crate::fault::{At, Faults};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &At<'_, '_>, faults: &mut Faults) {
    let nodes = affinity.get("nodeAffinity");
    let required = nodes.get(REQUIRED);
    if required.is_set() {
        node_selector(&required, faults);
    }
    for term in nodes.get(PREFERRED).items() {
        faults.between(&term.get("weight"), 1, 100);
        node_term(&term.get("preference"), faults);
    }
    for pods in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(pods);
        for term in pods.get(REQUIRED).items() {
            pod_term(&term, faults);
        }
        for term in pods.get(PREFERRED).items() {
            faults.between(&term.get("weight"), 1, 100);
            pod_term(&term.get("podAffinityTerm"), faults);
        }
    }
}

/// The nodes that are meant, by any of some terms.
pub(super) fn node_selector(selector: &At<'_, '_>, faults: &mut Faults) {
    let terms = selector.get("nodeSelectorTerms");
    if terms.is_empty() {
        faults.required_so(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_term(&term, faults);
    }
}

fn node_term(term: &At<'_, '_>, faults: &mut Faults) {
    for requirement in term.get("matchExpressions").items() {
        let (operator, values) = (requirement.get("operator"), requirement.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.required_so(&values, why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.forbidden(values.path, why);
            }
            "Gt" | "Lt" if values.items().count() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.required_so(&values, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => faults.invalid(&operator, "not a valid selector operator"),
        }
        for what in names::qualified(requirement.get("key").text()) {
            faults.invalid(&requirement.get("key"), &what);
        }
    }
}

fn pod_term(term: &At<'_, '_>, faults: &mut Faults) {
    label_selector(&term.get("labelSelector"), faults);
    topology(&term.get("topologyKey"), faults);
}

fn topology(key: &At<'_, '_>, faults: &mut Faults) {
    if key.is_empty() {
        faults.required_so(key, "can not be empty");
    }
    let text = serde_json::Value::from(key.text());
    for what in names::qualified(key.text()) {
        faults.invalid_value(&key.path, &text, &what);
    }
}

/// The objects that are meant, by their labels.
pub(super) fn label_selector(selector: &At<'_, '_>, faults: &mut Faults) {
    labels(&selector.get("matchLabels"), faults);
    for requirement in selector.get("matchExpressions").items() {
        let (operator, values) = (requirement.get("operator"), requirement.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.required_so(&values, why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.forbidden(values.path, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => faults.invalid(&operator, "not a valid selector operator"),
        }
        let key = requirement.get("key");
        for what in names::qualified(key.text()) {
            faults.invalid(&key, &what);
        }
    }
}

pub(super) fn spread(constraints: &At<'_, '_>, faults: &mut Faults) {
    for constraint in constraints.items() {
        faults.at_least(&constraint.get("maxSkew"), 1);
        topology(&constraint.get("topologyKey"), faults);
        let ways = ["DoNotSchedule", "ScheduleAnyway"];
        faults.one_of(&constraint.get("whenUnsatisfiable"), &ways);
        label_selector(&constraint.get("labelSelector"), faults);
    }
}

pub(super) fn tolerations(tolerations: &At<'_, '_>, faults: &mut Faults) {
    for toleration in tolerations.items() {
        let get = |field| toleration.get(field);
        let (key, operator, value) = (get("key"), get("operator"), get("value"));
        let (effect, seconds) = (get("effect"), get("tolerationSeconds"));
        if !key.is_empty() {
            for what in names::qualified(key.text()) {
                faults.invalid(&key, &what);
            }
        } else if operator.text() != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
            faults.invalid(&operator, why);
        }
        if seconds.is_set() && effect.text() != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            let nothing = serde_json::Value::from(effect.text());
            faults.invalid_value(&effect.path, &nothing, why);
        }
        match operator.text() {
            "" | "Equal" => {
                for what in names::label_value(value.text()) {
                    faults.invalid_value(&operator.path, value.value, &what);
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                faults.invalid_value(&operator.path, value.value, why);
            }
            "Exists" => {}
            _ => faults.unsupported(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            faults.one_of(&effect, &EFFECTS);
        }
    }
}

/// The effect of a taint, which it must have.
pub(super) fn effect(effect: &At<'_, '_>, faults: &mut Faults) {
    match effect.is_empty() {
        true => faults.required(effect),
        false => faults.one_of(effect, &EFFECTS),
    }
}
