//! Pods on dead nodes. Nobody there confirms that a pod is gone, but names are
//! fixed: a dead node must not hold them for ever.

use jiff::{SignedDuration, Timestamp};

use super::world::{PodView, Seen};
use super::{Deletion, Event, Plan};

/// How long a kubelet may take beyond the grace period.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Whether the pod should have been gone for so long that its node is suspect.
pub fn is_overdue(pod: &PodView, now: Timestamp) -> bool {
    overdue_at(pod).is_some_and(|at| at <= now)
}

fn overdue_at(pod: &PodView) -> Option<Timestamp> {
    pod.deleted_at?.checked_add(PATIENCE).ok()
}

/// Removes pods that are overdue on nodes that are gone or can't be reached.
pub fn release_names(plan: &mut Plan, seen: &Seen, now: Timestamp) {
    for pod in &seen.pods {
        let Some(at) = overdue_at(pod) else { continue };
        let node = pod.node.as_deref().unwrap_or_default();
        if at > now {
            plan.wake_at(at);
        } else if seen.lost_nodes.contains(node) {
            plan.pods_deleted.push(Deletion {
                force: true,
                ..Deletion::of(pod)
            });
            plan.is_urgent = true;
            plan.events.push(Event::warning(
                "PodForceDeleted",
                format!(
                    "pod {} is removed without waiting for its node {node}, which does not answer",
                    pod.name
                ),
            ));
        } else if let Ok(again) = now.checked_add(PATIENCE) {
            plan.wake_at(again);
        }
    }
}
