//! The phase of a set, and the conditions that say why it is there.

use api::{ConditionStatus, Operation, SampleSetPhase};

use super::conditions::{BOUND, IGNORED, RUNTIME, SYNCED, WARM};
use super::humane::size;
use super::validity::Obstacle;
use super::work::{TRIES, Work};
use super::{NodeLabel, Plan, operations, volume};
use crate::names;

/// Whether a runtime server has mounted the volume in this phase, or had.
pub(crate) fn is_mounted(phase: SampleSetPhase) -> bool {
    !matches!(phase, SampleSetPhase::Bound | SampleSetPhase::Unknown)
}

/// Writes down the phase and what the set waits for.
pub(super) fn describe(plan: &mut Plan, work: &Work<'_>, volume: Result<bool, Obstacle>) {
    let is_bound = volume == Ok(true);
    let labelled = plan.labelled.is_empty();
    describe_volume(plan, work, volume);
    let ready = describe_runtime(plan, work);
    if !work.faults.is_empty() {
        // Whatever phase it had, the spec no longer says what comes next.
        return;
    }
    let synced = work.is_synced(plan.status.sync.as_ref());
    describe_sync(plan, work, synced);
    let warm = is_warm(plan, work);
    describe_warmth(plan, work, synced, warm);

    let before = work.set.status.as_ref().and_then(|status| status.phase);
    let before = before.filter(|phase| *phase != SampleSetPhase::Unknown);
    let failures = plan.status.sync.as_ref().map_or(0, |sync| sync.failures);
    let syncs = plan
        .status
        .operation
        .as_ref()
        .is_some_and(|lock| lock.owner == work.uid && lock.type_ == Operation::Sync);
    plan.status.phase = match before {
        _ if !is_bound && before.is_none_or(|phase| !is_mounted(phase)) => None,
        None => Some(SampleSetPhase::Bound),
        // Each phase is shown once, so that whoever watches sees them all.
        Some(SampleSetPhase::Bound) if work.seen.ready(0) => Some(SampleSetPhase::Mount),
        Some(SampleSetPhase::Bound) => Some(SampleSetPhase::Bound),
        Some(_) if synced && is_bound && ready && labelled && warm => Some(SampleSetPhase::Ready),
        Some(_) if synced => Some(SampleSetPhase::PartialReady),
        Some(_) if syncs => Some(SampleSetPhase::Syncing),
        Some(_) if failures >= TRIES => Some(SampleSetPhase::SyncFailed),
        Some(_) if failures > 0 => Some(SampleSetPhase::Syncing),
        Some(_) => Some(SampleSetPhase::Mount),
    };
}

fn describe_volume(plan: &mut Plan, work: &Work<'_>, volume: Result<bool, Obstacle>) {
    let mut say = plan.say(work);
    match volume {
        Ok(true) => say.say(BOUND, true, "Bound", "the volume is bound"),
        Ok(false) => say.say(
            BOUND,
            false,
            "VolumeNotBound",
            "the volume is not bound to its claim yet",
        ),
        Err(Obstacle { reason, message }) => say.say(BOUND, false, reason, message),
    }
    let made = plan.status.volume.as_ref();
    let ignored = made.is_some_and(|made| made.key != volume::key(work.set));
    let mut told = plan.status.conditions.iter();
    if ignored {
        plan.say(work).say(
            IGNORED,
            true,
            "VolumeExists",
            "changes of spec.csi, spec.cache and spec.secretRef have no effect once the volume is made; delete the set and create it again (the data in the object store stays)",
        );
    } else if told.any(|condition| condition.type_ == IGNORED) {
        plan.say(work).say(
            IGNORED,
            false,
            "AsMade",
            "the volume is as the spec asks for",
        );
    }
}

fn describe_runtime(plan: &mut Plan, work: &Work<'_>) -> bool {
    let missing = (0..work.partitions).filter(|partition| !work.seen.ready(*partition));
    let missing: Vec<i32> = missing.collect();
    let surplus = work.seen.stateful_set.ours();
    let surplus = surplus.is_some_and(|there| there.replicas != work.partitions);
    let ready = i64::from(work.partitions) - i64::try_from(missing.len()).unwrap_or(0);
    let told = format!("{ready} of {} runtime servers are ready", work.partitions);
    let trouble = missing.iter().find_map(|partition| {
        let pod = work.seen.pod(*partition)?;
        let trouble = pod.trouble.as_ref()?;
        Some(if pod.node.is_none() && work.partitions > 1 {
            ("NodesMissing", nodes_missing(work, trouble))
        } else {
            let message = format!("{told}; pod {}: {trouble}", pod.name);
            ("PodInTrouble", message)
        })
    });
    let trouble = trouble.or_else(|| pod_refused(plan, work, &told));
    let unlabelled = not_labelled(plan);
    let mut say = plan.say(work);
    match (trouble, unlabelled) {
        (Some((reason, trouble)), _) => say.say(RUNTIME, false, reason, trouble),
        _ if !missing.is_empty() => say.say(RUNTIME, false, "RuntimeMissing", told),
        _ if surplus => say.say(RUNTIME, false, "Scaling", told),
        (None, Some(node)) => {
            let message = format!("{told}; {node}");
            say.say(RUNTIME, false, "NodesNotLabelled", message);
        }
        (None, None) => say.say(RUNTIME, true, "AllReady", told),
    }
    missing.is_empty() && !surplus
}

/// A pod that the API server refuses is told of by an event of its StatefulSet alone.
fn pod_refused(plan: &mut Plan, work: &Work<'_>, told: &str) -> Option<(&'static str, String)> {
    if !work.seen.lacks_pods() {
        return None;
    }
    let Some(refusal) = &work.seen.pod_refusal else {
        work.look_soon(plan);
        return None;
    };
    // Its words may become others; that it is made at last its watch tells.
    work.look_again(plan);
    let servers = names::runtime(work.name);
    let message = format!("{told}; StatefulSet {servers}: {refusal}");
    Some(("PodRefused", message))
}

/// The node whose label is not as it should be, those first that lack theirs: workers
/// that require the label find no node without it.
fn not_labelled(plan: &Plan) -> Option<String> {
    let due = plan.labelled.iter();
    let NodeLabel { node, key, value } = due.max_by_key(|label| label.value.is_some())?;
    Some(match value {
        Some(value) => format!("node {node} does not carry the label {key}={value} yet"),
        None => format!("node {node} still carries the label {key}"),
    })
}

/// The scheduler says why there is no node, but not what that means for a set.
fn nodes_missing(work: &Work<'_>, scheduler: &str) -> String {
    let partitions = work.partitions;
    let pods = (0..partitions).filter_map(|partition| work.seen.pod(partition));
    let missing = pods.filter(|pod| pod.node.is_none()).count();
    format!(
        "no node for {missing} of {partitions} partitions: {scheduler}; each needs one of its \
         own: add nodes (local: --nodes {partitions}) or lower spec.partitions"
    )
}

/// What is under way or failed was told where it was found.
fn describe_sync(plan: &mut Plan, work: &Work<'_>, synced: bool) {
    if work.set.spec.no_sync == Some(true) {
        plan.say(work).say(
            SYNCED,
            true,
            "NotWanted",
            "spec.noSync says that the volume has the data",
        );
    } else if synced {
        plan.say(work).say(
            SYNCED,
            true,
            "Synced",
            "the data was copied from the source",
        );
    } else if !plan
        .status
        .conditions
        .iter()
        .any(|told| told.type_ == SYNCED && told.status == ConditionStatus::False)
    {
        let message = "the data has not been copied from the source yet";
        plan.say(work).say(SYNCED, false, "NotYet", message);
    }
}

/// Whether every partition has been cached as the spec asks for.
fn is_warm(plan: &Plan, work: &Work<'_>) -> bool {
    let cache = plan.status.cache_status.as_ref();
    let is_warm = |partition: i32| {
        let mut known = cache?.partitions.iter();
        known
            .find(|known| known.partition == partition)
            .map(|known| work.is_warm(known))
    };
    work.warmup.is_none() || (0..work.partitions).all(|partition| is_warm(partition) == Some(true))
}

/// From here on it is not the disk that keeps data from being cached.
const WHOLE: i32 = 99;

/// A server whose disk has no room for more.
fn full_disk(work: &Work<'_>) -> Option<String> {
    let kept = volume::free_space_ratio(&work.made, work.settings);
    let answers = work.seen.answers.iter();
    let mut figures = answers.filter_map(|(at, answer)| Some((*at, answer.cache.as_ref()?)));
    #[expect(clippy::cast_precision_loss, reason = "it is a rule of thumb")]
    let is_full = |size: u64, avail: u64| avail as f64 <= 1.05 * kept * size as f64;
    let (at, full) =
        figures.find(|(_, disk)| disk.disk_size > 0 && is_full(disk.disk_size, disk.disk_avail))?;
    let (left, all) = (size(full.disk_avail), size(full.disk_size));
    Some(format!(
        ", because the disk of {} has only {left} of {all} free and free-space-ratio keeps {:.0}% of it free",
        work.server(at),
        kept * 100.0
    ))
}

fn describe_warmth(plan: &mut Plan, work: &Work<'_>, synced: bool, warm: bool) {
    let cache = plan.status.cache_status.as_ref();
    let percent = cache.and_then(|cache| cache.cached_percent);
    let percent = percent.map_or_else(String::new, |percent| {
        let reason = (percent < WHOLE).then(|| full_disk(work)).flatten();
        let reason = reason.unwrap_or_default();
        format!("; {percent}% of the data is cached{reason}")
    });
    let warms = plan.status.operation.as_ref();
    let warms = warms.is_some_and(|lock| lock.owner == work.uid && lock.type_ == Operation::Warmup);
    let failed = plan
        .status
        .warmup
        .as_ref()
        .is_some_and(|warmup| warmup.failures > 0);
    let mut told = plan.status.conditions.iter();
    let terminated = told.any(|told| told.type_ == WARM && told.reason == "Terminated");
    let mut say = plan.say(work);
    if work.warmup.is_none() {
        say.say(
            WARM,
            false,
            "NotWanted",
            format!("spec.warmup.enabled is false{percent}"),
        );
    } else if !synced {
        say.say(
            WARM,
            false,
            "NotSynced",
            "nothing is cached before the data was copied",
        );
    } else if warm && !terminated {
        say.say(
            WARM,
            true,
            "Warmed",
            format!("the warmup has ended{percent}"),
        );
    } else if !warm && !warms && !failed {
        let missing = operations::targets(plan, work).next().is_none();
        let message = if missing {
            "the warmup waits for runtime servers"
        } else {
            "the warmup has not begun"
        };
        plan.say(work).say(WARM, false, "NotYet", message);
    }
}
