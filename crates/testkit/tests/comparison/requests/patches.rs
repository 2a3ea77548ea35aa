//! Objects are changed in part.

use serde_json::json;

use crate::request::{
    APPLY, JSON_PATCH, MERGE, Request, STRATEGIC, core, delete, get, patch, post,
};

pub fn all() -> Vec<Request> {
    let p = &core("configmaps/patched");
    let applied = &core("configmaps/applied");
    let mut all = vec![
        post(
            "make one to patch",
            &core("configmaps"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "patched", "labels": {"a": "1", "b": "2"}},
                "data": {"x": "1", "y": "2"},
            }),
        )
        .keep("patched", "/body/metadata/resourceVersion"),
        patch(
            "merge",
            p,
            MERGE,
            json!({"data": {"x": null, "z": "3"}, "metadata": {"labels": {"b": null}}}),
        ),
        patch("merge nothing", p, MERGE, json!({"data": {"z": "3"}}))
            .keep("merged", "/body/metadata/resourceVersion"),
        patch(
            "a merge that changes nothing makes no version",
            p,
            MERGE,
            json!({
                "metadata": {"resourceVersion": "$merged"}, "data": {"z": "3"},
            }),
        ),
        patch(
            "merge too late",
            p,
            MERGE,
            json!({"metadata": {"resourceVersion": "$patched"}, "data": {"z": "4"}}),
        ),
        patch(
            "merge into another uid",
            p,
            MERGE,
            json!({"metadata": {"uid": "$uid"}, "data": {"z": "4"}}),
        ),
        patch(
            "merge another name",
            p,
            MERGE,
            json!({"metadata": {"name": "other"}}),
        ),
        patch(
            "merge another namespace",
            p,
            MERGE,
            json!({"metadata": {"namespace": "other"}}),
        ),
        patch("merge another kind", p, MERGE, json!({"kind": "Secret"})),
        patch("merge what is no object", p, MERGE, json!([1])),
        patch(
            "merge a field of another type",
            p,
            MERGE,
            json!({"data": {"z": 1}}),
        ),
        patch(
            "merge an unknown field, strictly",
            &format!("{p}?fieldValidation=Strict"),
            MERGE,
            json!({"dat": {}}),
        ),
        patch(
            "merge what can't be",
            p,
            MERGE,
            json!({"metadata": {"labels": {"a b": "x"}}}),
        ),
        patch(
            "merge dry",
            &format!("{p}?dryRun=All"),
            MERGE,
            json!({"data": {"z": "dry"}}),
        ),
        patch(
            "merge what the server sets",
            p,
            MERGE,
            json!({"metadata": {"creationTimestamp": null, "generation": 9}}),
        ),
        patch(
            "merge into what is not there",
            &core("configmaps/none"),
            MERGE,
            json!({}),
        ),
        patch(
            "JSON patch",
            p,
            JSON_PATCH,
            json!([
                {"op": "test", "path": "/data/z", "value": "3"},
                {"op": "replace", "path": "/data/z", "value": "4"},
                {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "x"}},
                {"op": "copy", "from": "/data/z", "path": "/data/copied"},
            ]),
        ),
        patch(
            "JSON patch of a key with a slash",
            p,
            JSON_PATCH,
            json!([
                {"op": "remove", "path": "/metadata/annotations/example.com~1a"},
            ]),
        ),
        patch(
            "JSON patch whose test fails",
            p,
            JSON_PATCH,
            json!([{"op": "test", "path": "/data/z", "value": "9"}]),
        ),
        patch(
            "JSON patch of what is not there",
            p,
            JSON_PATCH,
            json!([{"op": "remove", "path": "/data/none"}]),
        ),
        patch(
            "JSON patch of nothing known",
            p,
            JSON_PATCH,
            json!([{"op": "jump", "path": "/data/z"}]),
        ),
        patch(
            "JSON patch that is none",
            p,
            JSON_PATCH,
            json!({"data": {}}),
        ),
        patch(
            "a patch of an unknown type",
            p,
            "application/json",
            json!({"data": {}}),
        ),
        patch(
            "strategic",
            p,
            STRATEGIC,
            json!({"metadata": {
                "finalizers": ["example.com/a"], "labels": {"$patch": "replace", "only": "this"},
            }}),
        ),
        patch(
            "strategic adds to finalizers",
            p,
            STRATEGIC,
            json!({"metadata": {"finalizers": ["example.com/b"]}}),
        ),
        patch(
            "strategic takes from finalizers",
            p,
            STRATEGIC,
            json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"],
            }}),
        ),
        patch(
            "strategic with what it can't do",
            p,
            STRATEGIC,
            json!({"metadata": {"$patch": "dance"}}),
        ),
    ];
    all.extend([
        patch("apply without a manager", applied, APPLY, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"},
        })),
        patch("apply makes", &format!("{applied}?fieldManager=one"), APPLY, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1", "b": "2"},
        })),
        patch("apply again without a field", &format!("{applied}?fieldManager=one"), APPLY, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"},
        })),
        patch("apply somebody else's field", &format!("{applied}?fieldManager=two"), APPLY, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "2"},
        })),
        patch("apply by force", &format!("{applied}?fieldManager=two&force=true"), APPLY, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "3"},
        })),
        patch("apply without a kind", &format!("{applied}?fieldManager=one"), APPLY, json!({
            "metadata": {"name": "applied"}, "data": {"a": "1"},
        })),
        get("what was applied", applied),
        delete("what was applied goes", applied),
    ]);
    all
}
