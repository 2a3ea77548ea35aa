//! What the API server fills in for the built-in kinds.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::meta;
use crate::path::text;

/// Fills in what is missing in an object of a built-in kind.
pub fn fill(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => namespace(object),
        ("", "Pod") => pod(object),
        ("", "Service") => service(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolume") => persistent_volume(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("storage.k8s.io", "StorageClass") => {
            set(object, "", "reclaimPolicy", json!("Delete"));
            set(object, "", "volumeBindingMode", json!("Immediate"));
        }
        ("apps", "StatefulSet") => stateful_set(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => {}
    }
}

/// Sets a field of the map at `path` unless it is set.
fn set(object: &mut Value, path: &str, field: &str, value: Value) {
    if let Some(Value::Object(map)) = object.pointer_mut(path) {
        unless_set(map, field, value);
    }
}

fn unless_set(map: &mut Map<String, Value>, field: &str, value: Value) {
    let entry = map.entry(field).or_insert(Value::Null);
    if entry.is_null() {
        *entry = value;
    }
}

/// The maps in the list at `path`.
fn each<'v>(
    object: &'v mut Value,
    path: &str,
) -> impl Iterator<Item = &'v mut Map<String, Value>> + use<'v> {
    maps(object.pointer_mut(path))
}

fn namespace(object: &mut Value) {
    let name = meta(object, "name").to_owned();
    set(object, "/metadata", "labels", json!({}));
    set(
        object,
        "/metadata/labels",
        "kubernetes.io/metadata.name",
        json!(name),
    );
    set(object, "", "spec", json!({}));
    set(object, "", "status", json!({"phase": "Active"}));
}

fn secret(object: &mut Value) {
    set(object, "", "type", json!("Opaque"));
    let Some(object) = object.as_object_mut() else {
        return;
    };
    // Texts are for writing only.
    let Some(Value::Object(texts)) = object.remove("stringData") else {
        return;
    };
    unless_set(object, "data", json!({}));
    if let Some(Value::Object(data)) = object.get_mut("data") {
        for (key, text) in texts {
            let text = BASE64_STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, text.into());
        }
    }
}

fn claim(object: &mut Value) {
    set(object, "/spec", "volumeMode", json!("Filesystem"));
    set(object, "", "status", json!({"phase": "Pending"}));
}

fn persistent_volume(object: &mut Value) {
    set(
        object,
        "/spec",
        "persistentVolumeReclaimPolicy",
        json!("Retain"),
    );
    set(object, "/spec", "volumeMode", json!("Filesystem"));
    set(object, "", "status", json!({"phase": "Available"}));
}

fn service(object: &mut Value) {
    set(object, "/spec", "type", json!("ClusterIP"));
    set(object, "/spec", "sessionAffinity", json!("None"));
    // The others are a name, and have no address.
    if text(object, "spec.type") != "ExternalName" {
        for (field, value) in [
            ("internalTrafficPolicy", json!("Cluster")),
            ("ipFamilies", json!(["IPv4"])),
            ("ipFamilyPolicy", json!("SingleStack")),
        ] {
            set(object, "/spec", field, value);
        }
    }
    let address = object.pointer("/spec/clusterIP").cloned();
    if let Some(address) = address {
        set(object, "/spec", "clusterIPs", json!([address]));
    }
    for port in each(object, "/spec/ports") {
        unless_set(port, "protocol", json!("TCP"));
        let number = port.get("port").cloned().unwrap_or_default();
        unless_set(port, "targetPort", number);
    }
    set(object, "", "status", json!({"loadBalancer": {}}));
}

fn stateful_set(object: &mut Value) {
    for (field, value) in [
        ("replicas", json!(1)),
        ("podManagementPolicy", json!("OrderedReady")),
        ("revisionHistoryLimit", json!(10)),
        ("updateStrategy", json!({"type": "RollingUpdate"})),
        (
            "persistentVolumeClaimRetentionPolicy",
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
        ),
    ] {
        set(object, "/spec", field, value);
    }
    if text(object, "spec.updateStrategy.type") == "RollingUpdate" {
        set(object, "/spec/updateStrategy", "rollingUpdate", json!({}));
        for (field, value) in [("partition", 0), ("maxUnavailable", 1)] {
            let strategy = "/spec/updateStrategy/rollingUpdate";
            set(object, strategy, field, json!(value));
        }
    }
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        pod_spec(spec);
    }
    if let Some(Value::Array(claims)) = object.pointer_mut("/spec/volumeClaimTemplates") {
        for one in claims {
            set(one, "", "apiVersion", json!("v1"));
            set(one, "", "kind", json!("PersistentVolumeClaim"));
            claim(one);
        }
    }
    set(
        object,
        "",
        "status",
        json!({"replicas": 0, "availableReplicas": 0}),
    );
}

fn definition(object: &mut Value) {
    let kind = text(object, "spec.names.kind").to_owned();
    set(
        object,
        "/spec/names",
        "singular",
        json!(kind.to_lowercase()),
    );
    set(
        object,
        "/spec/names",
        "listKind",
        json!(format!("{kind}List")),
    );
    set(object, "/spec", "conversion", json!({"strategy": "None"}));
    let created = meta(object, "creationTimestamp").to_owned();
    let condition = |type_: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": "True", "lastTransitionTime": created,
            "reason": reason, "message": message,
        })
    };
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ),
    ]);
    let stored: Vec<String> = each(object, "/spec/versions")
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| Some(version.get("name")?.as_str()?.to_owned()))
        .collect();
    let names = object.pointer("/spec/names").cloned();
    set(
        object,
        "",
        "status",
        json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored}),
    );
    // Names that were changed are accepted too.
    if let (Some(names), Some(Value::Object(status))) = (names, object.get_mut("status")) {
        status.insert("acceptedNames".to_owned(), names);
    }
}

fn pod(object: &mut Value) {
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

fn pod_spec(spec: &mut Value) {
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
        }
    }
}

fn maps(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let list = list.and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
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

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod tests {
    use super::*;
    use crate::kind::built_in;

    fn filled(kind: &str, mut object: Value) -> Value {
        let kind = built_in()
            .into_iter()
            .find(|known| known.kind == kind)
            .unwrap();
        fill(&kind, &mut object);
        let once = object.clone();
        fill(&kind, &mut object);
        assert_eq!(object, once, "filling in twice changes nothing");
        object
    }

    #[test]
    fn a_pod() {
        let pod = filled(
            "Pod",
            json!({"metadata": {"name": "a"}, "spec": {
                "containers": [{
                    "name": "c", "image": "registry:5000/x",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
                }],
                "volumes": [{"name": "v"}, {"name": "m", "configMap": {"name": "m"}}],
            }}),
        );
        let spec = &pod["spec"];
        let container = &spec["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(
            container["resources"]["requests"],
            json!({"cpu": "1", "memory": "1Gi"})
        );
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(
            container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"],
            "v1"
        );
        assert_eq!(container["readinessProbe"]["periodSeconds"], 1);
        assert_eq!(container["readinessProbe"]["failureThreshold"], 3);
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], 420);
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
        assert_eq!(spec["serviceAccount"], "default");
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "qosClass": "Guaranteed"})
        );
    }

    #[test]
    fn images_with_a_tag_are_pulled_once() {
        for (image, wanted) in [
            ("a", "Always"),
            ("a:latest", "Always"),
            ("a:v1", "IfNotPresent"),
            ("r.example.com:5000/a", "Always"),
            ("r.example.com:5000/a:v1", "IfNotPresent"),
            ("a@sha256:0", "IfNotPresent"),
        ] {
            let spec = json!({"containers": [{"name": "c", "image": image}]});
            let pod = filled("Pod", json!({"metadata": {}, "spec": spec}));
            assert_eq!(
                pod["spec"]["containers"][0]["imagePullPolicy"], wanted,
                "{image}"
            );
        }
    }

    #[test]
    fn texts_of_a_secret_become_data() {
        let secret = filled(
            "Secret",
            json!({"stringData": {"a": "x"}, "data": {"b": "eQ=="}}),
        );
        assert_eq!(
            secret,
            json!({"data": {"a": "eA==", "b": "eQ=="}, "type": "Opaque"})
        );
    }

    #[test]
    fn a_definition_is_established_at_once() {
        let crd = filled(
            "CustomResourceDefinition",
            json!({"metadata": {"creationTimestamp": "t"}, "spec": {
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "storage": true}, {"name": "v2", "storage": false}],
            }}),
        );
        assert_eq!(crd["spec"]["names"]["singular"], "widget");
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(crd["status"]["conditions"][1]["type"], "Established");
        assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");
    }
}
