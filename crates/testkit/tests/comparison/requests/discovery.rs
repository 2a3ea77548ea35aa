//! What the APIs say of themselves.

use crate::request::{Request, get, post};

pub fn all() -> Vec<Request> {
    vec![
        get("healthz", "/healthz"),
        get("livez", "/livez"),
        get("readyz", "/readyz"),
        get("version", "/version"),
        get("versions of the core", "/api"),
        get("kinds of the core", "/api/v1"),
        get("groups", "/apis"),
        get("a group", "/apis/apps"),
        get("a group of custom kinds", "/apis/batch.paddlepaddle.org"),
        get("kinds of apps", "/apis/apps/v1"),
        get("kinds of coordination", "/apis/coordination.k8s.io/v1"),
        get("kinds of storage", "/apis/storage.k8s.io/v1"),
        get("kinds of events", "/apis/events.k8s.io/v1"),
        get("kinds of definitions", "/apis/apiextensions.k8s.io/v1"),
        get("custom kinds", "/apis/batch.paddlepaddle.org/v1"),
        get(
            "custom kinds of another version",
            "/apis/batch.paddlepaddle.org/v1alpha1",
        ),
        get("no such group", "/apis/no.example.com/v1"),
        get("no such version", "/apis/apps/v9"),
        get("no such kind", "/api/v1/namespaces/default/nothings"),
        get("no such path", "/nothing/at/all"),
        get(
            "no such part",
            "/api/v1/namespaces/default/configmaps/a/status",
        ),
        post(
            "a kind that belongs to namespaces, made without one",
            "/api/v1/configmaps",
            serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            }),
        ),
    ]
}
