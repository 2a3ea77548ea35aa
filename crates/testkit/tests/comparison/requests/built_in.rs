//! The other built-in kinds.

use serde_json::json;

use crate::request::{MERGE, Request, STRATEGIC, core, get, patch, post, put};

const SETS: &str = "/apis/apps/v1/namespaces/$ns/statefulsets";

pub fn all() -> Vec<Request> {
    [nodes(), services(), sets(), volumes(), events(), others()].concat()
}

fn nodes() -> Vec<Request> {
    let node = "/api/v1/nodes/node-of-$ns";
    vec![
        patch(
            "the taints of a node",
            node,
            STRATEGIC,
            json!({"spec": {"taints": [
                {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule", "value": "1"},
            ]}}),
        ),
        patch(
            "a bad taint",
            node,
            MERGE,
            json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
        ),
        patch(
            "the status of a node",
            &format!("{node}/status"),
            STRATEGIC,
            json!({"status": {
                "capacity": {"cpu": "4000m", "memory": "1048576Ki", "pods": "110", "nvidia.com/gpu": "8"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            }}),
        ),
    ]
}

fn services() -> Vec<Request> {
    let services = &core("services");
    let service = |name: &str, spec: serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    vec![
        post(
            "a service",
            services,
            service(
                "plain",
                json!({"selector": {"a": "b"}, "ports": [{"port": 80}]}),
            ),
        ),
        post(
            "a headless service",
            services,
            service(
                "headless",
                json!({
                    "clusterIP": "None", "publishNotReadyAddresses": true,
                    "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "targetPort": "web"}],
                }),
            ),
        ),
        post(
            "a service without ports",
            services,
            service("x", json!({"selector": {"a": "b"}})),
        ),
        post(
            "a service with ports without names",
            services,
            service("x", json!({"ports": [{"port": 1}, {"port": 2}]})),
        ),
        post(
            "a service with a bad type",
            services,
            service("x", json!({"type": "Magic", "ports": [{"port": 1}]})),
        ),
        post(
            "a service with a bad name",
            services,
            service("1.a", json!({"ports": [{"port": 1}]})),
        ),
        patch(
            "a service becomes headless",
            &format!("{services}/plain"),
            MERGE,
            json!({"spec": {"clusterIP": "None"}}),
        ),
        patch(
            "a port of a service",
            &format!("{services}/headless"),
            STRATEGIC,
            json!({"spec": {"ports": [
                {"port": 2, "name": "c"},
            ]}}),
        ),
    ]
}

fn sets() -> Vec<Request> {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "set"},
        "spec": {
            // Nobody makes its pods here.
            "replicas": 0, "serviceName": "headless", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "set"}},
            "template": {
                "metadata": {"labels": {"app": "set"}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    });
    let wrong = |spec: serde_json::Value| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": spec});
    vec![
        post("a StatefulSet", SETS, set),
        post(
            "a StatefulSet without a selector",
            SETS,
            wrong(json!({"template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
            }})),
        ),
        post(
            "a StatefulSet that does not select its pods",
            SETS,
            wrong(json!({
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
            })),
        ),
        get("the scale of a StatefulSet", &format!("{SETS}/set/scale")),
        patch(
            "what a StatefulSet keeps",
            &format!("{SETS}/set"),
            MERGE,
            json!({"spec": {"serviceName": "other"}}),
        ),
        patch(
            "the generation of a StatefulSet",
            &format!("{SETS}/set"),
            MERGE,
            json!({"spec": {"minReadySeconds": 3}}),
        ),
    ]
}

fn volumes() -> Vec<Request> {
    let claims = &core("persistentvolumeclaims");
    let volumes = "/api/v1/persistentvolumes";
    vec![
        post(
            "a volume",
            volumes,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume-of-$ns"},
                "spec": {
                    "capacity": {"storage": "10Pi"}, "accessModes": ["ReadWriteMany"],
                    "storageClassName": "none-of-$ns",
                    "csi": {"driver": "csi.juicefs.com", "volumeHandle": "x"},
                },
            }),
        ),
        post(
            "a volume of nothing",
            volumes,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]},
            }),
        ),
        post(
            "a claim",
            claims,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }),
        ),
        post(
            "a claim of nothing",
            claims,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}, "spec": {},
            }),
        ),
        patch(
            "a claim does not change",
            &format!("{claims}/claim"),
            MERGE,
            json!({
                "spec": {"accessModes": ["ReadWriteMany"]},
            }),
        ),
        post(
            "a storage class",
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "class-of-$ns"},
                "provisioner": "csi.juicefs.com",
            }),
        ),
    ]
}

fn events() -> Vec<Request> {
    let about =
        || json!({"kind": "ConfigMap", "name": "a", "namespace": "$ns", "apiVersion": "v1"});
    let new = "/apis/events.k8s.io/v1/namespaces/$ns/events";
    vec![
        post(
            "an event",
            &core("events"),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"},
                "involvedObject": about(), "reason": "Told", "message": "so it is", "type": "Normal",
                "source": {"component": "comparison"}, "count": 2,
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:10Z",
            }),
        ),
        get("an event in its other form", &format!("{new}/old")),
        post(
            "a new event",
            new,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "new"},
                "regarding": about(), "reason": "Told", "note": "so it is", "type": "Warning", "action": "Telling",
                "reportingController": "example.com/comparison", "reportingInstance": "one",
                "eventTime": "2026-01-01T00:00:00.000000Z",
            }),
        ),
        get("a new event in its old form", &core("events/new")),
        post(
            "a new event without what it needs",
            new,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x"}, "regarding": about(),
            }),
        ),
        post(
            "an event about something elsewhere",
            &core("events"),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"},
                "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "elsewhere"},
            }),
        ),
        get(
            "events about an object",
            &core(
                "events?fieldSelector=involvedObject.name%3Da,involvedObject.kind%3DConfigMap,reason%3DTold",
            ),
        ),
        get(
            "new events about an object",
            &format!("{new}?fieldSelector=regarding.name%3Da,type%3DWarning"),
        ),
        patch(
            "an event counts on",
            &core("events/old"),
            MERGE,
            json!({"count": 3}),
        ),
    ]
}

fn others() -> Vec<Request> {
    vec![
        post(
            "a secret with text",
            &core("secrets"),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "text"},
                "stringData": {"key": "value", "both": "text"}, "data": {"both": "eHg="},
            }),
        ),
        post(
            "a secret that is not encoded",
            &core("secrets"),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"key": "%%%"},
            }),
        ),
        patch(
            "the type of a secret does not change",
            &core("secrets/text"),
            MERGE,
            json!({"type": "other"}),
        ),
        post(
            "a service account",
            &core("serviceaccounts"),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "account"},
            }),
        ),
        post(
            "a token for an account",
            &core("serviceaccounts/account/token"),
            json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]},
            }),
        ),
        post(
            "a lease",
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"},
                "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
            }),
        ),
        post(
            "a lease of no time",
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"},
                "spec": {"leaseDurationSeconds": 0},
            }),
        ),
        put(
            "the finalizers of a namespace",
            "/api/v1/namespaces/$ns/finalize",
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"},
                "spec": {"finalizers": ["kubernetes", "example.com/mine"]},
            }),
        ),
        put(
            "and back",
            "/api/v1/namespaces/$ns/finalize",
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"},
                "spec": {"finalizers": ["kubernetes"]},
            }),
        ),
        post(
            "who may do what",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            }),
        ),
    ]
}
