//! Pods, as a kubelet, a scheduler and users treat them.

use serde_json::{Value, json};

use crate::request::{MERGE, Request, STRATEGIC, core, delete, get, patch, post};

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"pod": name}},
        "spec": {
            // Nobody places it but us, and no token is mounted into it.
            "schedulerName": "nobody", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "example.com/image:1"}],
        },
    });
    if let (Some(all), Value::Object(spec)) = (
        pod.pointer_mut("/spec").and_then(Value::as_object_mut),
        spec,
    ) {
        all.extend(spec);
    }
    pod
}

pub fn all() -> Vec<Request> {
    [making(), life(), ending()].concat()
}

fn making() -> Vec<Request> {
    let pods = &core("pods");
    // Dry, so that what one of the two takes is not in the way later.
    let dry = &core("pods?dryRun=All");
    vec![
        post("a small pod", pods, pod("small", json!({}))),
        post(
            "a pod with much in it",
            pods,
            pod(
                "large",
                json!({
                    "initContainers": [{"name": "init", "image": "busybox", "command": ["true"]}],
                    "containers": [
                        {
                            "name": "main", "image": "example.com/image", "ports": [{"containerPort": 80}],
                            "env": [
                                {"name": "A", "value": "1"},
                                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                            ],
                            "envFrom": [{"configMapRef": {"name": "a"}}],
                            "resources": {"limits": {"cpu": "1", "memory": "1024Mi"}},
                            "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        },
                        {"name": "side", "image": "example.com/side@sha256:0000000000000000000000000000000000000000000000000000000000000000", "resources": {"requests": {"cpu": "0.5"}}},
                    ],
                    "volumes": [
                        {"name": "data", "emptyDir": {}},
                        {"name": "config", "configMap": {"name": "a"}},
                        {"name": "secret", "secret": {"secretName": "s"}},
                        {"name": "host", "hostPath": {"path": "/tmp"}},
                        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
                    ],
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "nodeSelector": {"a": "b"},
                    "terminationGracePeriodSeconds": 5,
                }),
            ),
        ),
        post(
            "a pod without containers",
            dry,
            pod("x", json!({"containers": []})),
        ),
        post(
            "a pod with a bad container",
            dry,
            pod(
                "x",
                json!({
                    "containers": [{"name": "A_B", "image": "", "env": [{"name": ""}], "ports": [{"containerPort": 0}]}],
                }),
            ),
        ),
        post(
            "a pod with a bad quantity",
            dry,
            pod(
                "x",
                json!({
                    "containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "many"}}}],
                }),
            ),
        ),
        post(
            "a pod that requests more than its limit",
            dry,
            pod(
                "x",
                json!({
                    "containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}],
                }),
            ),
        ),
        post("a pod with a status", pods, {
            let mut pod = pod("with-status", json!({}));
            if let Some(pod) = pod.as_object_mut() {
                pod.insert(
                    "status".to_owned(),
                    json!({"phase": "Running", "podIP": "1.2.3.4"}),
                );
            }
            pod
        }),
        post(
            "a pod with an unknown field",
            &format!("{pods}?fieldValidation=Warn"),
            pod("warned", json!({"nodeNme": "a"})),
        ),
        post(
            "a pod with a priority class that is not there",
            dry,
            pod("x", json!({"priorityClassName": "none"})),
        ),
        post(
            "a pod of an account that is not there",
            dry,
            pod("x", json!({"serviceAccountName": "none"})),
        ),
    ]
}

fn life() -> Vec<Request> {
    let small = &core("pods/small");
    let status = &core("pods/small/status");
    vec![
        patch(
            "the image of a pod changes",
            small,
            STRATEGIC,
            json!({
                "spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]},
            }),
        ),
        patch(
            "a toleration is added",
            small,
            MERGE,
            json!({"spec": {"tolerations": [
                {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            ]}}),
        ),
        patch(
            "the command of a pod does not change",
            small,
            STRATEGIC,
            json!({
                "spec": {"containers": [{"name": "main", "command": ["other"]}]},
            }),
        ),
        patch(
            "the node of a pod is not patched",
            small,
            MERGE,
            json!({"spec": {"nodeName": "node"}}),
        ),
        post(
            "a pod is bound",
            &core("pods/small/binding"),
            json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "small"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node-of-$ns"},
            }),
        ),
        post(
            "a pod is bound once",
            &core("pods/small/binding"),
            json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "small"},
                "target": {"kind": "Node", "name": "other"},
            }),
        ),
        post(
            "a pod is bound to a node",
            &core("pods/large/binding"),
            json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "large"},
                "target": {"kind": "Shoe", "name": ""},
            }),
        ),
        get("a bound pod", small),
        patch(
            "a kubelet reports",
            status,
            STRATEGIC,
            json!({"status": {
                "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
                "hostIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "main", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }],
            }}),
        ),
        patch(
            "conditions are merged by their type",
            status,
            STRATEGIC,
            json!({"status": {
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
            }}),
        ),
        patch(
            "new conditions come first",
            status,
            STRATEGIC,
            json!({"status": {"conditions": [
                {"type": "PodScheduled", "status": "True"}, {"type": "New", "status": "True"},
            ]}}),
        ),
        patch(
            "the status takes no spec",
            status,
            MERGE,
            json!({
                "spec": {"nodeName": "x"}, "metadata": {"labels": {"through": "status"}},
            }),
        ),
        patch(
            "the rest takes no status",
            small,
            MERGE,
            json!({"status": {"phase": "Failed"}}),
        ),
        get(
            "pods on a node",
            &core("pods?fieldSelector=spec.nodeName%3Dnode-of-$ns"),
        ),
        get(
            "pods in a phase",
            &core("pods?fieldSelector=status.phase%3DRunning"),
        ),
        get(
            "pods by a field that is not selected by",
            &core("pods?fieldSelector=spec.hostname%3Dx"),
        ),
        get(
            "the log of a pod without a node",
            &core("pods/large/log?container=main"),
        ),
        get(
            "the log of one of several containers",
            &core("pods/large/log"),
        ),
        get(
            "the log of a container that is not there",
            &core("pods/small/log?container=none"),
        ),
        get("the log of a pod that is not there", &core("pods/none/log")),
        get(
            "containers of a pod for debugging",
            &core("pods/small/ephemeralcontainers"),
        ),
        patch(
            "the size of a pod",
            &core("pods/small/resize"),
            STRATEGIC,
            json!({"spec": {"containers": [
                {"name": "main", "resources": {"requests": {"cpu": "1"}}},
            ]}}),
        ),
    ]
}

fn ending() -> Vec<Request> {
    let small = &core("pods/small");
    vec![
        delete("a pod is deleted dry", &format!("{small}?dryRun=All")),
        delete(
            "a pod is asked to end",
            &format!("{small}?gracePeriodSeconds=100"),
        ),
        delete("a pod is asked again to end", small),
        get("a pod that ends", small),
        patch(
            "a pod that ends takes no finalizer",
            small,
            MERGE,
            json!({"metadata": {"finalizers": ["example.com/a"]}}),
        ),
        post(
            "an eviction",
            &core("pods/large/eviction"),
            json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "large"},
            }),
        ),
        post(
            "an eviction of what is not there",
            &core("pods/none/eviction"),
            json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"},
            }),
        ),
        post(
            "an eviction of another",
            &core("pods/with-status/eviction"),
            json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"},
            }),
        ),
        get("pods by age, some of which end", &core("pods")).accept(crate::request::TABLE),
        delete("a pod is ended", small).json(json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        })),
        get("a pod that has ended", small),
        delete(
            "a pod that never began goes at once",
            &core("pods/with-status"),
        ),
        get("it is gone", &core("pods/with-status")),
    ]
}
