//! The life of an object.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

use jiff::Timestamp;
use localkube::Change;
use localkube::kind::{Kind, built_in};
use localkube::object::{Deletion, Part, checked, create, delete, update};
use serde_json::{Value, json};

fn kind(name: &str) -> Kind {
    built_in()
        .into_iter()
        .find(|kind| kind.kind == name)
        .unwrap()
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

fn pod(extra: Value) -> Value {
    let body = json!({"metadata": {"name": "a"}, "spec": {"containers": []}});
    let body = checked(&kind("Pod"), "n", body).unwrap();
    let mut pod = create(&kind("Pod"), body, "u", "", now()).unwrap();
    json_patch::merge(&mut pod, &json!({"metadata": {"resourceVersion": "5"}}));
    json_patch::merge(&mut pod, &extra);
    pod
}

fn put(change: Change) -> Value {
    match change {
        Change::Put(object) => object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_object_has_what_the_server_gives() {
    let pod = pod(json!({}));
    assert_eq!(pod["apiVersion"], "v1");
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "a", "namespace": "n", "uid": "u", "generation": 1,
            "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "5",
        })
    );
    let forged = json!({
        "metadata": {"generateName": "a-", "uid": "x", "generation": 7},
        "status": {"phase": "Running"},
    });
    let made = create(&kind("Pod"), forged, "u", "12345", now()).unwrap();
    assert_eq!(made["metadata"]["name"], "a-12345");
    assert_eq!(made["metadata"]["uid"], "u");
    assert_eq!(made.get("status"), None);
}

#[test]
fn what_can_not_be_is_refused() {
    let pods = kind("Pod");
    let refused = |body: Value| checked(&pods, "n", body).unwrap_err().code;
    assert_eq!(refused(json!([])), 400);
    assert_eq!(refused(json!({"kind": "Node"})), 400);
    assert_eq!(refused(json!({"apiVersion": 1})), 400);
    assert_eq!(refused(json!({"metadata": 1})), 400);
    assert_eq!(refused(json!({"metadata": {"namespace": "other"}})), 400);
    assert_eq!(refused(json!({"metadata": {"labels": {"a": 1}}})), 400);
}

#[test]
fn an_update_changes_the_spec_or_the_status() {
    let (pods, old) = (kind("Pod"), pod(json!({"status": {"phase": "Pending"}})));
    let mut new = old.clone();
    new["spec"]["x"] = 1.into();
    new["status"]["phase"] = "Running".into();
    new["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z".into();
    let main = put(update(&pods, &old, new.clone(), Part::Main).unwrap());
    assert_eq!(main["spec"]["x"], 1);
    assert_eq!(main["status"]["phase"], "Pending");
    assert_eq!(main["metadata"]["generation"], 2);
    assert_eq!(
        main["metadata"]["creationTimestamp"],
        old["metadata"]["creationTimestamp"]
    );
    let status = put(update(&pods, &old, new, Part::Status).unwrap());
    assert_eq!(status["spec"].get("x"), None);
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["metadata"], old["metadata"]);
    // Of what is put there the status alone is taken.
    let alone = json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}});
    assert_eq!(
        put(update(&pods, &old, alone, Part::Status).unwrap()),
        status
    );
    assert!(matches!(
        update(&pods, &old, old.clone(), Part::Main),
        Ok(Change::Keep)
    ));
}

#[test]
fn another_version_or_uid_is_a_conflict() {
    let (pods, old) = (kind("Pod"), pod(json!({})));
    for meta in [json!({"resourceVersion": "4"}), json!({"uid": "v"})] {
        let mut new = old.clone();
        json_patch::merge(&mut new, &json!({"metadata": meta}));
        let refused = update(&pods, &old, new, Part::Main).unwrap_err();
        assert_eq!((refused.code, refused.reason), (409, "Conflict"));
    }
    let deletion = Deletion {
        uid: Some("v".to_owned()),
        ..Deletion::default()
    };
    assert_eq!(delete(&pods, &old, &deletion, now()).unwrap_err().code, 409);
}

#[test]
fn a_pod_on_a_node_gets_time_to_end() {
    let pods = kind("Pod");
    let unscheduled = pod(json!({}));
    let gone = delete(&pods, &unscheduled, &Deletion::default(), now()).unwrap();
    assert!(matches!(gone, Change::Delete(_)));
    let old = pod(json!({"spec": {"nodeName": "x", "terminationGracePeriodSeconds": 10}}));
    let going = put(delete(&pods, &old, &Deletion::default(), now()).unwrap());
    assert_eq!(
        going["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:15Z"
    );
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 10);
    // Again is the same; sooner is sooner.
    let again = delete(&pods, &going, &Deletion::default(), now()).unwrap();
    assert!(matches!(again, Change::Keep), "{again:?}");
    let sooner = Deletion {
        grace: Some(0),
        ..Deletion::default()
    };
    let gone = delete(&pods, &going, &sooner, now()).unwrap();
    assert!(matches!(gone, Change::Delete(_)), "{gone:?}");
}

#[test]
fn finalizers_hold_an_object() {
    let maps = kind("ConfigMap");
    let body = json!({"metadata": {"name": "a", "finalizers": ["x"]}});
    let old = create(&maps, body, "u", "", now()).unwrap();
    let going = put(delete(&maps, &old, &Deletion::default(), now()).unwrap());
    let mut more = going.clone();
    more["metadata"]["finalizers"] = json!(["x", "y"]);
    let refused = update(&maps, &going, more, Part::Main).unwrap_err();
    assert!(refused.message.contains("no new finalizers"), "{refused}");
    let mut free = going.clone();
    free["metadata"]["finalizers"] = json!([]);
    let gone = update(&maps, &going, free, Part::Main).unwrap();
    assert!(matches!(gone, Change::Delete(_)));
}
