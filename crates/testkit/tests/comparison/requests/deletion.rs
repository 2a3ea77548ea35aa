//! Everything goes.

use serde_json::json;

use crate::request::{MERGE, Request, core, delete, get, job, patch, post};

pub fn all() -> Vec<Request> {
    let maps = &core("configmaps");
    let a = &core("configmaps/a");
    let held = &core("configmaps/held");
    let options = |preconditions: serde_json::Value| json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
    let mut all = vec![
        delete("delete another uid", a).json(options(json!({"uid": "11111111-1111-1111-1111-111111111111"}))),
        delete("delete an older version", a).json(options(json!({"resourceVersion": "$first"}))),
        delete("delete dry", &format!("{a}?dryRun=All")),
        delete("delete with an unknown policy", &format!("{a}?propagationPolicy=Sometimes")),
        delete("delete with both policies", a).json(json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "orphanDependents": true,
        })),
        delete("delete with options that are none", a).json(json!({"apiVersion": "v1", "kind": "Pod"})),
        delete("delete", a).json(options(json!({"uid": "$uid"}))),
        delete("delete again", a),
        post("make one that is held", maps, json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": ["example.com/mine"]},
        })),
        delete("delete one that is held", held),
        delete("delete one that is held again", held),
        get("it stays, and is to go", held),
        patch("one that is to go takes no new finalizers", held, MERGE, json!({
            "metadata": {"finalizers": ["example.com/mine", "example.com/other"]},
        })),
        post("its name is taken", maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}})),
        patch("the last finalizer goes", held, MERGE, json!({"metadata": {"finalizers": null}})),
        get("and it with it", held),
    ];
    all.extend(owned());
    all.extend([
        delete(
            "delete all with a label",
            &core("secrets?labelSelector=list%20in%20(a,b)"),
        ),
        get("what is left", &core("secrets?labelSelector=list")),
        delete("delete all namespaces", "/api/v1/namespaces"),
        delete(
            "a definition goes",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.$ns.example.com",
        ),
        get(
            "its path goes",
            "/apis/$ns.example.com/v1/namespaces/$ns/widgets",
        )
        .until(404, "/code", json!(404)),
        delete("a volume goes", "/api/v1/persistentvolumes/volume-of-$ns")
            .json(json!({"propagationPolicy": "Background"})),
        delete(
            "a class goes",
            "/apis/storage.k8s.io/v1/storageclasses/class-of-$ns",
        ),
        delete("a claim goes", &core("persistentvolumeclaims/claim")),
        get("it is gone too", &core("persistentvolumeclaims/claim")).until(
            404,
            "/code",
            json!(404),
        ),
        delete("a node goes", "/api/v1/nodes/node-of-$ns"),
        post(
            "hold the namespace",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "last", "finalizers": ["example.com/mine"]},
            }),
        ),
        delete("the namespace goes", "/api/v1/namespaces/$ns"),
        post(
            "nothing is made in it any more",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"},
            }),
        ),
        get("it says what it waits for", "/api/v1/namespaces/$ns").until(
            200,
            "/body/status/conditions/3/message",
            json!("Some resources are remaining: configmaps. has 1 resource instances"),
        ),
        get("the last one in it", &core("configmaps/last")),
        patch(
            "the last one may go",
            &core("configmaps/last"),
            MERGE,
            json!({"metadata": {"finalizers": null}}),
        ),
        get("the namespace is gone", "/api/v1/namespaces/$ns").until(404, "/code", json!(404)),
    ]);
    all
}

/// Those who own, and what becomes of what they own.
fn owned() -> Vec<Request> {
    let maps = &core("configmaps");
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let owned = |name: &str, owner: &str, uid: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
                "blockOwnerDeletion": true,
            }]},
        })
    };
    vec![
        post("an owner in the background", maps, owner("owner-b"))
            .keep("background", "/body/metadata/uid"),
        post(
            "owned in the background",
            maps,
            owned("owned-b", "owner-b", "$background"),
        ),
        delete(
            "delete in the background",
            &format!("{maps}/owner-b?propagationPolicy=Background"),
        ),
        get("what it owned goes too", &format!("{maps}/owned-b")).until(404, "/code", json!(404)),
        post("an owner of orphans", maps, owner("owner-o")).keep("orphans", "/body/metadata/uid"),
        post(
            "an orphan to be",
            maps,
            owned("owned-o", "owner-o", "$orphans"),
        ),
        delete(
            "delete and orphan",
            &format!("{maps}/owner-o?propagationPolicy=Orphan"),
        ),
        get("the owner of orphans is gone", &format!("{maps}/owner-o")).until(
            404,
            "/code",
            json!(404),
        ),
        get("the orphan stays", &format!("{maps}/owned-o")),
        post("an owner in the foreground", maps, owner("owner-f"))
            .keep("foreground", "/body/metadata/uid"),
        post("owned in the foreground", maps, {
            let mut owned = owned("owned-f", "owner-f", "$foreground");
            if let Some(meta) = owned
                .pointer_mut("/metadata")
                .and_then(|meta| meta.as_object_mut())
            {
                meta.insert("finalizers".to_owned(), json!(["example.com/mine"]));
            }
            owned
        }),
        delete(
            "delete in the foreground",
            &format!("{maps}/owner-f?propagationPolicy=Foreground"),
        ),
        get("what it owned goes first", &format!("{maps}/owned-f")).until(
            200,
            "/body/metadata/deletionGracePeriodSeconds",
            json!(0),
        ),
        get("while the owner waits", &format!("{maps}/owner-f")),
        patch(
            "what it owned may go",
            &format!("{maps}/owned-f"),
            MERGE,
            json!({"metadata": {"finalizers": null}}),
        ),
        get("then the owner goes", &format!("{maps}/owner-f")).until(404, "/code", json!(404)),
        delete("a job goes", &job("/job?propagationPolicy=Background")),
    ]
}
