//! What follows from who owns whom, as a table.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::plan::{Act, Graph};
use crate::control::census::{Kind, Known};
use crate::control::mirror::Key;

fn kind(name: &str, is_namespaced: bool) -> Kind {
    Kind {
        group: "g".to_owned(),
        kind: name.to_owned(),
        plural: name.to_lowercase(),
        version: "v1".to_owned(),
        is_namespaced,
    }
}

/// An object in short: its name (also its uid), its finalizer if it is going,
/// and its owners; `!` means that one must wait for it, `Kind/` another kind.
type Short<'a> = (&'a str, Option<&'a str>, &'a [&'a str]);

fn known((name, going, owners): &Short<'_>) -> (Key, Known) {
    let owners = owners.iter().map(|owner| {
        let (owner, blocks) = match owner.strip_suffix('!') {
            Some(owner) => (owner, true),
            None => (*owner, false),
        };
        let (kind, name) = owner.split_once('/').unwrap_or(("Thing", owner));
        OwnerReference {
            api_version: "g/v1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            block_owner_deletion: Some(blocks),
            controller: None,
        }
    });
    let known = Known {
        uid: (*name).to_owned(),
        owners: owners.collect(),
        finalizers: going
            .iter()
            .map(|finalizer| (*finalizer).to_owned())
            .collect(),
        is_going: going.is_some(),
    };
    (("n".to_owned(), (*name).to_owned()), known)
}

/// What is done, in short. Of the doubted owners all but `new` are gone, and
/// `lost` went with its kind. A node names an owner in a namespace, which can't
/// be, and stays.
fn acts(objects: &[Short<'_>]) -> Vec<String> {
    let (things, nodes) = (kind("Thing", true), kind("Node", false));
    let objects: BTreeMap<Key, Known> = objects.iter().map(known).collect();
    let node = (
        (String::new(), "node".to_owned()),
        Known {
            uid: "node".to_owned(),
            owners: known(&("", None, &["z"])).1.owners,
            ..Known::default()
        },
    );
    let cluster = BTreeMap::from([node]);
    let graph = Graph::new([(&things, &objects), (&nodes, &cluster)].into_iter());
    let absent: HashSet<_> = { graph.doubted().into_iter() }
        .filter(|owner| owner.name != "new")
        .collect();
    let acts = graph.plan(&absent, &BTreeSet::from(["lost".to_owned()]));
    let acts = acts.into_iter().map(|act| match act {
        Act::Delete(object) => format!("delete {}", object.name),
        Act::DeleteAfterItsOwn(object) => format!("delete {} last", object.name),
        Act::Disown(object, owners) => format!("{} without {}", object.name, owners.join(" ")),
        Act::Unblock(object) => format!("unblock {}", object.name),
        Act::Release(object, finalizer) => format!("{} without {finalizer}", object.name),
    });
    acts.collect()
}

#[test]
fn owners_decide() {
    const FOREGROUND: Option<&str> = Some("foregroundDeletion");
    const ORPHAN: Option<&str> = Some("orphan");
    const HELD: Option<&str> = Some("held");
    let cases: [(&[Short<'_>], &[&str]); 17] = [
        (&[("a", None, &[])], &[]),
        (&[("a", None, &[]), ("b", None, &["a"])], &[]),
        (&[("b", None, &["gone"])], &["delete b"]),
        (&[("b", None, &["gone", "gone-too"])], &["delete b"]),
        (
            &[("a", None, &[]), ("b", None, &["a", "gone"])],
            &["b without gone"],
        ),
        // Not seen yet, but there.
        (&[("b", None, &["new"])], &[]),
        (&[("b", None, &["Node/node"])], &[]),
        // The uid is that of an object of another kind.
        (&[("a", None, &[]), ("b", None, &["Node/a"])], &["delete b"]),
        (&[("b", None, &["Unknown/x"])], &[]),
        (&[("b", None, &["Unknown/lost"])], &["delete b"]),
        (&[("b", HELD, &["gone"])], &[]),
        (&[("a", ORPHAN, &[]), ("b", None, &["a"])], &["b without a"]),
        (&[("c", ORPHAN, &[])], &["c without orphan"]),
        (
            &[("c", FOREGROUND, &[]), ("d", None, &["c!"])],
            &["delete d"],
        ),
        (
            &[
                ("c", FOREGROUND, &[]),
                ("d", None, &["c!"]),
                ("e", None, &["d"]),
            ],
            &["delete d last"],
        ),
        (
            &[("c", FOREGROUND, &[]), ("d", HELD, &["c"])],
            &["c without foregroundDeletion"],
        ),
        (
            &[("c", FOREGROUND, &["d!"]), ("d", None, &["c!"])],
            &["unblock d"],
        ),
    ];
    for (objects, wanted) in cases {
        assert_eq!(acts(objects), wanted, "{objects:?}");
    }
}
