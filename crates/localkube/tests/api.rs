//! Objects of built-in kinds and of kinds that a definition brings.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod support;

use std::sync::Arc;

use localkube::object::{Deletion, Part};
use localkube::{Api, EventKind, Patch, Selection, Target, Unknown, Writing};
use serde_json::{Value, json};
use support::File;

/// An API whose file goes with the test.
struct Fixture {
    api: Api,
    _file: File,
}

impl Fixture {
    async fn new(name: &str) -> Fixture {
        let file = File::new(&format!("api-{name}"));
        let api = Api::open(&file.0).await.unwrap();
        Fixture { api, _file: file }
    }

    async fn with_widgets(name: &str) -> Fixture {
        let fixture = Fixture::new(name).await;
        let crds = fixture.target("apiextensions.k8s.io", "customresourcedefinitions", "", "");
        fixture.create(&crds, widgets()).await.unwrap();
        fixture
    }

    fn target(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Target {
        Target {
            served: self.api.kind(group, "v1", plural).unwrap(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn widget(&self, name: &str) -> Target {
        self.target("example.com", "widgets", "default", name)
    }

    async fn create(
        &self,
        target: &Target,
        body: Value,
    ) -> Result<Arc<Value>, localkube::status::Status> {
        self.api.create(target, body, Writing::default()).await
    }
}

fn widgets() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "default": "red"},
                },
            },
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string"}},
            },
        },
    });
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "labels": {"app": name}}, "spec": spec,
    })
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused() {
    let fixture = Fixture::new("names").await;
    let maps = fixture.target("", "configmaps", "default", "");
    let long = "a".repeat(254);
    for bad in ["", "A", "a..b", "-a", "a-", "a/b", "..", "a\0", &long] {
        let body = json!({"metadata": {"name": bad}});
        let refused = fixture.create(&maps, body).await.unwrap_err();
        assert_eq!(refused.code, 422, "{bad:?}");
        assert!(refused.message.contains("metadata.name: "), "{refused}");
    }
}

#[tokio::test]
async fn a_definition_brings_a_kind_and_takes_it_away() {
    let fixture = Fixture::with_widgets("kind").await;
    let made = fixture
        .create(
            &fixture.widget(""),
            widget("a", json!({"size": 1, "odd": 2})),
        )
        .await
        .unwrap();
    assert_eq!(made["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(made["metadata"]["generation"], 1);
    let crd = "widgets.example.com";
    let crd = fixture.target("apiextensions.k8s.io", "customresourcedefinitions", "", crd);
    let gone = fixture
        .api
        .delete(&crd, Deletion::default(), Writing::default());
    gone.await.unwrap();
    assert!(fixture.api.kind("example.com", "v1", "widgets").is_none());
}

#[tokio::test]
async fn what_can_not_be_is_refused_and_nothing_stored() {
    let fixture = Fixture::with_widgets("refused").await;
    let target = fixture.widget("");
    let before = fixture.api.revision();
    let bad = fixture
        .create(&target, widget("a", json!({"size": 0})))
        .await;
    assert_eq!(
        bad.unwrap_err().message,
        "Widget.example.com \"a\" is invalid: spec.size: Invalid value: 0: spec.size in body \
         should be greater than or equal to 1"
    );
    let strict = Writing {
        unknown: Unknown::Refused,
        ..Writing::default()
    };
    let odd = fixture
        .api
        .create(&target, widget("a", json!({"sise": 1})), strict);
    assert_eq!(
        odd.await.unwrap_err().message,
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown \
         field \"spec.sise\""
    );
    let elsewhere = Target {
        namespace: "nowhere".to_owned(),
        ..target.clone()
    };
    let body = widget("a", json!({}));
    let elsewhere = fixture.create(&elsewhere, body.clone()).await.unwrap_err();
    assert_eq!(elsewhere.message, "namespaces \"nowhere\" not found");
    let dry = Writing {
        is_dry: true,
        ..Writing::default()
    };
    let dry = fixture
        .api
        .create(&target, body.clone(), dry)
        .await
        .unwrap();
    assert_eq!(dry["metadata"]["name"], "a");
    assert_eq!(fixture.api.revision(), before);
    fixture.create(&target, body.clone()).await.unwrap();
    let twice = fixture.create(&target, body).await.unwrap_err();
    assert_eq!(twice.message, "widgets.example.com \"a\" already exists");
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let fixture = Fixture::with_widgets("status").await;
    let body = widget("a", json!({"size": 1}));
    fixture.create(&fixture.widget(""), body).await.unwrap();
    let target = fixture.widget("a");
    let change = json!({"spec": {"size": 2}, "status": {"phase": "Done"}});
    let write = |part, patch| fixture.api.patch(&target, part, patch, Writing::default());
    let main = write(Part::Main, Patch::Merge(change.clone()))
        .await
        .unwrap();
    assert_eq!(
        (&main["spec"]["size"], main.get("status")),
        (&json!(2), None)
    );
    assert_eq!(main["metadata"]["generation"], 2);
    let status = write(Part::Status, Patch::Merge(change)).await.unwrap();
    assert_eq!(status["status"], json!({"phase": "Done"}));
    assert_eq!(status["metadata"]["generation"], 2);
    let steps = json!([{"op": "replace", "path": "/spec/size", "value": 3}]);
    let third = write(Part::Main, Patch::Json(steps)).await.unwrap();
    assert_eq!(third["spec"]["size"], 3);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"size": 4}});
    let stale = write(Part::Main, Patch::Merge(stale)).await.unwrap_err();
    assert_eq!(stale.reason, "Conflict");
    // A patch may not make something that is no object, or another one.
    for steps in [
        json!([{"op": "replace", "path": "", "value": []}]),
        json!([{"op": "replace", "path": "/metadata/name", "value": "b"}]),
        json!([{"op": "replace", "path": "/kind", "value": "Node"}]),
    ] {
        let refused = write(Part::Main, Patch::Json(steps)).await.unwrap_err();
        assert_eq!(refused.code, 400, "{refused}");
    }
}

#[tokio::test]
async fn a_list_and_a_watch_show_what_is_selected() {
    let fixture = Fixture::with_widgets("select").await;
    let all = fixture.widget("");
    for name in ["a", "b", "c"] {
        fixture.create(&all, widget(name, json!({}))).await.unwrap();
    }
    let selection = Selection {
        labels: "app in (a,c)".parse().unwrap(),
        ..Selection::default()
    };
    let page = fixture.api.list(&all, &selection, None, 1);
    assert_eq!(
        (&page.objects[0]["metadata"]["name"], page.rest),
        (&json!("a"), 1)
    );
    let page = fixture.api.list(&all, &selection, page.last.as_ref(), 1);
    assert_eq!(page.objects[0]["metadata"]["name"], "c");
    assert!(page.last.is_none());
    let mut watch = fixture.api.watch(&all, page.revision).unwrap();
    // It comes into the selection, changes there, leaves it, and is deleted.
    let target = fixture.widget("b");
    for app in ["a", "c", "z"] {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
        let patched = fixture
            .api
            .patch(&target, Part::Main, patch, Writing::default());
        patched.await.unwrap();
    }
    let gone = fixture
        .api
        .delete(&target, Deletion::default(), Writing::default());
    gone.await.unwrap();
    let mut seen = Vec::new();
    while watch.revision() < fixture.api.revision() {
        let events = watch.next().await.unwrap();
        let events = events.iter().filter_map(|event| selection.of_event(event));
        seen.extend(events.map(|(kind, _)| kind));
    }
    let wanted = [EventKind::Added, EventKind::Modified, EventKind::Deleted];
    assert_eq!(seen, wanted);
}
