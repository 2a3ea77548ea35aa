//! Whether the jobs have ended as they should.

use std::collections::BTreeSet;

use api::{ConditionStatus, Phase};

use super::history::{History, Life};
use super::jobs::Case;

/// What is still missing for every job to have ended as it should; what is
/// wrong and can't become right is in [`History::broken`].
pub fn missing(cases: &[Case], history: &History, services: &BTreeSet<String>) -> Vec<String> {
    let each = cases.iter().flat_map(|case| {
        let of_job = of_job(case, history).and_then(|()| of_pods(case, history, services));
        of_job.err().map(|missing| {
            format!(
                "{} ({:?}, {:?}): {missing}",
                case.name, case.story, case.shape
            )
        })
    });
    each.collect()
}

fn of_job(case: &Case, history: &History) -> Result<(), String> {
    let status = history
        .jobs
        .get(&case.name)
        .and_then(|job| job.status.clone());
    let status = status.ok_or("it has no status")?;
    if status.phase != Some(case.ends_in()) {
        return Err(format!(
            "its phase is {:?}, not {}; {:?}",
            status.phase,
            case.ends_in(),
            status.conditions
        ));
    }
    if status.restarts != Some(case.restarts()) {
        return Err(format!(
            "it counts {:?} restarts, not {}",
            status.restarts,
            case.restarts()
        ));
    }
    let conditions = status.conditions.iter();
    let mut holding = conditions.filter(|c| c.status == ConditionStatus::True);
    if case.ends_in() == Phase::Failed {
        let failed = holding.find(|c| c.type_ == "Failed");
        let failed = failed.ok_or("it has no condition Failed")?;
        let pod = format!("pod {}-worker-", case.name);
        let code = format!("container paddle exited with code {}", case.exit_code);
        let says_why = failed.message.contains(&pod) && failed.message.contains(&code);
        if failed.reason != case.failed_reason() || !says_why {
            return Err(format!("its condition does not say why: {failed:?}"));
        }
    } else if !holding.any(|c| c.type_ == "Complete") {
        return Err("it has no condition Complete".to_owned());
    }
    let counted = status.ps.iter().chain(&status.worker);
    if let Some(role) = { counted }.find(|role| role.running + role.pending + role.starting > 0)
        && case.ends_in() == Phase::Completed
    {
        return Err(format!("it is over and counts pods that are not: {role:?}"));
    }
    Ok(())
}

fn of_pods(case: &Case, history: &History, services: &BTreeSet<String>) -> Result<(), String> {
    let pods = || history.pods.values().filter(|pod| pod.job == case.name);
    let list = |pods: Vec<&Life>| {
        let names = pods
            .iter()
            .map(|pod| format!("{} ({}, attempt {})", pod.name, pod.phase, pod.attempt));
        names.collect::<Vec<_>>().join(", ")
    };
    let left: Vec<&Life> = pods().filter(|pod| !pod.is_gone).collect();
    if !case.keeps_pods() {
        if !left.is_empty() {
            return Err(format!("pods are left over: {}", list(left)));
        }
        let own = services
            .iter()
            .find(|name| name.starts_with(&format!("{}-", case.name)));
        return own.map_or(Ok(()), |name| Err(format!("Service {name} is left over")));
    }
    let last = pods().map(|pod| pod.attempt).max();
    let old = left.iter().filter(|pod| Some(pod.attempt) != last);
    let old: Vec<&Life> = old.copied().collect();
    if !old.is_empty() {
        return Err(format!(
            "pods of earlier attempts are left over: {}",
            list(old)
        ));
    }
    let active: Vec<&Life> = left.into_iter().filter(|pod| !pod.has_ended()).collect();
    if !active.is_empty() {
        return Err(format!("pods still run: {}", list(active)));
    }
    // One that never ran has no log to keep, and one that the test took away
    // was replaced.
    let lost = pods().filter(|pod| pod.is_gone && pod.ran && Some(pod.attempt) == last);
    let lost: Vec<&Life> = lost
        .filter(|pod| !history.taken.contains(&pod.name) && !pod.was_hit_by_kwok())
        .collect();
    if !lost.is_empty() {
        return Err(format!("pods are gone that should be kept: {}", list(lost)));
    }
    Ok(())
}
