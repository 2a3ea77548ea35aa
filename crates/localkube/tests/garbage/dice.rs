//! Makes garbage: requests that are nearly right, in every way that came to mind.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use serde_json::{Value, json};

/// A generator of numbers (splitmix64): the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

const WORDS: [&str; 44] = [
    "api",
    "apis",
    "v1",
    "namespaces",
    "default",
    "pods",
    "configmaps",
    "services",
    "events",
    "nodes",
    "statefulsets",
    "apps",
    "events.k8s.io",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
    "example.com",
    "widgets",
    "a",
    "b",
    "status",
    "scale",
    "log",
    "exec",
    "attach",
    "binding",
    "eviction",
    "finalize",
    "openapi",
    "v3",
    "version",
    "healthz",
    "..",
    "%2e%2e",
    "%00",
    "%ff%fe",
    "%2F",
    "a%20b",
    "A",
    "-",
    "%25",
    "é",
    "secrets",
    "leases",
    "",
];
const NAMES: [&str; 34] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "fieldValidation",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "gracePeriodSeconds",
    "propagationPolicy",
    "fieldManager",
    "force",
    "follow",
    "tailLines",
    "sinceTime",
    "sinceSeconds",
    "container",
    "command",
    "stdin",
    "tty",
    "includeObject",
    "pretty",
    "metadata",
    "spec",
    "containers",
    "name",
    "image",
    "finalizers",
    "labels",
    "annotations",
    "replicas",
    "$patch",
];
const TEXTS: [&str; 30] = [
    "",
    "true",
    "1",
    "-1",
    "0",
    "18446744073709551615",
    "9223372036854775807",
    "1e999",
    "x",
    "a=b",
    "a in (b,c)",
    "!a",
    "a notin (",
    "metadata.name=a",
    "All",
    "Strict",
    "Object",
    "2026-01-01T00:00:00Z",
    "-9999-01-01T00:00:00Z",
    "\u{0}",
    "..",
    "a/b",
    "é\u{202e}",
    "None",
    "W10",
    "bnVsbA",
    "ClusterIP",
    "Always",
    "1Gi",
    "-0.0000000001Ki",
];
const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "",
];

pub fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.pick(&TEXTS)),
        3 => json!(dice.pick(&[0, 1, -1, i64::MAX, i64::MIN, 80, 65_536])),
        4 => json!(dice.pick(&[0.5, -1e308, 1e308])),
        5 => json!(u64::MAX),
        6 | 7 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => (0..dice.below(5))
            .map(|_| {
                let name = if dice.below(4) == 0 {
                    &TEXTS[..]
                } else {
                    &NAMES[..]
                };
                (dice.pick(name).to_owned(), value(dice, depth - 1))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// Something that could be meant well, with a part of it spoilt.
fn spoilt(dice: &mut Dice) -> Value {
    let metadata = json!({"name": dice.pick(&["a", "b", "..", "A"]), "labels": {"x": "y"}});
    let container = json!({
        "name": "c", "image": "x", "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    let pod = json!({
        "containers": [container], "volumes": [{"name": "v"}], "tolerations": [{"operator": "Exists"}],
    });
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}},
            "x-kubernetes-validations": [{"rule": "self.size < 9"}]},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let mut object = match dice.below(7) {
        0 => json!({"metadata": metadata, "spec": pod}),
        1 => json!({"metadata": metadata, "data": {"k": "v"}}),
        2 => {
            json!({"metadata": metadata, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
        }
        3 => json!({"metadata": metadata, "spec": {"serviceName": "s", "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}),
        4 => json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size"}}}]}}),
        5 => json!({"metadata": metadata, "involvedObject": {"kind": "Pod"}, "reason": "R"}),
        _ => json!({"metadata": metadata, "spec": {"size": 1}, "target": {"name": "n"}}),
    };
    for _ in 0..dice.below(4) {
        spoil(dice, &mut object);
    }
    object
}

fn spoil(dice: &mut Dice, at: &mut Value) {
    if dice.below(5) == 0 {
        *at = value(dice, 3);
        return;
    }
    match at {
        Value::Object(map) if !map.is_empty() => {
            let index = dice.below(map.len());
            let (_, inner) = map.iter_mut().nth(index).unwrap();
            spoil(dice, inner);
        }
        Value::Array(items) if !items.is_empty() => {
            let index = dice.below(items.len());
            spoil(dice, &mut items[index]);
        }
        at => *at = value(dice, 2),
    }
}

fn json_patch(dice: &mut Dice) -> Value {
    let place = |dice: &mut Dice| -> String {
        let steps = (0..dice.below(5)).map(|_| format!("/{}", dice.pick(&NAMES)));
        steps.collect()
    };
    (0..dice.below(6))
        .map(|_| {
            json!({
                "op": dice.pick(&["add", "remove", "replace", "copy", "move", "test", "x"]),
                "path": place(dice), "from": place(dice), "value": value(dice, 2),
            })
        })
        .collect()
}

fn body(dice: &mut Dice) -> Vec<u8> {
    let deep = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(10_000), close.repeat(10_000))
    };
    match dice.below(16) {
        0 => Vec::new(),
        1 => dice.bytes(2000),
        2 => deep("[", "1", "]").into_bytes(),
        3 => deep(r#"{"a":"#, "1", "}").into_bytes(),
        4 => deep("- ", "a", "").into_bytes(),
        5 => format!("{{\"spec\": {}}}", "9".repeat(dice.below(5000))).into_bytes(),
        6 => b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n".to_vec(),
        7 | 8 => json_patch(dice).to_string().into_bytes(),
        9 => {
            let mut text = spoilt(dice).to_string().into_bytes();
            let at = dice.below(text.len());
            text[at] = dice.next().to_le_bytes()[0];
            text
        }
        10 => value(dice, 4).to_string().into_bytes(),
        _ => spoilt(dice).to_string().into_bytes(),
    }
}

fn path(dice: &mut Dice) -> String {
    let known = [
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/services/a",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events/a",
        "/apis/apps/v1/namespaces/default/statefulsets",
        "/apis/apps/v1/namespaces/default/statefulsets/a",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        "/apis/example.com/v1/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/widgets/a",
        "/api/v1/nodes",
        "/api/v1/namespaces",
    ];
    let mut path = match dice.below(4) {
        0 => String::new(),
        _ => dice.pick(&known).to_owned(),
    };
    for _ in 0..dice.below(if path.is_empty() { 9 } else { 2 }) {
        path.push('/');
        path.push_str(dice.pick(&WORDS));
    }
    path.push_str(if path.is_empty() { "/?" } else { "?" });
    for _ in 0..dice.below(4) {
        let text = percent_encoding::utf8_percent_encode(
            dice.pick(&TEXTS),
            percent_encoding::NON_ALPHANUMERIC,
        );
        path.push_str(&format!("{}={text}&", dice.pick(&NAMES)));
    }
    path
}

pub fn request(dice: &mut Dice) -> Option<Request<Body>> {
    let methods = [
        Method::GET,
        Method::POST,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    // Some paths are none, and never come as far as to us.
    let uri: axum::http::Uri = path(dice).parse().ok()?;
    let mut request = Request::builder().method(dice.pick(&methods)).uri(uri);
    if let Ok(accept) = HeaderValue::from_bytes(&dice.bytes(20)) {
        request = request.header("accept", accept);
    }
    if dice.below(3) == 0 {
        request = request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    }
    request = request.header("content-type", dice.pick(&TYPES));
    request.body(Body::from(body(dice))).ok()
}
