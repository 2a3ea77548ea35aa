//! What happens to the pods of a job that has ended: they are deleted, or
//! stopped and kept for their logs.

use api::{PaddleJobSpec, Phase};

use super::world::{PodView, Seen};
use super::{Deletion, Plan};

/// A pod is stopped, and its logs kept, by giving it one second to live.
pub const STOP_AFTER_SECONDS: i64 = 1;

/// Whether the pods of a job that ended in `phase` are deleted. A policy that
/// nobody knows keeps them: what is kept can still be deleted.
pub fn deletes_pods(spec: &PaddleJobSpec, phase: Phase) -> bool {
    match spec.clean_pod_policy.as_deref() {
        None | Some("" | "OnCompletion") => phase == Phase::Completed,
        Some("OnFailure") => phase == Phase::Failed,
        Some("Always") => true,
        Some(_) => false,
    }
}

/// Cleans up after a job whose *cached* phase is terminal.
pub fn clean(plan: &mut Plan, spec: &PaddleJobSpec, phase: Phase, seen: &Seen) {
    let present = seen.pods.iter().filter(|pod| pod.deleted_at.is_none());
    if deletes_pods(spec, phase) {
        plan.pods_deleted
            .extend(present.map(|pod| Deletion::of(pod)));
        plan.services_deleted.extend(seen.services.iter().cloned());
        return;
    }
    for pod in present.filter(|pod| pod.is_active()) {
        if !pod.is_scheduled() {
            // No log to keep, and it would be scheduled some day.
            plan.pods_deleted.push(Deletion {
                unless_scheduled: true,
                ..Deletion::of(pod)
            });
        } else if is_to_be_stopped(pod) {
            plan.pods_stopped.push(Deletion::of(pod));
        }
    }
}

fn is_to_be_stopped(pod: &PodView) -> bool {
    pod.active_deadline
        .is_none_or(|seconds| seconds > STOP_AFTER_SECONDS)
}
