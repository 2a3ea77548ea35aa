//! The API as clients see it: a kube client without a socket.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod support;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use support::File;

struct Fixture {
    client: Client,
    _file: File,
}

async fn fixture(name: &str) -> Fixture {
    let file = File::new(&format!("http-{name}"));
    let api = localkube::Api::open(&file.0).await.unwrap();
    let client = Client::new(
        localkube::http::router(api, axum::Router::new()).into_service(),
        "default",
    );
    Fixture {
        client,
        _file: file,
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}}, "data": {"key": value},
    }))
    .unwrap()
}

#[tokio::test]
async fn objects_come_change_and_go() {
    let fixture = fixture("life").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let made = maps
        .create(&PostParams::default(), &map("a", "1"))
        .await
        .unwrap();
    assert!(made.uid().is_some());
    let patch = Patch::Merge(json!({"data": {"key": "2"}}));
    let patched = maps
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_ne!(patched.resource_version(), made.resource_version());
    let stale = maps
        .replace("a", &PostParams::default(), &made)
        .await
        .unwrap_err();
    let kube::Error::Api(stale) = stale else {
        panic!("{stale}")
    };
    assert_eq!((stale.code, &*stale.reason), (409, "Conflict"));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn lists_have_pages() {
    let fixture = fixture("pages").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    for name in ["a", "b", "c", "d", "e"] {
        maps.create(&PostParams::default(), &map(name, ""))
            .await
            .unwrap();
    }
    let (mut names, mut params) = (Vec::new(), ListParams::default().limit(2));
    loop {
        let page = maps.list(&params).await.unwrap();
        assert!(page.items.len() <= 2);
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let chosen = ListParams::default()
        .labels("app notin (a,b)")
        .fields("metadata.name!=c");
    let chosen = maps.list(&chosen).await.unwrap();
    assert_eq!(chosen.items.len(), 2);
}

#[tokio::test]
async fn a_watcher_sees_what_was_and_what_comes() {
    let fixture = fixture("watcher").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    maps.create(&PostParams::default(), &map("a", "1"))
        .await
        .unwrap();
    let config = watcher::Config::default();
    let mut seen = watcher(maps.clone(), config).applied_objects().boxed();
    assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "a");
    maps.create(&PostParams::default(), &map("b", "1"))
        .await
        .unwrap();
    assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "b");
}

#[tokio::test]
async fn a_watch_replays_and_ends_in_time() {
    let fixture = fixture("replay").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let first = maps
        .create(&PostParams::default(), &map("a", "1"))
        .await
        .unwrap();
    for value in ["2", "3"] {
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        maps.patch("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().timeout(1);
    let events = maps
        .watch(&params, &first.resource_version().unwrap())
        .await
        .unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["modified", "modified", "deleted"]);
    // One that was never made.
    let future = maps.watch(&params, "999999").await;
    assert!(future.is_err());
}

#[tokio::test]
async fn pods_are_filled_in() {
    let fixture = fixture("pods").await;
    let pods: Api<Pod> = Api::default_namespaced(fixture.client.clone());
    let pod = serde_json::from_value(json!({
        "metadata": {"generateName": "a-"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }));
    let pod = pods
        .create(&PostParams::default(), &pod.unwrap())
        .await
        .unwrap();
    assert!(pod.name_any().starts_with("a-") && pod.name_any().len() == 7);
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    let change = Patch::Strategic(json!({
        "spec": {"containers": [{"name": "c", "image": "y"}]},
    }));
    let name = pod.metadata.name.unwrap();
    let pod = pods
        .patch(&name, &PatchParams::default(), &change)
        .await
        .unwrap();
    let containers = pod.spec.unwrap().containers;
    assert_eq!(containers.len(), 1);
    assert_eq!(containers.first().unwrap().image.as_deref(), Some("y"));
}

async fn make_pod(fixture: &Fixture, name: &str) -> Api<Pod> {
    let pods: Api<Pod> = Api::default_namespaced(fixture.client.clone());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }));
    pods.create(&PostParams::default(), &pod.unwrap())
        .await
        .unwrap();
    pods
}

/// Posts to a part of a pod; the code and the message of the answer.
async fn post(fixture: &Fixture, path: &str, body: serde_json::Value) -> (u16, String) {
    let path = format!("/api/v1/namespaces/default/pods/{path}");
    let request = http::Request::post(path).body(body.to_string().into_bytes());
    match fixture.client.request_text(request.unwrap()).await {
        Ok(_) => (201, String::new()),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let fixture = fixture("binding").await;
    let pods = make_pod(&fixture, "a").await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(&fixture, "a/binding", binding.clone()).await.0, 201);
    let pod = pods.get("a").await.unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n"));
    let condition = pod.status.unwrap().conditions.unwrap().remove(0);
    assert_eq!(
        (&*condition.type_, &*condition.status),
        ("PodScheduled", "True")
    );
    assert_eq!(
        post(&fixture, "a/binding", binding.clone()).await,
        (
            409,
            "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""
                .to_owned()
        )
    );
    assert_eq!(post(&fixture, "b/binding", binding.clone()).await.0, 400);
    let other = json!({"metadata": {"name": "b"}, "target": {"name": "n"}});
    assert_eq!(post(&fixture, "b/binding", other).await.0, 404);
    assert_eq!(
        post(
            &fixture,
            "a/binding",
            json!({"metadata": {"name": "a"}, "target": {}})
        )
        .await
        .0,
        400
    );
}

#[tokio::test]
async fn an_evicted_pod_goes_in_its_time_and_says_why() {
    let fixture = fixture("eviction").await;
    let pods = make_pod(&fixture, "a").await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"name": "n"}});
    assert_eq!(post(&fixture, "a/binding", binding).await.0, 201);
    let other =
        json!({"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "x"}}});
    assert_eq!(post(&fixture, "a/eviction", other).await.0, 409);
    let eviction = json!({"metadata": {"name": "a"}});
    assert_eq!(post(&fixture, "a/eviction", eviction.clone()).await.0, 201);
    let pod = pods.get("a").await.unwrap();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
    let conditions = pod.status.unwrap().conditions.unwrap();
    let reasons: Vec<_> = conditions
        .iter()
        .filter_map(|c| c.reason.as_deref())
        .collect();
    assert_eq!(reasons, ["EvictionByEvictionAPI"]);
    let at_once = json!({"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    assert_eq!(post(&fixture, "a/eviction", at_once).await.0, 201);
    assert_eq!(post(&fixture, "a/eviction", eviction).await.0, 404);
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let fixture = fixture("paths").await;
    for (path, wanted) in [
        ("/api/v1/namespaces/default/configmaps/..", 400),
        ("/api/v1/namespaces/default/configmaps/%2e%2e", 400),
        ("/api/v1/namespaces/default/configmaps/a%00", 400),
        ("/api/v1/namespaces/default/configmaps/a%2Fb", 400),
        ("/api/v1/namespaces/default/nothing/a", 404),
        ("/api/v1/configmaps/a", 404),
        ("/api/v1/namespaces/default/namespaces/a", 404),
        ("/nothing", 404),
        ("/api/v1/namespaces/default/configmaps?limit=x", 400),
        ("/api/v1/namespaces/default/configmaps?continue=!", 400),
        (
            "/api/v1/namespaces/default/configmaps?labelSelector=a%20b",
            400,
        ),
    ] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let refused = fixture.client.request_text(request).await.unwrap_err();
        let kube::Error::Api(status) = &refused else {
            panic!("{path}: {refused}")
        };
        assert_eq!(status.code, wanted, "{path}: {}", status.message);
    }
}

#[tokio::test]
async fn namespaces_are_there() {
    let fixture = fixture("namespaces").await;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    let found = namespaces.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["default", "kube-system"]);
    let active = namespaces.get("default").await.unwrap().status.unwrap();
    assert_eq!(active.phase.as_deref(), Some("Active"));
}

#[tokio::test]
async fn an_event_is_one_in_both_its_forms() {
    use k8s_openapi::api::{core, events};
    let fixture = fixture("events").await;
    let old: Api<core::v1::Event> = Api::default_namespaced(fixture.client.clone());
    let new: Api<events::v1::Event> = Api::default_namespaced(fixture.client.clone());
    let event = json!({
        "metadata": {"name": "x"}, "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "note": "n", "reason": "R", "action": "A", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.500000Z",
        "reportingController": "example.com/c", "reportingInstance": "i",
    });
    let event = serde_json::from_value(event).unwrap();
    let mut seen = old
        .watch(&WatchParams::default().timeout(10), "0")
        .await
        .unwrap()
        .boxed();
    new.create(&PostParams::default(), &event).await.unwrap();
    let Some(WatchEvent::Added(seen)) = seen.try_next().await.unwrap() else {
        panic!("no event was seen")
    };
    assert_eq!(seen.message.as_deref(), Some("n"));
    assert_eq!(seen.involved_object.name.as_deref(), Some("a"));
    let about = ListParams::default().fields("involvedObject.name=a");
    assert_eq!(old.list(&about).await.unwrap().items.len(), 1);
    let about = ListParams::default().fields("regarding.name=a");
    let found = new.list(&about).await.unwrap().items;
    assert_eq!(found.first().unwrap().note.as_deref(), Some("n"));
    let again = Patch::Merge(json!({
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
    }));
    let params = PatchParams::default();
    new.patch("x", &params, &again).await.unwrap();
    let series = old.get("x").await.unwrap().series.unwrap();
    assert_eq!(series.count, Some(2));
    new.delete("x", &DeleteParams::default()).await.unwrap();
    assert!(old.get_opt("x").await.unwrap().is_none());
}

#[tokio::test]
async fn a_namespace_goes_when_nobody_holds_it() {
    let fixture = fixture("finalize").await;
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    let new = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let params = PostParams::default();
    namespaces.create(&params, &new).await.unwrap();
    let deletion = DeleteParams::default();
    let going = namespaces
        .delete("n", &deletion)
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(going.status.unwrap().phase.as_deref(), Some("Terminating"));
    let maps: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), "n");
    let refused = maps.create(&params, &map("a", "1")).await.unwrap_err();
    assert!(
        refused.to_string().contains("is being terminated"),
        "{refused}"
    );
    // Whoever writes the namespace itself does not free it.
    let patch = Patch::Merge(json!({"spec": {"finalizers": []}}));
    namespaces
        .patch("n", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let mut held = namespaces.get("n").await.unwrap();
    held.spec.as_mut().unwrap().finalizers = None;
    namespaces
        .replace_subresource("finalize", "n", &params, &held)
        .await
        .unwrap();
    assert!(namespaces.get_opt("n").await.unwrap().is_none());
    let kept = namespaces.delete("default", &deletion).await.unwrap_err();
    assert!(kept.to_string().contains("may not be deleted"), "{kept}");
}

/// What somebody leaves out, and we fill in, is no change.
#[tokio::test]
async fn writing_the_same_again_changes_nothing() {
    let fixture = fixture("same").await;
    let pods = make_pod(&fixture, "a").await;
    let before = pods.get("a").await.unwrap();
    let same = serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]},
    }));
    let after = pods
        .replace("a", &PostParams::default(), &same.unwrap())
        .await
        .unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(after.metadata.generation, Some(1));
}

#[tokio::test]
async fn applying_makes_and_merges() {
    let fixture = fixture("apply").await;
    let pods: Api<Pod> = Api::default_namespaced(fixture.client.clone());
    let wanted = |extra: serde_json::Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        });
        json_patch::merge(&mut pod, &extra);
        pod
    };
    let params = PatchParams::apply("test");
    let first = Patch::Apply(wanted(json!({})));
    let made = pods.patch("a", &params, &first).await.unwrap();
    assert!(made.uid().is_some());
    let same = pods.patch("a", &params, &first).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
    let more = Patch::Apply(wanted(json!({
        "metadata": {"labels": {"x": null, "y": "2"}},
        "spec": {"containers": [{"name": "c", "image": "y"}]},
    })));
    let after = pods.patch("a", &params, &more).await.unwrap();
    // What somebody else set stays.
    assert_eq!(after.labels().len(), 2);
    let image = after.spec.unwrap().containers.remove(0).image;
    assert_eq!(image.as_deref(), Some("y"));
    // One that is there has its name; what is made anew needs one.
    let nameless = Patch::Apply(wanted(json!({"metadata": {"name": null}})));
    let after = pods.patch("a", &params, &nameless).await.unwrap();
    assert_eq!(after.uid(), made.uid());
    let refused = pods.patch("b", &params, &nameless).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("undeterminable: name must be provided"),
        "{refused}"
    );
    let path = "/api/v1/namespaces/default/pods/a";
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(wanted(json!({})).to_string().into_bytes());
    let refused = fixture.client.request_text(request.unwrap()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("fieldManager: Required value"),
        "{refused}"
    );
}

#[tokio::test]
async fn bodies_may_be_yaml() {
    let fixture = fixture("yaml").await;
    let path = "/api/v1/namespaces/default/configmaps";
    let send = |type_: &'static str, body: &'static str| {
        let request = http::Request::post(path)
            .header("content-type", type_)
            .body(body.as_bytes().to_vec());
        fixture.client.request::<ConfigMap>(request.unwrap())
    };
    let made = send(
        "application/yaml",
        "metadata: {name: a}\ndata:\n  mode: \"0644\"\n",
    );
    let made = made.await.unwrap();
    assert_eq!(made.data.unwrap().get("mode").unwrap(), "0644");
    for (type_, body, wanted) in [
        ("application/yaml", "a: [b", 400),
        ("application/json", "{", 400),
        ("application/vnd.kubernetes.protobuf", "k8s", 415),
        ("text/plain", "{}", 415),
    ] {
        let Err(kube::Error::Api(status)) = send(type_, body).await else {
            panic!("{type_} {body} was taken")
        };
        assert_eq!(status.code, wanted, "{type_}");
    }
}

#[tokio::test]
async fn a_watch_may_begin_with_a_list() {
    let fixture = fixture("watchlist").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name, ""))
            .await
            .unwrap();
    }
    let params = WatchParams::default().initial_events().timeout(10);
    let mut events = maps.watch(&params, "").await.unwrap().boxed();
    for name in ["a", "b"] {
        let Some(WatchEvent::Added(map)) = events.try_next().await.unwrap() else {
            panic!("{name} is missing")
        };
        assert_eq!(map.name_any(), name);
    }
    let Some(WatchEvent::Bookmark(end)) = events.try_next().await.unwrap() else {
        panic!("no end of the list")
    };
    let mark = end.metadata.annotations.get("k8s.io/initial-events-end");
    assert_eq!(mark.map(String::as_str), Some("true"));
    let config = watcher::Config::default().streaming_lists();
    let mut seen = watcher(maps, config).applied_objects().boxed();
    assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "a");
}
