//! What the API server fills in for the built-in kinds.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::meta;
use crate::path::text;

mod pod;

use pod::{pod, pod_spec};

/// Fills in what is missing in an object of a built-in kind.
pub fn fill(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => namespace(object),
        ("", "Node") => {
            let capacity = object.pointer("/status/capacity").cloned();
            set(
                object,
                "/status",
                "allocatable",
                capacity.unwrap_or_default(),
            );
        }
        ("", "Pod") => pod(object),
        ("", "Service") => service(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolume") => persistent_volume(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("storage.k8s.io", "CSIDriver") => {
            for (field, value) in [
                ("attachRequired", json!(true)),
                ("podInfoOnMount", json!(false)),
                ("storageCapacity", json!(false)),
                ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
                ("volumeLifecycleModes", json!(["Persistent"])),
                ("requiresRepublish", json!(false)),
                ("seLinuxMount", json!(false)),
            ] {
                set(object, "/spec", field, value);
            }
        }
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

fn maps(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let list = list.and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
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
