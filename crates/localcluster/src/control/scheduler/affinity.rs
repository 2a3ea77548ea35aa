//! Where pods wish to be: near what, and far from what.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::view::{Labels, PodView};
use crate::control::mirror::Key;

/// What a pod says of where it wishes to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wishes {
    pub(super) node_selector: Labels,
    pub(super) nodes: Option<NodeSelector>,
    pub(super) preferred_nodes: Vec<(i32, NodeSelectorTerm)>,
    pub(super) near: Vec<Term>,
    pub(super) far: Vec<Term>,
    /// Preferred neighbours; a negative weight means: rather not.
    pub(super) preferred_pods: Vec<(i32, Term)>,
}

/// Pods, and how near counts as near.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) topology: String,
    /// `None` selects nothing.
    labels: Option<Selector>,
    namespaces: Vec<String>,
    namespace_labels: Option<Selector>,
}

impl Wishes {
    pub(super) fn of(selector: Option<Labels>, affinity: Option<Affinity>) -> Wishes {
        let affinity = affinity.unwrap_or_default();
        let nodes = affinity.node_affinity.unwrap_or_default();
        let near = affinity.pod_affinity.unwrap_or_default();
        let far = affinity.pod_anti_affinity.unwrap_or_default();
        let preferred_nodes = nodes.preferred_during_scheduling_ignored_during_execution;
        let preferred_nodes = preferred_nodes.into_iter().flatten();
        let terms = |terms: Option<Vec<PodAffinityTerm>>| -> Vec<Term> {
            terms.into_iter().flatten().map(Term::of).collect()
        };
        let weighted = |sign: i32, terms: Option<Vec<WeightedPodAffinityTerm>>| {
            let terms = terms.into_iter().flatten();
            terms.map(move |term| (sign * term.weight, Term::of(term.pod_affinity_term)))
        };
        let preferred_near = near.preferred_during_scheduling_ignored_during_execution;
        let preferred_far = far.preferred_during_scheduling_ignored_during_execution;
        Wishes {
            node_selector: selector.unwrap_or_default(),
            nodes: nodes.required_during_scheduling_ignored_during_execution,
            preferred_nodes: preferred_nodes
                .map(|one| (one.weight, one.preference))
                .collect(),
            near: terms(near.required_during_scheduling_ignored_during_execution),
            far: terms(far.required_during_scheduling_ignored_during_execution),
            preferred_pods: weighted(1, preferred_near)
                .chain(weighted(-1, preferred_far))
                .collect(),
        }
    }

    /// Whether a node is one of those that the pod must be on.
    pub(super) fn admit(&self, name: &str, labels: &Labels) -> bool {
        let mut wanted = self.node_selector.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
            && self
                .nodes
                .as_ref()
                .is_none_or(|nodes| selects(nodes, name, labels))
    }
}

/// Whether one of the terms selects a node.
pub(super) fn selects(nodes: &NodeSelector, name: &str, labels: &Labels) -> bool {
    nodes
        .node_selector_terms
        .iter()
        .any(|term| term_selects(term, name, labels))
}

/// Whether a term selects a node. An empty one selects nothing.
pub(super) fn term_selects(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let labels_of = term.match_expressions.iter().flatten();
    let fields_of = term.match_fields.iter().flatten();
    let mut found = labels_of
        .map(|wanted| is_met(wanted, labels.get(&wanted.key).map(String::as_str)))
        .chain(fields_of.map(|wanted| {
            // The only field that can be selected by.
            is_met(wanted, (wanted.key == "metadata.name").then_some(name))
        }))
        .peekable();
    found.peek().is_some() && found.all(|is_met| is_met)
}

fn is_met(wanted: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    let compare = || {
        let limit: i64 = values.first()?.parse().ok()?;
        Some(found?.parse::<i64>().ok()?.cmp(&limit))
    };
    match wanted.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compare().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

impl Term {
    fn of(term: PodAffinityTerm) -> Term {
        let selector = |labels: LabelSelector| Selector::try_from(labels).ok();
        Term {
            topology: term.topology_key,
            labels: term.label_selector.and_then(selector),
            namespaces: term.namespaces.unwrap_or_default(),
            namespace_labels: term.namespace_selector.and_then(selector),
        }
    }

    /// Whether a pod is one of those that the term is about. `home` is the
    /// namespace of the pod that has the term.
    pub(super) fn selects(
        &self,
        home: &str,
        (namespace, _): &Key,
        pod: &PodView,
        namespace_labels: &Labels,
    ) -> bool {
        let is_listed = self.namespaces.iter().any(|name| name == namespace);
        let is_selected = { self.namespace_labels.as_ref() }
            .is_some_and(|selector| selector.matches(namespace_labels));
        let is_home = self.namespaces.is_empty() && self.namespace_labels.is_none();
        (is_listed || is_selected || (is_home && namespace == home)) && { self.labels.as_ref() }
            .is_some_and(|selector| selector.matches(&pod.labels))
    }
}
