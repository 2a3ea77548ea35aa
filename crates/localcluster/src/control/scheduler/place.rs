//! Which pod goes to which node.

use std::collections::BTreeMap;

use super::affinity::{Term, term_selects};
use super::fit::{Reason, is_tolerated, obstacles};
use super::view::{ClaimView, HostPort, Labels, NodeView, PodView, VolumeView};
use crate::control::amounts::{Amounts, add};
use crate::control::mirror::Key;

/// The reason of a pod for which there is no node.
pub(super) const UNSCHEDULABLE: &str = "Unschedulable";
const GATED: &str = "SchedulingGated";

/// What a pod that asks for nothing is taken to need when nodes are compared:
/// otherwise such pods would all go to one.
const ASSUMED_LOAD: [(&str, i128); 2] = [("cpu", 100), ("memory", (200 << 20) * 1000)];

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) pod: Key,
    pub(super) uid: String,
    /// Whether it is known already that it waits.
    pub(super) has_waited: bool,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes to this node.
    Fits(String),
    Waits {
        reason: &'static str,
        message: String,
    },
}

/// A node, and what is on it.
pub(super) struct Room<'a> {
    pub(super) name: &'a str,
    pub(super) node: &'a NodeView,
    pub(super) pods: Vec<(&'a Key, &'a PodView)>,
    pub(super) used: Amounts,
    load: Amounts,
}

impl<'a> Room<'a> {
    fn take_in(&mut self, key: &'a Key, pod: &'a PodView) {
        add(&mut self.used, &pod.requests);
        add(&mut self.load, &load(pod));
        self.pods.push((key, pod));
    }

    /// How full it would be with one more pod.
    fn fullness(&self, pod: &PodView) -> f64 {
        let more = load(pod);
        let share = |(resource, _): &(&str, i128)| {
            let of = |amounts: &Amounts| amounts.get(*resource).copied().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "it is compared only")]
            let share =
                (of(&self.load) + of(&more)) as f64 / of(&self.node.allocatable).max(1) as f64;
            share
        };
        ASSUMED_LOAD.iter().map(share).sum()
    }
}

fn load(pod: &PodView) -> Amounts {
    let asked = |resource: &str| {
        pod.requests
            .get(resource)
            .copied()
            .filter(|asked| *asked > 0)
    };
    let load = ASSUMED_LOAD.iter();
    load.map(|(resource, least)| ((*resource).to_owned(), asked(resource).unwrap_or(*least)))
        .collect()
}

/// Nodes with what is on them, and all else that decides.
pub(super) struct World<'a> {
    rooms: BTreeMap<&'a str, Room<'a>>,
    claims: &'a BTreeMap<Key, ClaimView>,
    volumes: &'a BTreeMap<Key, VolumeView>,
    namespaces: &'a BTreeMap<Key, Labels>,
}

impl<'a> World<'a> {
    pub(super) fn new(
        nodes: &'a BTreeMap<Key, NodeView>,
        claims: &'a BTreeMap<Key, ClaimView>,
        volumes: &'a BTreeMap<Key, VolumeView>,
        namespaces: &'a BTreeMap<Key, Labels>,
    ) -> World<'a> {
        let rooms = nodes.iter().map(|((_, name), node)| {
            let room = Room {
                name,
                node,
                pods: Vec::new(),
                used: Amounts::new(),
                load: Amounts::new(),
            };
            (name.as_str(), room)
        });
        World {
            rooms: rooms.collect(),
            claims,
            volumes,
            namespaces,
        }
    }

    /// Places all pods that wait, the most important first, then the oldest.
    /// `assumed` are the nodes of pods that don't say it themselves yet, by uid.
    pub(super) fn schedule(
        &mut self,
        pods: &'a BTreeMap<Key, PodView>,
        assumed: &BTreeMap<String, String>,
    ) -> Vec<Placement> {
        let mut waiting = Vec::new();
        for (key, pod) in pods {
            match pod.node.as_ref().or(assumed.get(&pod.uid)) {
                Some(node) => self.put(node, key, pod),
                None if pod.is_ours => waiting.push((key, pod)),
                None => {}
            }
        }
        waiting.sort_by_key(|(_, pod)| (std::cmp::Reverse(pod.priority), pod.created));
        let placements = waiting.into_iter().map(|(key, pod)| Placement {
            pod: key.clone(),
            uid: pod.uid.clone(),
            has_waited: pod.waits_because.is_some(),
            outcome: self.place(key, pod),
        });
        placements.collect()
    }

    fn put(&mut self, node: &str, key: &'a Key, pod: &'a PodView) {
        if let Some(room) = self.rooms.get_mut(node) {
            room.take_in(key, pod);
        }
    }

    fn place(&mut self, key: &'a Key, pod: &'a PodView) -> Outcome {
        if pod.is_gated {
            let message = "Scheduling is blocked due to non-empty scheduling gates".to_owned();
            return Outcome::Waits {
                reason: GATED,
                message,
            };
        }
        match self.find(key, pod) {
            Ok(node) => {
                self.put(&node, key, pod);
                Outcome::Fits(node)
            }
            Err(message) => Outcome::Waits {
                reason: UNSCHEDULABLE,
                message,
            },
        }
    }

    /// The best node for a pod, or why there is none.
    fn find(&self, key: &Key, pod: &PodView) -> Result<String, String> {
        if self.rooms.is_empty() {
            return Err("no nodes available to schedule pods".to_owned());
        }
        if let Some(text) = self.unready_claim(key, pod) {
            let lasting = Reason {
                text: text.clone(),
                is_lasting: true,
            };
            let tail = preemption(&vec![vec![lasting]; self.rooms.len()]);
            return Err(format!(
                "0/{} nodes are available: {text}. {tail}",
                self.rooms.len()
            ));
        }
        let mut best: Option<(i64, f64, &str)> = None;
        let mut refusals = Vec::new();
        for room in self.rooms.values() {
            let reasons = obstacles(self, room, key, pod);
            if !reasons.is_empty() {
                refusals.push(reasons);
                continue;
            }
            let (liking, fullness) = (self.liking(room, key, pod), room.fullness(pod));
            // Rooms are in the order of their names: of equals the first is kept.
            let is_better = best.is_none_or(|(most, least, _)| {
                liking > most || (liking == most && fullness < least)
            });
            if is_better {
                best = Some((liking, fullness, room.name));
            }
        }
        let node = best.map(|(_, _, name)| name.to_owned());
        node.ok_or_else(|| refusal(&refusals))
    }

    /// What is wrong with the claims of a pod, if anything.
    fn unready_claim(&self, (namespace, _): &Key, pod: &PodView) -> Option<String> {
        pod.claims.iter().find_map(|name| {
            let claim = self.claims.get(&(namespace.clone(), name.clone()));
            match claim {
                None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
                Some(claim) if claim.is_going => {
                    Some(format!("persistentvolumeclaim \"{name}\" is being deleted"))
                }
                Some(claim) if claim.volume.is_none() => {
                    Some("pod has unbound immediate PersistentVolumeClaims".to_owned())
                }
                Some(_) => None,
            }
        })
    }

    /// How much a pod would like to be there.
    fn liking(&self, room: &Room<'_>, key: &Key, pod: &PodView) -> i64 {
        let wishes = &pod.wishes;
        let nodes = wishes.preferred_nodes.iter();
        let nodes = nodes.filter(|(_, term)| term_selects(term, room.name, &room.node.labels));
        let pods = wishes.preferred_pods.iter();
        let pods = pods.filter(|(_, term)| self.has_neighbour(room, term, &key.0));
        let liked = nodes
            .map(|(weight, _)| weight)
            .chain(pods.map(|(weight, _)| weight));
        let taints = room.node.taints.iter().filter(|taint| {
            taint.effect == "PreferNoSchedule" && !is_tolerated(taint, &pod.tolerations)
        });
        let disliked = i64::try_from(taints.count()).unwrap_or(i64::MAX);
        liked.map(|weight| i64::from(*weight)).sum::<i64>() - disliked
    }

    /// Whether a pod has a port of the node, or of the machine that all nodes are.
    pub(super) fn is_taken(&self, room: &Room<'_>, port: &HostPort) -> bool {
        self.rooms.values().any(|other| {
            let mut taken = other.pods.iter().flat_map(|(_, pod)| &pod.ports);
            taken.any(|taken| {
                let is_near = other.name == room.name || (taken.is_machines && port.is_machines);
                is_near && taken.collides(port)
            })
        })
    }

    /// The volume that a claim is bound to.
    pub(super) fn volume_of(&self, namespace: &str, claim: &str) -> Option<&VolumeView> {
        let claim = self.claims.get(&(namespace.to_owned(), claim.to_owned()))?;
        self.volumes.get(&(String::new(), claim.volume.clone()?))
    }

    /// Whether a term of a pod in the namespace `home` is about this pod.
    pub(super) fn selects(&self, term: &Term, home: &str, key: &Key, pod: &PodView) -> bool {
        let none = Labels::new();
        let labels = self.namespaces.get(&(String::new(), key.0.clone()));
        term.selects(home, key, pod, labels.unwrap_or(&none))
    }

    /// Whether a pod that the term is about is near.
    pub(super) fn has_neighbour(&self, room: &Room<'_>, term: &Term, home: &str) -> bool {
        let place = room.node.labels.get(&term.topology);
        let near = self
            .rooms
            .values()
            .filter(|other| place.is_some() && other.node.labels.get(&term.topology) == place);
        let mut pods = near.flat_map(|room| &room.pods);
        pods.any(|(key, pod)| self.selects(term, home, key, pod))
    }

    /// Whether a pod that the term is about is anywhere.
    pub(super) fn has_any(&self, term: &Term, home: &str) -> bool {
        let mut pods = self.rooms.values().flat_map(|room| &room.pods);
        pods.any(|(key, pod)| self.selects(term, home, key, pod))
    }

    /// Whether somebody who is near must not have this pod near.
    pub(super) fn is_shunned(&self, room: &Room<'_>, key: &Key, pod: &PodView) -> bool {
        self.rooms.values().any(|other| {
            other.pods.iter().any(|((home, _), neighbour)| {
                neighbour.wishes.far.iter().any(|term| {
                    let place = room.node.labels.get(&term.topology);
                    place.is_some()
                        && other.node.labels.get(&term.topology) == place
                        && self.selects(term, home, key, pod)
                })
            })
        })
    }
}

/// Why no node would do, as Kubernetes says it.
fn refusal(refusals: &[Vec<Reason>]) -> String {
    let texts = refusals.iter().flatten().map(|reason| reason.text.as_str());
    let counts = counted(texts);
    format!(
        "0/{} nodes are available: {counts}. {}",
        refusals.len(),
        preemption(refusals)
    )
}

/// Nobody is ever driven out here. This says whether it could help elsewhere.
fn preemption(refusals: &[Vec<Reason>]) -> String {
    let texts =
        refusals.iter().map(
            |reasons| match reasons.iter().any(|reason| reason.is_lasting) {
                true => "Preemption is not helpful for scheduling",
                false => "No preemption victims found for incoming pod",
            },
        );
    format!(
        "preemption: 0/{} nodes are available: {}.",
        refusals.len(),
        counted(texts)
    )
}

fn counted<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let mut counts: Vec<String> = counts
        .iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    counts.sort();
    counts.join(", ")
}
