//! What the API says of itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::served::{Kinds, Served};

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// What can be done with pods: name, kind of what is sent, and verbs.
const PARTS_OF_PODS: [(&str, &str, &[&str]); 5] = [
    ("attach", "PodAttachOptions", &["create", "get"]),
    ("binding", "Binding", &["create"]),
    ("eviction", "Eviction", &["create"]),
    ("exec", "PodExecOptions", &["create", "get"]),
    ("log", "Pod", &["get"]),
];
/// The Kubernetes whose behaviour this is.
const VERSION: (&str, &str) = ("1", "37");

/// What is at a path that is about the API itself.
pub fn find(kinds: &Kinds, path: &[&str]) -> Option<Response> {
    let json = |value: Value| Some(axum::Json(value).into_response());
    match path {
        ["healthz" | "livez" | "readyz"] => Some("ok".into_response()),
        ["version"] => json(json!({
            "major": VERSION.0,
            "minor": VERSION.1,
            "gitVersion": format!("v{}.{}.0+localkube", VERSION.0, VERSION.1),
            "platform": "linux/amd64",
        })),
        ["api"] => json(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => json(json!({
            "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(kinds),
        })),
        ["apis", name] => {
            let mut group = groups(kinds)
                .into_iter()
                .find(|group| group["name"] == **name)?;
            json_patch::merge(&mut group, &json!({"kind": "APIGroup", "apiVersion": "v1"}));
            json(group)
        }
        ["api", version] => json(resources(kinds, "", version)?),
        ["apis", group, version] => json(resources(kinds, group, version)?),
        ["openapi", "v3"] => json(open_api_paths(kinds)),
        ["openapi", "v3", "api", version] => json(open_api(kinds, "", version)?),
        ["openapi", "v3", "apis", group, version] => json(open_api(kinds, group, version)?),
        _ => None,
    }
}

fn groups(kinds: &Kinds) -> Vec<Value> {
    let mut versions: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    let kinds = kinds.iter().map(|served| &served.kind);
    for kind in kinds.filter(|kind| !kind.group.is_empty()) {
        versions
            .entry(&kind.group)
            .or_default()
            .insert(Reverse((maturity(&kind.version), &*kind.version)));
    }
    versions
        .into_iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|Reverse((_, version))| {
                    json!({"groupVersion": format!("{group}/{version}"), "version": version})
                })
                .collect();
            json!({
                "name": group, "versions": versions, "preferredVersion": versions.first(),
            })
        })
        .collect()
}

/// How much a version can be relied on: `v2` before `v1`, both before `v3beta1`, that
/// before `v3alpha1`, and all of them before what has another form.
fn maturity(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok();
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        if let Some(major) = number(rest) {
            return Some((3, major, 0));
        }
        [("beta", 2), ("alpha", 1)]
            .into_iter()
            .find_map(|(word, rank)| {
                let (major, minor) = rest.split_once(word)?;
                Some((rank, number(major)?, number(minor)?))
            })
    };
    parsed().unwrap_or_default()
}

fn of<'k>(
    kinds: &'k Kinds,
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'k Served> + use<'k> {
    let (group, version) = (group.to_owned(), version.to_owned());
    let kinds = kinds.iter().map(|served| &**served);
    kinds.filter(move |served| served.kind.group == group && served.kind.version == version)
}

/// What can be done with a kind, in the order of the real one.
fn verbs(served: &Served) -> Vec<&'static str> {
    let mut verbs = VERBS.to_vec();
    if served.schema.is_some() {
        verbs = CUSTOM_VERBS.to_vec();
    }
    // Not all namespaces at once by mistake.
    verbs.retain(|verb| *verb != "deletecollection" || served.kind.resource() != "namespaces");
    verbs
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut found = Vec::new();
    for served in of(kinds, group, version) {
        let kind = &served.kind;
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.is_namespaced,
            "kind": kind.kind,
            "verbs": verbs(served),
        });
        for (field, words) in [
            ("shortNames", &kind.short_names),
            ("categories", &kind.categories),
        ] {
            if !words.is_empty() {
                json_patch::merge(&mut resource, &json!({field: words}));
            }
        }
        found.push(resource);
        if kind.has_status {
            found.push(part(kind, "status", &kind.kind, None));
        }
        if kind.resource() == "namespaces" {
            let mut part = part(kind, "finalize", &kind.kind, None);
            json_patch::merge(&mut part, &json!({"verbs": ["update"]}));
            found.push(part);
        }
        if kind.resource() == "pods" {
            found.extend(PARTS_OF_PODS.map(|(name, shown_as, verbs)| {
                let group = (name == "eviction").then_some(("policy", "v1"));
                let mut part = part(kind, name, shown_as, group);
                json_patch::merge(&mut part, &json!({"verbs": verbs}));
                part
            }));
        }
        if served.scale.is_some() {
            found.push(part(kind, "scale", "Scale", Some(("autoscaling", "v1"))));
        }
    }
    let version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    (!found.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": version, "resources": found,
        })
    })
}

fn part(kind: &Kind, name: &str, shown_as: &str, group: Option<(&str, &str)>) -> Value {
    let mut part = json!({
        "name": format!("{}/{name}", kind.plural),
        "singularName": "",
        "namespaced": kind.is_namespaced,
        "kind": shown_as,
        "verbs": ["get", "patch", "update"],
    });
    if let Some((group, version)) = group {
        json_patch::merge(&mut part, &json!({"group": group, "version": version}));
    }
    part
}

fn root(kind: &Kind) -> String {
    match kind.group.as_str() {
        "" => format!("api/{}", kind.version),
        group => format!("apis/{group}/{}", kind.version),
    }
}

fn open_api_paths(kinds: &Kinds) -> Value {
    let roots: BTreeSet<String> = kinds.iter().map(|served| root(&served.kind)).collect();
    let paths = roots.into_iter().map(|root| {
        let url = format!("/openapi/v3/{root}");
        (root, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<serde_json::Map<_, _>>()})
}

/// As much as `kubectl apply` and `kubectl explain` ask for: what the kinds look
/// like, and that unknown fields are looked for here.
fn open_api(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (serde_json::Map::new(), serde_json::Map::new());
    for served in of(kinds, group, version) {
        let kind = &served.kind;
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let namespace = if kind.is_namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        let path = format!("/{}/{namespace}{}/{{name}}", root(kind), kind.plural);
        let parameter = json!({
            "name": "fieldValidation", "in": "query", "schema": {"type": "string"},
        });
        let operation = json!({
            "parameters": [parameter], "x-kubernetes-group-version-kind": gvk,
        });
        let get = json!({"x-kubernetes-group-version-kind": gvk, "x-kubernetes-action": "get"});
        paths.insert(
            path,
            json!({"get": get, "patch": operation, "put": operation}),
        );
        let schema = served
            .schema
            .as_ref()
            .map(|schema| schema.as_json().clone());
        let mut schema = schema.unwrap_or_else(|| json!({"type": "object"}));
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([gvk]));
        }
        let reversed: Vec<&str> = kind.group.rsplit('.').filter(|s| !s.is_empty()).collect();
        let name = format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind);
        schemas.insert(name, schema);
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": {"title": "localkube", "version": VERSION.1},
            "paths": paths,
            "components": {"schemas": schemas},
        })
    })
}
