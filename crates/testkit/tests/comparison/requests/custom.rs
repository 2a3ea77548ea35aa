//! Kinds that are defined by their users, and ours.

#![expect(clippy::indexing_slicing, reason = "what is indexed was just made")]

use serde_json::{Value, json};

use crate::request::{
    APPLY, JSON_PATCH, MERGE, Request, STRATEGIC, delete, get, job, patch, post, put,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/$ns.example.com/v1/namespaces/$ns/widgets";

pub fn all() -> Vec<Request> {
    [defining(), widgets(), parts(), jobs()].concat()
}

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "when": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "set"},
                "port": {"x-kubernetes-int-or-string": true},
                "maybe": {"type": "string", "nullable": true},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
                "deep": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 3}}},
                "fixed": {"type": "string", "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "fixed is fixed"},
                ]},
            },
            "x-kubernetes-validations": [
                {"rule": "self.size < 9 || self.colour == 'green'", "message": "large ones are green"},
            ],
        },
        "status": {"type": "object", "properties": {
            "size": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"},
        }},
    }});
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            }},
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "how it is"},
                {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.$ns.example.com"},
        "spec": {
            "group": "$ns.example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn defining() -> Vec<Request> {
    let mut misnamed = definition();
    misnamed["metadata"]["name"] = json!("other.$ns.example.com");
    let mut unstored = definition();
    unstored["spec"]["versions"][0]["storage"] = json!(false);
    let mut loose = definition();
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["name"] = json!({});
    let dry = &format!("{DEFINITIONS}?dryRun=All");
    vec![
        post("define a kind under another name", dry, misnamed),
        post("define a kind that is not stored", dry, unstored),
        post("define a kind with a field without a type", dry, loose),
        post("define a kind", DEFINITIONS, definition()),
        get(
            "the kind is served",
            &format!("{DEFINITIONS}/widgets.$ns.example.com"),
        )
        .until(200, "/body/status/conditions/1/status", json!("True")),
        // A real server needs a moment from there to its paths.
        get("its path is there", WIDGETS).until(200, "/body/kind", json!("WidgetList")),
        get("its group", "/apis/$ns.example.com").until(200, "/body/kind", json!("APIGroup")),
        get("its resources", "/apis/$ns.example.com/v1").until(
            200,
            "/body/kind",
            json!("APIResourceList"),
        ),
    ]
}

fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "$ns.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    })
}

fn widgets() -> Vec<Request> {
    let w = &format!("{WIDGETS}/w");
    // Dry, so that what one of the two takes is not in the way later.
    let dry = &format!("{WIDGETS}?dryRun=All");
    let bad = |name: &'static str, spec: Value| post(name, dry, widget("bad", spec));
    let mut with_status = widget(
        "w",
        json!({
            "size": 2, "unknown": 1, "tags": ["a"], "port": "http", "maybe": null, "any": {"x": {"y": 1}},
            "limits": {"a": 1}, "fixed": "a", "name": "abc", "when": "2026-01-01T00:00:00Z",
        }),
    );
    with_status["status"] = json!({"phase": "set by the user"});
    vec![
        post("custom: make", WIDGETS, with_status),
        post(
            "custom: make again",
            WIDGETS,
            widget("w", json!({"size": 1})),
        ),
        post(
            "custom: strictly",
            &format!("{WIDGETS}?fieldValidation=Strict"),
            widget("bad", json!({"size": 1, "unknown": 1, "deep": {"x": 1}})),
        ),
        post(
            "custom: with a warning",
            &format!("{WIDGETS}?fieldValidation=Warn"),
            widget("warned", json!({"size": 1, "unknown": 1})),
        ),
        post(
            "custom: in another version",
            &WIDGETS.replace("v1", "v1beta1"),
            json!({
                "apiVersion": "$ns.example.com/v1beta1", "kind": "Widget", "metadata": {"name": "beta"}, "spec": {"size": 1},
            }),
        ),
        get(
            "custom: read in another version",
            &format!("{}/w", WIDGETS.replace("v1", "v1beta1")),
        ),
        post(
            "custom: sent to the wrong version",
            WIDGETS,
            json!({
                "apiVersion": "$ns.example.com/v1beta1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"size": 1},
            }),
        ),
        bad("custom: nothing required", json!({})),
        bad("custom: too large", json!({"size": 11})),
        bad("custom: no number", json!({"size": "two"})),
        bad("custom: no whole number", json!({"size": 1.5})),
        bad(
            "custom: no such value",
            json!({"size": 1, "colour": "blue"}),
        ),
        bad("custom: no such form", json!({"size": 1, "name": "ABC"})),
        bad("custom: too long", json!({"size": 1, "name": "abcdef"})),
        bad("custom: no time", json!({"size": 1, "when": "soon"})),
        bad(
            "custom: too many",
            json!({"size": 1, "tags": ["a", "b", "c"]}),
        ),
        bad("custom: twice", json!({"size": 1, "tags": ["a", "a"]})),
        bad(
            "custom: neither number nor text",
            json!({"size": 1, "port": true}),
        ),
        bad("custom: null", json!({"size": 1, "name": null})),
        bad("custom: no object", json!([])),
        bad("custom: of a map", json!({"size": 1, "limits": {"a": "x"}})),
        bad("custom: a rule", json!({"size": 9})),
        bad(
            "custom: an object that is none",
            json!({"size": 1, "pod": {"x": 1}}),
        ),
        post(
            "custom: a bad name",
            WIDGETS,
            widget("Bad", json!({"size": 1})),
        ),
        patch(
            "custom: merge",
            w,
            MERGE,
            json!({"spec": {"size": 3, "colour": null, "any": {"x": null, "z": 1}}}),
        ),
        patch(
            "custom: labels are no new generation",
            w,
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        patch(
            "custom: merge what can't be",
            w,
            MERGE,
            json!({"spec": {"size": 100}}),
        ),
        patch(
            "custom: merge what is fixed",
            w,
            MERGE,
            json!({"spec": {"fixed": "b"}}),
        ),
        patch(
            "custom: JSON patch",
            w,
            JSON_PATCH,
            json!([{"op": "add", "path": "/spec/tags/-", "value": "b"}]),
        ),
        patch(
            "custom: strategic",
            w,
            STRATEGIC,
            json!({"spec": {"size": 3}}),
        ),
        patch(
            "custom: apply",
            &format!("{w}?fieldManager=one&force=true"),
            APPLY,
            widget("w", json!({"size": 4})),
        ),
        put(
            "custom: write without a version",
            w,
            widget("w", json!({"size": 3})),
        ),
    ]
}

fn parts() -> Vec<Request> {
    let w = &format!("{WIDGETS}/w");
    let scale = |replicas: Value| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "w", "namespace": "$ns"}, "spec": {"replicas": replicas},
        })
    };
    vec![
        patch(
            "custom: the status",
            &format!("{w}/status"),
            MERGE,
            json!({
                "status": {"size": 1, "selector": "a=b", "phase": "Good", "x": 1}, "spec": {"size": 7},
                "metadata": {"labels": {"through": "status"}},
            }),
        ),
        patch(
            "custom: a wrong status",
            &format!("{w}/status"),
            MERGE,
            json!({"status": {"size": "x"}}),
        ),
        get("custom: read the status", &format!("{w}/status")),
        get("custom: the scale", &format!("{w}/scale")),
        put(
            "custom: set the scale",
            &format!("{w}/scale"),
            scale(json!(5)),
        ),
        put(
            "custom: scale too far",
            &format!("{w}/scale"),
            scale(json!(50)),
        ),
        put(
            "custom: scale below nothing",
            &format!("{w}/scale"),
            scale(json!(-1)),
        ),
        patch(
            "custom: patch the scale",
            &format!("{w}/scale"),
            MERGE,
            json!({"spec": {"replicas": 6}}),
        ),
        get("custom: scaled", w),
        get(
            "custom: by a field",
            &format!("{WIDGETS}?fieldSelector=spec.size%3D6"),
        ),
        get(
            "custom: one by name",
            &format!("{WIDGETS}?fieldSelector=metadata.name%3Dw"),
        ),
        delete(
            "custom: all with a label",
            &format!("{WIDGETS}?labelSelector=a%3Db"),
        ),
    ]
}

fn jobs() -> Vec<Request> {
    let template = || json!({"spec": {"containers": [{"name": "paddle", "image": "paddle"}]}});
    let made = |name: &str, spec: Value| {
        json!({
            "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let bad = |name: &'static str, spec: Value| post(name, &job(""), made("bad", spec));
    vec![
        post(
            "job: make",
            &job(""),
            made(
                "job",
                json!({"worker": {"replicas": 2, "template": template()}}),
            ),
        ),
        bad("job: without a role", json!({})),
        bad("job: without a pod", json!({"worker": {"replicas": 1}})),
        bad(
            "job: of nobody",
            json!({"worker": {"replicas": 0, "template": template()}}),
        ),
        bad(
            "job: without containers",
            json!({"worker": {"replicas": 1, "template": {"spec": {"containers": []}}}}),
        ),
        bad(
            "job: with another type",
            json!({"worker": {"replicas": "two", "template": template()}}),
        ),
        post(
            "job: with a misspelt field",
            &format!("{}?fieldValidation=Strict", job("")),
            made(
                "bad",
                json!({
                    "cleanPodPolcy": "Never", "worker": {"replicas": 1, "template": template()},
                }),
            ),
        ),
        get("job: the scale", &job("/job/scale")),
        patch(
            "job: scale",
            &job("/job/scale"),
            MERGE,
            json!({"spec": {"replicas": 3}}),
        ),
        patch(
            "job: a status",
            &job("/job/status"),
            MERGE,
            json!({"status": {"phase": "Running", "mode": "Collective"}}),
        ),
        get("job: read", &job("/job")),
    ]
}
