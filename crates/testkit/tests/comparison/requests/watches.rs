//! What has changed, and what changes.

use serde_json::json;

use crate::request::{MERGE, METADATA, Request, TABLE, core, delete, get, patch, post};

pub fn all() -> Vec<Request> {
    let maps = &core("configmaps");
    let watch = |name: &'static str, query: &str, lines: usize| {
        let only = "labelSelector=watched";
        get(name, &format!("{maps}?watch=true&{only}&{query}")).lines(lines)
    };
    let mut all = vec![
        post(
            "make one to watch",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "watched", "labels": {"watched": "yes"}}, "data": {"n": "1"},
            }),
        )
        .keep("made", "/body/metadata/resourceVersion"),
        patch(
            "change one that is watched",
            &format!("{maps}/watched"),
            MERGE,
            json!({"data": {"n": "2"}}),
        )
        .keep("changed", "/body/metadata/resourceVersion"),
        patch(
            "it is no longer meant",
            &format!("{maps}/watched"),
            MERGE,
            json!({
                "metadata": {"labels": {"watched": null}},
            }),
        ),
        patch(
            "it is meant again",
            &format!("{maps}/watched"),
            MERGE,
            json!({
                "metadata": {"labels": {"watched": "again"}},
            }),
        ),
        delete("it goes", &format!("{maps}/watched")),
        post(
            "another comes",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "watched-too", "labels": {"watched": "yes"}},
            }),
        ),
    ];
    all.extend([
        watch("watch from a version", "resourceVersion=$made", 5),
        watch("watch from the next version", "resourceVersion=$changed", 4),
        watch("watch from anywhere", "resourceVersion=0", 1),
        watch("watch from nowhere", "", 1),
        watch(
            "watch with initial events",
            "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
            2,
        ),
        watch(
            "initial events without what they need",
            "sendInitialEvents=true",
            1,
        ),
        watch("watch a table", "resourceVersion=$made", 2).accept(TABLE),
        watch("watch metadata", "resourceVersion=$made", 1).accept(METADATA),
        get(
            "watch one",
            &format!("{maps}?watch=1&fieldSelector=metadata.name%3Dwatched&resourceVersion=$made"),
        )
        .lines(4),
        get(
            "watch one in the old way",
            "/api/v1/watch/namespaces/$ns/configmaps/watched-too?resourceVersion=0",
        )
        .lines(1),
        watch(
            "watch from a version that is none",
            "resourceVersion=abc",
            1,
        ),
        watch(
            "watch for no time",
            "resourceVersion=$made&timeoutSeconds=x",
            1,
        ),
        get(
            "watch with a limit",
            &format!("{maps}?watch=true&limit=1&labelSelector=watched&resourceVersion=$made"),
        )
        .lines(1),
        get(
            "a watch ends",
            &format!("{maps}?watch=true&labelSelector=none&resourceVersion=$made&timeoutSeconds=1"),
        )
        .lines(1),
    ]);
    all
}
