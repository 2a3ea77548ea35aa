//! Where pods go that have neighbours or volumes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Given, affinity, asks, on};
use crate::control::scheduler::view::{ClaimView, VolumeView};

fn apart(app: &str, topology: &str) -> Value {
    let labels = json!({"matchLabels": {"app": app}});
    affinity(
        "podAntiAffinity",
        "required",
        json!([{"labelSelector": labels, "topologyKey": topology}]),
    )
}

fn together(app: &str, topology: &str) -> Value {
    let labels = json!({"matchLabels": {"app": app}});
    affinity(
        "podAffinity",
        "required",
        json!([{"labelSelector": labels, "topologyKey": topology}]),
    )
}

#[test]
fn pods_keep_together_and_apart() {
    let host = "kubernetes.io/hostname";
    let no_affinity = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    type Case<'a> = (&'a str, &'a [(&'static str, Value)], &'a str);
    let cases: [Case<'_>; 8] = [
        (
            "next to it",
            &[("a", on("n-1", json!({}))), ("b", together("a", host))],
            "n-1",
        ),
        (
            "with nobody to be next to",
            &[("b", together("a", host))],
            no_affinity,
        ),
        (
            "the first of its group",
            &[("a-0", together("a", host))],
            "n-0",
        ),
        (
            "the second of its group",
            &[("a-0", on("n-1", json!({}))), ("a-1", together("a", host))],
            "n-1",
        ),
        (
            "by a label that no node has",
            &[("a-0", together("a", "rack"))],
            no_affinity,
        ),
        (
            "apart",
            &[("a-0", on("n-0", json!({}))), ("a-1", apart("a", host))],
            "n-1",
        ),
        (
            "shunned",
            &[("a-0", on("n-0", apart("b", "zone"))), ("b", json!({}))],
            "n-1",
        ),
        (
            "no place left",
            &[
                ("a-0", on("n-0", apart("a", host))),
                ("a-1", on("n-1", json!({}))),
                ("a-2", apart("a", host)),
            ],
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: \
             0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
    ];
    for (case, pods, wanted) in cases {
        assert_eq!(Given::pods(pods).outcome(), wanted, "{case}");
    }
}

#[test]
fn namespaces_of_neighbours_are_chosen() {
    let labels = json!({"matchLabels": {"app": "a"}});
    let term = |more: Value| {
        let mut term = json!({"labelSelector": labels, "topologyKey": "zone"});
        json_merge(&mut term, &more);
        affinity("podAffinity", "required", json!([term]))
    };
    for (more, fits) in [
        (json!({}), true),
        (json!({"namespaces": ["other"]}), false),
        (json!({"namespaces": ["other", "default"]}), true),
        (json!({"namespaceSelector": {}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"t": "x"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"t": "y"}}}),
            false,
        ),
    ] {
        let given = Given::pods(&[("a", on("n-1", json!({}))), ("b", term(more.clone()))]);
        assert_eq!(given.outcome() == "n-1", fits, "{more}");
    }
}

fn json_merge(to: &mut Value, more: &Value) {
    for (field, value) in more.as_object().unwrap() {
        to[field] = value.clone();
    }
}

#[test]
fn wishes_come_before_room() {
    let zone_a = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let likes = affinity(
        "nodeAffinity",
        "preferred",
        json!([{"weight": 1, "preference": zone_a}]),
    );
    let labels = json!({"matchLabels": {"app": "a"}});
    let near = json!([{"weight": 1, "podAffinityTerm": {
        "labelSelector": labels, "topologyKey": "zone",
    }}]);
    let busy = ("a", on("n-0", asks(json!({"cpu": "2"}))));
    for (spec, wanted) in [
        (json!({}), "n-1"),
        (likes, "n-0"),
        (affinity("podAffinity", "preferred", near.clone()), "n-0"),
        (affinity("podAntiAffinity", "preferred", near), "n-1"),
    ] {
        assert_eq!(
            Given::pods(&[busy.clone(), ("b", spec.clone())]).outcome(),
            wanted,
            "{spec}"
        );
    }
}

#[test]
fn pods_follow_their_volumes() {
    let key = |name: &str| ("default".to_owned(), name.to_owned());
    let bound = |volume: Option<&str>, is_going| ClaimView {
        volume: volume.map(str::to_owned),
        is_going,
    };
    let volume = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    ]}}}});
    let volume = VolumeView::of(serde_json::from_value(volume).unwrap()).unwrap();
    for (claim, selector, wanted) in [
        ("there", json!({}), "n-1"),
        (
            "there",
            json!({"zone": "a"}),
            "1 node(s) had volume node affinity conflict",
        ),
        (
            "open",
            json!({}),
            "0/2 nodes are available: pod has unbound immediate",
        ),
        (
            "going",
            json!({}),
            "persistentvolumeclaim \"going\" is being deleted",
        ),
        (
            "missing",
            json!({}),
            "persistentvolumeclaim \"missing\" not found",
        ),
    ] {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
        let mut given =
            Given::pods(&[("p", json!({"volumes": volumes, "nodeSelector": selector}))]);
        given.claims = BTreeMap::from([
            (key("there"), bound(Some("local"), false)),
            (key("open"), bound(None, false)),
            (key("going"), bound(Some("local"), true)),
        ]);
        given.volumes = BTreeMap::from([((String::new(), "local".to_owned()), volume.clone())]);
        let outcome = given.outcome();
        assert!(outcome.contains(wanted), "{claim}: {outcome}");
    }
}
