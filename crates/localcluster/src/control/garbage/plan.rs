//! Who owns whom, and what follows from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::control::census::{Kind, Known};
use crate::control::mirror::Key;

/// The finalizer of one that goes after all that it owns.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of one that goes when nothing names it as its owner any more.
const ORPHAN: &str = "orphan";

/// An object, or what somebody who is owned says of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Delete(Object),
    /// In the foreground: what it owns goes first.
    DeleteAfterItsOwn(Object),
    /// Owners with these uids are no longer named.
    Disown(Object, Vec<String>),
    /// Its owners need not wait for it any more.
    Unblock(Object),
    /// A finalizer has done its duty.
    Release(Object, &'static str),
}

/// All objects, and who owns whom.
pub(super) struct Graph<'a> {
    kinds: Vec<&'a Kind>,
    nodes: Vec<Node<'a>>,
    by_uid: HashMap<&'a str, usize>,
    /// The owned ones, by the uid of the owner.
    owned: HashMap<&'a str, Vec<usize>>,
}

struct Node<'a> {
    kind: &'a Kind,
    key: &'a Key,
    known: &'a Known,
}

/// How an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Stays,
    /// It waits for those that it owns to go.
    Waits,
    Gone,
}

impl<'a> Graph<'a> {
    pub(super) fn new(kinds: impl Iterator<Item = (&'a Kind, &'a BTreeMap<Key, Known>)>) -> Self {
        let mut graph = Graph {
            kinds: Vec::new(),
            nodes: Vec::new(),
            by_uid: HashMap::new(),
            owned: HashMap::new(),
        };
        for (kind, objects) in kinds {
            graph.kinds.push(kind);
            for (key, known) in objects {
                let index = graph.nodes.len();
                graph.nodes.push(Node { kind, key, known });
                graph.by_uid.insert(&known.uid, index);
                for owner in &known.owners {
                    graph.owned.entry(&owner.uid).or_default().push(index);
                }
            }
        }
        graph
    }

    /// The uids of all who are named as owners.
    pub(super) fn owner_uids(&self) -> HashSet<String> {
        self.owned.keys().map(|uid| (*uid).to_owned()).collect()
    }

    /// Owners that are named and not seen where they should be.
    pub(super) fn doubted(&self) -> HashSet<Object> {
        let claims = self.nodes.iter().filter(|node| !node.known.is_going);
        let claims = claims.flat_map(|node| {
            let owners = node.known.owners.iter();
            owners.filter_map(|owner| self.claim(node, owner))
        });
        claims.collect()
    }

    /// What an object says of an owner that is not seen where it should be.
    /// `None` also if it can't be there by nature: such an owner is never gone.
    fn claim(&self, node: &Node<'_>, owner: &OwnerReference) -> Option<Object> {
        let kind = self.kind_of(owner)?;
        let namespace = match (kind.is_namespaced, node.kind.is_namespaced) {
            (true, true) => node.key.0.as_str(),
            (false, _) => "",
            // What belongs to no namespace has no owner in one.
            (true, false) => return None,
        };
        let is_seen = self.find(&owner.uid).is_some_and(|seen| {
            (&seen.kind, seen.key.0.as_str(), &seen.key.1) == (&kind, namespace, &owner.name)
        });
        (!is_seen).then(|| Object {
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    fn kind_of(&self, owner: &OwnerReference) -> Option<&'a Kind> {
        let (group, _) = owner.api_version.rsplit_once('/').unwrap_or_default();
        let mut kinds = self.kinds.iter();
        kinds
            .find(|kind| kind.group == group && kind.kind == owner.kind)
            .copied()
    }

    fn find(&self, uid: &str) -> Option<&Node<'a>> {
        self.nodes.get(*self.by_uid.get(uid)?)
    }

    /// Those who name this one as an owner, and how.
    fn owned_by(&self, node: &Node<'_>) -> impl Iterator<Item = (&Node<'a>, &OwnerReference)> {
        let uid = &node.known.uid;
        let owned = self.owned.get(uid.as_str()).into_iter().flatten();
        let owned = owned.filter_map(|index| self.nodes.get(*index));
        owned.flat_map(move |node| {
            let owners = node.known.owners.iter();
            owners
                .filter(move |owner| owner.uid == *uid)
                .map(move |owner| (node, owner))
        })
    }

    /// What is to be done when these of the doubted owners are gone, and those
    /// with these uids went with their kind.
    pub(super) fn plan(&self, absent: &HashSet<Object>, lost: &BTreeSet<String>) -> Vec<Act> {
        let acts = self
            .nodes
            .iter()
            .flat_map(|node| match node.known.is_going {
                true => self.plan_going(node),
                false => self.plan_staying(node, absent, lost).into_iter().collect(),
            });
        acts.collect()
    }

    fn plan_going(&self, node: &Node<'_>) -> Vec<Act> {
        if node.has(ORPHAN) {
            let uid = || vec![node.known.uid.clone()];
            let owned = self.owned_by(node);
            let disowned: Vec<Act> = owned
                .map(|(owned, _)| Act::Disown(owned.object(), uid()))
                .collect();
            if disowned.is_empty() {
                return vec![Act::Release(node.object(), ORPHAN)];
            }
            return disowned;
        }
        let mut owned = self.owned_by(node);
        let is_blocked = owned.any(|(_, owner)| owner.block_owner_deletion == Some(true));
        if node.has(FOREGROUND) && !is_blocked {
            return vec![Act::Release(node.object(), FOREGROUND)];
        }
        Vec::new()
    }

    fn plan_staying(
        &self,
        node: &Node<'_>,
        absent: &HashSet<Object>,
        lost: &BTreeSet<String>,
    ) -> Option<Act> {
        let owners = node.known.owners.iter();
        let standings: Vec<(&OwnerReference, Standing)> = owners
            .map(|owner| (owner, self.standing(node, owner, absent, lost)))
            .collect();
        let any = |which| standings.iter().any(|(_, standing)| *standing == which);
        if any(Standing::Stays) {
            let others = standings
                .iter()
                .filter(|(_, standing)| *standing != Standing::Stays);
            let others: Vec<String> = others.map(|(owner, _)| owner.uid.clone()).collect();
            return (!others.is_empty()).then(|| Act::Disown(node.object(), others));
        }
        if any(Standing::Waits) && self.owned_by(node).next().is_some() {
            let mut owned = self.owned_by(node).map(|(owned, _)| owned);
            // Each would wait for the other.
            let is_circle = owned.any(|owned| owned.known.is_going && owned.has(FOREGROUND));
            let blocks =
                |(owner, _): &(&OwnerReference, _)| owner.block_owner_deletion == Some(true);
            if is_circle && standings.iter().any(blocks) {
                return Some(Act::Unblock(node.object()));
            }
            return Some(Act::DeleteAfterItsOwn(node.object()));
        }
        (!standings.is_empty()).then(|| Act::Delete(node.object()))
    }

    fn standing(
        &self,
        node: &Node<'_>,
        owner: &OwnerReference,
        absent: &HashSet<Object>,
        lost: &BTreeSet<String>,
    ) -> Standing {
        if self.kind_of(owner).is_none() {
            return match lost.contains(&owner.uid) {
                true => Standing::Gone,
                false => Standing::Stays,
            };
        }
        let is_waiting = |owner: &Node<'_>| owner.known.is_going && owner.has(FOREGROUND);
        match self.claim(node, owner) {
            Some(claim) if absent.contains(&claim) => Standing::Gone,
            None if self.find(&owner.uid).is_some_and(is_waiting) => Standing::Waits,
            _ => Standing::Stays,
        }
    }
}

impl Node<'_> {
    fn has(&self, finalizer: &str) -> bool {
        self.known.finalizers.iter().any(|other| other == finalizer)
    }

    fn object(&self) -> Object {
        Object {
            kind: self.kind.clone(),
            namespace: self.key.0.clone(),
            name: self.key.1.clone(),
            uid: self.known.uid.clone(),
        }
    }
}
