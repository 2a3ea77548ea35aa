//! What is filled in for pods and their templates.

use serde_json::{Map, Value, json};

use super::{each, maps, set, unless_set};
use crate::object::meta;

pub(super) fn pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        pod_spec(spec);
        // What admission adds to pods alone, not to templates.
        set(spec, "", "serviceAccountName", json!("default"));
        let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
        set(spec, "", "serviceAccount", account);
        set(spec, "", "enableServiceLinks", json!(true));
        set(spec, "", "priority", json!(0));
        set(spec, "", "preemptionPolicy", json!("PreemptLowerPriority"));
        tolerations(spec);
    }
    set(object, "", "status", json!({}));
    set(object, "/status", "phase", json!("Pending"));
    let gates = object.pointer("/spec/schedulingGates");
    if gates
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        let gated = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": meta(object, "creationTimestamp"),
        }]);
        set(object, "/status", "conditions", gated);
    }
    let class = quality_of_service(object.get("spec").unwrap_or(&Value::Null));
    set(object, "/status", "qosClass", json!(class));
}

/// A pod stays on a node that is lost for five minutes.
fn tolerations(spec: &mut Value) {
    set(spec, "", "tolerations", json!([]));
    let Some(Value::Array(all)) = spec.get_mut("tolerations") else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let is_set = all.iter().any(|toleration| {
            toleration.get("key").is_none_or(|own| own == key)
                && toleration
                    .get("effect")
                    .is_none_or(|effect| effect == "NoExecute")
        });
        if !is_set {
            all.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

fn quality_of_service(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"];
    let containers = containers
        .iter()
        .filter_map(|list| spec.get(list)?.as_array())
        .flatten();
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let amount = |kind: &str, what: &str| container.get("resources")?.get(kind)?.get(what);
        for what in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", what), amount("limits", what));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(super) fn pod_spec(spec: &mut Value) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        set(spec, "", field, value);
    }
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.and_then(Value::as_i64).is_some_and(|grace| grace < 0) {
        json_patch::merge(spec, &json!({"terminationGracePeriodSeconds": 1}));
    }
    let host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["/containers", "/initContainers"] {
        each(spec, list).for_each(|one| container(one, host));
    }
    each(spec, "/volumes").for_each(volume);
}

fn container(container: &mut Map<String, Value>, host: bool) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    // A name without a tag, or with the tag latest, may mean another image tomorrow.
    let tag = image
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'));
    let is_fixed = tag.is_some_and(|(_, tag)| tag != "latest") || image.contains('@');
    let policy = if is_fixed { "IfNotPresent" } else { "Always" };
    for (field, value) in [
        ("imagePullPolicy", json!(policy)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("resources", json!({})),
    ] {
        unless_set(container, field, value);
    }
    if let Some(Value::Object(resources)) = container.get_mut("resources")
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
    {
        // What is limited and not asked for is asked for.
        unless_set(resources, "requests", json!({}));
        if let Some(Value::Object(requests)) = resources.get_mut("requests") {
            for (what, amount) in limits {
                unless_set(requests, &what, amount);
            }
        }
    }
    for port in maps(container.get_mut("ports")) {
        unless_set(port, "protocol", json!("TCP"));
        if host {
            let number = port.get("containerPort").cloned().unwrap_or_default();
            unless_set(port, "hostPort", number);
        }
    }
    for variable in maps(container.get_mut("env")) {
        let reference = variable
            .get_mut("valueFrom")
            .and_then(|from| from.get_mut("fieldRef"));
        if let Some(Value::Object(reference)) = reference {
            unless_set(reference, "apiVersion", json!("v1"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                unless_set(probe, field, json!(value));
            }
            if let Some(Value::Object(get)) = probe.get_mut("httpGet") {
                unless_set(get, "path", json!("/"));
                unless_set(get, "scheme", json!("HTTP"));
            }
        }
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.len() <= 1 {
        unless_set(volume, "emptyDir", json!({}));
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            // 0644.
            unless_set(source, "defaultMode", json!(420));
        }
    }
    if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
        unless_set(path, "type", json!(""));
    }
}
