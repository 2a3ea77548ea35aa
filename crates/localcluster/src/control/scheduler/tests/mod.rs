//! Where pods go, as a table.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod neighbours;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::place::{Outcome, World};
use super::view::{ClaimView, Labels, NodeView, PodView, VolumeView};
use crate::control::mirror::Key;

/// Two nodes in two zones, with 4 CPUs, 8 GiB and 3 pods each.
fn nodes(changes: &[(&str, Value)]) -> BTreeMap<Key, NodeView> {
    let node = |(name, zone): (&str, &str)| {
        let mut node = json!({
            "metadata": {"labels": {"zone": zone, "kubernetes.io/hostname": name, "size": "4"}},
            "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3"}},
        });
        for (_, change) in changes.iter().filter(|(changed, _)| *changed == name) {
            for (path, value) in change.as_object().unwrap() {
                let (parent, field) = path.rsplit_once('/').unwrap();
                node.pointer_mut(parent).unwrap()[field] = value.clone();
            }
        }
        let node = NodeView::of(serde_json::from_value(node).unwrap()).unwrap();
        ((String::new(), name.to_owned()), node)
    };
    [("n-0", "a"), ("n-1", "b")].into_iter().map(node).collect()
}

/// A pod of the default namespace; its order is that of creation.
fn pod(order: usize, name: &str, spec: Value) -> (Key, PodView) {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([]);
    }
    let pod = json!({
        "metadata": {
            "uid": name,
            "labels": {"app": name.split('-').next()},
            "creationTimestamp": format!("2026-01-01T00:00:{order:02}Z"),
        },
        "spec": spec,
    });
    let view = PodView::of(serde_json::from_value(pod).unwrap()).unwrap();
    (("default".to_owned(), name.to_owned()), view)
}

struct Given {
    nodes: BTreeMap<Key, NodeView>,
    pods: Vec<(&'static str, Value)>,
    claims: BTreeMap<Key, ClaimView>,
    volumes: BTreeMap<Key, VolumeView>,
}

impl Given {
    fn pods(pods: &[(&'static str, Value)]) -> Given {
        Given {
            nodes: nodes(&[]),
            pods: pods.to_vec(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
        }
    }

    fn on(self, nodes: BTreeMap<Key, NodeView>) -> Given {
        Given { nodes, ..self }
    }

    /// Node or message of each pod that waited, in the order of the decisions.
    fn placed(&self) -> Vec<(String, String)> {
        let pods = self.pods.iter().enumerate();
        let pods = pods
            .map(|(order, (name, spec))| pod(order, name, spec.clone()))
            .collect();
        let namespace = (String::new(), "default".to_owned());
        let namespaces = BTreeMap::from([(namespace, Labels::from([("t".into(), "x".into())]))]);
        let mut world = World::new(&self.nodes, &self.claims, &self.volumes, &namespaces);
        let placements = world.schedule(&pods, &BTreeMap::new());
        let told = placements.into_iter().map(|placement| {
            let outcome = match placement.outcome {
                Outcome::Fits(node) => node,
                Outcome::Waits { message, .. } => message,
            };
            (placement.pod.1, outcome)
        });
        told.collect()
    }

    /// The outcome of the only pod that waited.
    fn outcome(&self) -> String {
        let [(_, outcome)] = &self.placed()[..] else {
            unreachable!("one pod waits")
        };
        outcome.clone()
    }
}

fn asks(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

fn on(node: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!(node);
    spec
}

fn affinity(kind: &str, key: &str, term: Value) -> Value {
    json!({"affinity": {kind: {format!("{key}DuringSchedulingIgnoredDuringExecution"): term}}})
}

#[test]
fn pods_go_where_they_must() {
    let zone = |operator: &str, values: Value| {
        let wanted = json!({"key": "zone", "operator": operator, "values": values});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [wanted]}]});
        affinity("nodeAffinity", "required", terms)
    };
    let by_name = json!({"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n-1"]}
    ]}]});
    let larger = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "size", "operator": "Gt", "values": ["4"]}
    ]}]});
    let both_refuse = "0/2 nodes are available: 2 node(s) didn't match Pod's node \
        affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for \
        scheduling.";
    for (spec, wanted) in [
        (json!({}), "n-0"),
        (json!({"nodeSelector": {"zone": "b"}}), "n-1"),
        (json!({"nodeSelector": {"zone": "c"}}), both_refuse),
        (zone("In", json!(["b", "c"])), "n-1"),
        (zone("NotIn", json!(["a"])), "n-1"),
        (zone("Exists", json!(null)), "n-0"),
        (zone("DoesNotExist", json!(null)), both_refuse),
        (affinity("nodeAffinity", "required", by_name), "n-1"),
        (affinity("nodeAffinity", "required", larger), both_refuse),
        (
            affinity(
                "nodeAffinity",
                "required",
                json!({"nodeSelectorTerms": [{}]}),
            ),
            both_refuse,
        ),
    ] {
        let outcome = Given::pods(&[("p", spec.clone())]).outcome();
        assert_eq!(outcome, wanted, "{spec}");
    }
}

#[test]
fn nodes_refuse_what_they_do_not_want() {
    let taint = |effect: &str| {
        json!({"/spec/taints": [
            {"key": "k", "value": "v", "effect": effect}
        ]})
    };
    let tolerates = |toleration: Value| json!({"tolerations": [toleration]});
    let unschedulable = json!({"/spec/unschedulable": true});
    let refused = |reason: &str| {
        format!(
            "0/2 nodes are available: 2 {reason}. preemption: 0/2 nodes are available: 2 Preemption \
         is not helpful for scheduling."
        )
    };
    let tainted = refused("node(s) had untolerated taint {k: v}");
    for (node, spec, wanted) in [
        (taint("NoSchedule"), json!({}), tainted.as_str()),
        (taint("NoExecute"), json!({}), &tainted),
        (taint("PreferNoSchedule"), json!({}), "n-0"),
        (
            taint("NoSchedule"),
            tolerates(json!({"operator": "Exists"})),
            "n-0",
        ),
        (
            taint("NoSchedule"),
            tolerates(json!({"key": "k", "value": "v"})),
            "n-0",
        ),
        (
            taint("NoSchedule"),
            tolerates(json!({"key": "k", "value": "w"})),
            &tainted,
        ),
        (
            taint("NoSchedule"),
            tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})),
            &tainted,
        ),
        (
            unschedulable.clone(),
            json!({}),
            &refused("node(s) were unschedulable"),
        ),
        (
            unschedulable,
            tolerates(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
            "n-0",
        ),
    ] {
        let nodes = nodes(&[("n-0", node.clone()), ("n-1", node.clone())]);
        let outcome = Given::pods(&[("p", spec.clone())]).on(nodes).outcome();
        assert_eq!(outcome, wanted, "{spec} on {node}");
    }
    let one = nodes(&[("n-0", taint("PreferNoSchedule"))]);
    assert_eq!(Given::pods(&[("p", json!({}))]).on(one).outcome(), "n-1");
}

#[test]
fn room_is_shared() {
    let full = asks(json!({"cpu": "3", "memory": "1Gi"}));
    let given = Given::pods(&[
        ("a", on("n-0", full.clone())),
        ("b", full.clone()),
        ("c", full.clone()),
        ("d", asks(json!({"nvidia.com/gpu": 1, "cpu": "1"}))),
    ]);
    let placed = given.placed();
    assert_eq!(placed[0].1, "n-1");
    assert_eq!(
        placed[1].1,
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No \
         preemption victims found for incoming pod."
    );
    assert_eq!(
        placed[2].1,
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are \
         available: 2 Preemption is not helpful for scheduling."
    );
}

#[test]
fn every_shortage_is_told() {
    let given = Given::pods(&[("p", asks(json!({"cpu": "5", "memory": "9Gi"})))])
        .on(nodes(&[("n-1", json!({"/spec/unschedulable": true}))]));
    assert_eq!(
        given.outcome(),
        "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) were \
         unschedulable. preemption: 0/2 nodes are available: 2 Preemption is not helpful for \
         scheduling."
    );
}

#[test]
fn pods_spread_and_no_node_takes_too_many() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let given = Given::pods(&names.map(|name| (name, json!({}))));
    let placed = given.placed();
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert_eq!(nodes[..6], ["n-0", "n-1", "n-0", "n-1", "n-0", "n-1"]);
    assert!(nodes[6].starts_with("0/2 nodes are available: 2 Too many pods. "));
}

#[test]
fn init_containers_and_sidecars_count() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let sidecar = json!({
        "name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}},
    });
    for (init, main, wanted) in [
        (json!([container("2")]), json!([container("1")]), 2_000),
        (
            json!([container("2")]),
            json!([container("1"), container("2")]),
            3_000,
        ),
        (
            json!([sidecar, container("3")]),
            json!([container("1")]),
            4_000,
        ),
        (
            json!([container("1"), sidecar]),
            json!([container("2")]),
            3_000,
        ),
    ] {
        let spec = json!({"initContainers": init, "containers": main});
        let (_, view) = pod(0, "p", spec.clone());
        assert_eq!(view.requests["cpu"], wanted, "{spec}");
    }
}

#[test]
fn important_pods_go_first_then_old_ones() {
    let given = Given::pods(&[
        ("a", json!({})),
        ("b", json!({})),
        ("c", json!({"priority": 10})),
    ]);
    let order: Vec<String> = given.placed().into_iter().map(|(name, _)| name).collect();
    assert_eq!(order, ["c", "a", "b"]);
}

#[test]
fn ports_of_a_node_are_taken_once() {
    let port = |address: Option<&str>, protocol: &str| {
        let port = json!({
            "containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": protocol,
        });
        json!({"nodeSelector": {"zone": "a"}, "containers": [{"name": "c", "ports": [port]}]})
    };
    for (other, fits) in [
        (port(None, "TCP"), false),
        (port(Some("10.0.0.1"), "TCP"), false),
        (port(None, "UDP"), true),
    ] {
        let given = Given::pods(&[("a", on("n-0", port(None, "TCP"))), ("b", other.clone())]);
        assert_eq!(given.outcome() == "n-0", fits, "{other}");
    }
}

/// Nodes are names on one machine: what is on its network is on the network of all.
#[test]
fn ports_of_the_machine_are_taken_once_for_all_nodes() {
    let pod = |host_network: bool, port: Value| json!({"hostNetwork": host_network, "containers": [{"name": "c", "ports": [port]}]});
    let host = |port: u16| pod(true, json!({"containerPort": port, "hostPort": port}));
    let full = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod \
        ports. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    for (other, outcome) in [
        (host(80), full),
        // Whoever writes nothing of the node's port takes it all the same.
        (pod(true, json!({"containerPort": 80})), full),
        (host(81), "n-1"),
        // Without the network of the machine, the port is only that node's.
        (
            pod(false, json!({"containerPort": 80, "hostPort": 80})),
            "n-1",
        ),
        (pod(false, json!({"containerPort": 80})), "n-1"),
    ] {
        let given = Given::pods(&[("a", on("n-0", host(80))), ("b", other.clone())]);
        assert_eq!(given.outcome(), outcome, "{other}");
    }
}

#[test]
fn some_are_not_placed() {
    let gated = json!({"schedulingGates": [{"name": "g"}]});
    let given = Given::pods(&[("a", gated), ("b", json!({"schedulerName": "volcano"}))]);
    assert_eq!(
        given.outcome(),
        "Scheduling is blocked due to non-empty scheduling gates"
    );
    let none = Given::pods(&[("p", json!({}))]).on(BTreeMap::new());
    assert_eq!(none.outcome(), "no nodes available to schedule pods");
}
