//! Objects are made, read and written anew.

use serde_json::{Value, json};

use crate::request::{Request, YAML, core, get, post, put};

fn map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": name, "tier": "front"}}, "data": data,
    })
}

pub fn all() -> Vec<Request> {
    let maps = &core("configmaps");
    let a = &core("configmaps/a");
    [making(maps), refused(maps), rewriting(a)].concat()
}

fn making(maps: &str) -> Vec<Request> {
    vec![
        post("make", maps, map("a", json!({"key": "1"})))
            .keep("uid", "/body/metadata/uid")
            .keep("first", "/body/metadata/resourceVersion"),
        post("make again", maps, map("a", json!({}))),
        post(
            "make without apiVersion and kind",
            maps,
            json!({"metadata": {"name": "b"}}),
        ),
        post(
            "make with another namespace",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "elsewhere"},
            }),
        ),
        post(
            "make with what the server sets",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": "given", "uid": "no-uid", "generation": 7, "selfLink": "/x",
                    "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 5,
                },
            }),
        ),
        post(
            "make with a version",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "versioned", "resourceVersion": "7"},
            }),
        ),
        post(
            "make with generateName",
            maps,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"},
            }),
        ),
        post(
            "make dry",
            &format!("{maps}?dryRun=All"),
            map("dry", json!({})),
        ),
        get("not there after a dry run", &format!("{maps}/dry")),
        post(
            "dry in a wrong way",
            &format!("{maps}?dryRun=Some"),
            map("dry", json!({})),
        ),
        post("make by YAML", maps, json!({})).body(
            YAML,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata:\n  a: '1'\n",
        ),
        get("read", &format!("{maps}/a")),
        get("read pretty", &format!("{maps}/a?pretty=true")),
        get("read what is not there", &format!("{maps}/none")),
        get(
            "read from a namespace that is not there",
            "/api/v1/namespaces/no-such/configmaps/a",
        ),
    ]
}

/// Dry, so that what one of the two takes is not in the way later.
fn refused(maps: &str) -> Vec<Request> {
    let maps = &format!("{maps}?dryRun=All");
    let strict = &format!("{maps}&fieldValidation=Strict");
    let unknown = || {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "u", "nme": "x"}, "dat": {},
        })
    };
    vec![
        post("unknown fields, strictly", strict, unknown()),
        post("unknown fields, with a warning", &format!("{maps}&fieldValidation=Warn"), unknown()),
        post("fields validated in an unknown way", &format!("{maps}&fieldValidation=Maybe"), unknown()),
        post("a field twice, strictly", strict, json!({})).body(
            "application/json",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u"},"data":{"a":"1"},"data":{"a":"2"}}"#,
        ),
        post("a field of another type", maps, map("t", json!({"key": 1}))),
        post("another kind", maps, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}})),
        post("another version", maps, json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}})),
        post("no name", maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})),
        post("no metadata", maps, json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        post("a bad name", maps, map("Not_A-Name", json!({}))),
        post("a bad key", maps, map("x", json!({"a/b": ""}))),
        post("a bad label", maps, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a b": "-"}},
        })),
        post("a bad owner", maps, json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]},
        })),
        post("two controllers", maps, json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true},
            ]},
        })),
        post("a bad finalizer", maps, json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "finalizers": ["not one"]},
        })),
        post("no JSON", maps, json!({})).body("application/json", "{\"metadata\""),
        post("no object", maps, json!([])),
        post("no body", maps, json!({})).body("application/json", ""),
        post("an unknown content type", maps, json!({})).body("text/plain", "x"),
        post("make in a namespace that is not there", "/api/v1/namespaces/no-such/configmaps", map("x", json!({}))),
        put("write what is not there", &core("configmaps/none"), map("none", json!({}))),
    ]
}

fn rewriting(a: &str) -> Vec<Request> {
    let with = |field: &str, value: Value| {
        let mut map = map("a", json!({"key": "2"}));
        if let Some(meta) = map.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            meta.insert(field.to_owned(), value);
        }
        map
    };
    vec![
        put("write", a, with("resourceVersion", json!("$first")))
            .keep("second", "/body/metadata/resourceVersion"),
        put(
            "write too late",
            a,
            with("resourceVersion", json!("$first")),
        ),
        put("write without a version", a, map("a", json!({"key": "3"}))),
        put(
            "write with no version's name",
            a,
            with("resourceVersion", json!("abc")),
        ),
        put(
            "write with another uid",
            a,
            with("uid", json!("11111111-1111-1111-1111-111111111111")),
        ),
        put("write another name", a, map("b", json!({}))),
        put(
            "write another namespace",
            a,
            with("namespace", json!("elsewhere")),
        ),
        put(
            "write dry",
            &format!("{a}?dryRun=All"),
            map("a", json!({"key": "dry"})),
        ),
        get("as before the dry run", a),
        put("write immutable", a, {
            let mut map = map("a", json!({"key": "4"}));
            json_merge(&mut map, json!({"immutable": true}));
            map
        }),
        put("change what is immutable", a, map("a", json!({"key": "5"}))),
        put(
            "a lease is made by writing",
            "/apis/coordination.k8s.io/v1/namespaces/$ns/leases/put?dryRun=All",
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "put"},
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
            }),
        ),
    ]
}

fn json_merge(value: &mut Value, with: Value) {
    if let (Some(fields), Value::Object(with)) = (value.as_object_mut(), with) {
        fields.extend(with);
    }
}
