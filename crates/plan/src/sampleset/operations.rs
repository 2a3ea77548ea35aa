//! The data operations of the set itself, and the lock that it shares with
//! SampleJobs: one operation at a time.

use std::collections::BTreeMap;

use api::{AttemptStatus, JobsName, Operation, OperationStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Plan;
use super::conditions::{CANCELLING, SYNCED, WARM};
use super::validity::{self, Obstacle};
use super::work::{Due, TRIES, Work, warm_due};
use crate::operation::{self, Course, Order, Outcome, State, Task};
use crate::{Event, names};

/// Starts, follows and ends operations; afterwards `plan.status.operation` says
/// who has the lock. Returns how many servers there should be: those that are
/// too many stay until what they hold has been dropped.
pub(super) fn operate(plan: &mut Plan, work: &Work<'_>) -> i32 {
    let there = work
        .seen
        .stateful_set
        .ours()
        .map_or(0, |there| there.replicas);
    if !work.lock().is_some_and(|lock| is_unwanted(work, lock)) {
        plan.say(work).forget(CANCELLING);
    }
    let shrinks = match work.own(Operation::Clear) {
        Some(lock) if surplus(work).next().is_some() => follow_clear(plan, work, lock),
        _ => {
            advance(plan, work);
            surplus(work).next().is_none()
        }
    };
    if shrinks {
        work.partitions
    } else {
        there.max(work.partitions)
    }
}

fn advance(plan: &mut Plan, work: &Work<'_>) {
    match work.lock() {
        None => start(plan, work),
        Some(lock) if lock.follow_up == Some(Operation::Warmup) => follow_up(plan, work, lock),
        Some(lock) if is_unwanted(work, lock) => abandon(plan, work, lock),
        Some(lock) if lock.owner == work.uid => follow(plan, work, lock),
        // No watch tells the set of a job that names another one by now.
        Some(_) => work.look_again(plan),
    }
}

/// Whether nobody wants what has the lock any more: its owner is gone, or the spec
/// asks for something else by now, or for nothing.
fn is_unwanted(work: &Work<'_>, lock: &OperationStatus) -> bool {
    let warmup = work.warmup.as_ref();
    match lock.type_ {
        _ if lock.follow_up == Some(Operation::Warmup) => false,
        _ if lock.owner != work.uid => work.seen.owner_is_gone,
        Operation::Sync => lock.key != work.sync_key(),
        Operation::Warmup => warmup.is_none_or(|task| lock.key != Some(task.key())),
        Operation::Clear => surplus(work).next().is_none(),
        Operation::Rmr => true,
    }
}

/// Takes the lock for what is due; the servers are asked in a later pass, when
/// the lock is seen to be there.
fn start(plan: &mut Plan, work: &Work<'_>) {
    if !super::is_mounted_set(work.set) || !work.faults.is_empty() {
        return;
    }
    if surplus(work).next().is_some() {
        return take(plan, work, Operation::Clear, None);
    }
    match work.sync_due() {
        Due::Now => return start_sync(plan, work),
        Due::At(at) if at <= work.now => return start_sync(plan, work),
        Due::At(at) => return plan.wake_at(at),
        Due::Done => {}
    }
    let Some(warmup) = &work.warmup else {
        return;
    };
    if targets(plan, work).next().is_none() {
        return;
    }
    let key = warmup.key();
    let attempt = plan.status.warmup.as_ref();
    match warm_due(attempt, &key, work.set.metadata.generation) {
        Due::At(at) if at > work.now => plan.wake_at(at),
        _ => take(plan, work, Operation::Warmup, Some(key)),
    }
}

fn start_sync(plan: &mut Plan, work: &Work<'_>) {
    if !work.seen.ready(0) {
        return;
    }
    match sync_secrets(plan, work) {
        Ok(()) => take(plan, work, Operation::Sync, work.sync_key()),
        Err(obstacle) => wait(plan, work, &obstacle),
    }
}

fn wait(plan: &mut Plan, work: &Work<'_>, obstacle: &Obstacle) {
    work.look_again(plan);
    plan.say(work)
        .say(SYNCED, false, obstacle.reason, obstacle.message.clone());
}

/// Whether the keys of a copy are there.
fn sync_secrets(plan: &Plan, work: &Work<'_>) -> Result<(), Obstacle> {
    let seen = work.seen;
    let (volume, source) = (seen.volume_secret.as_ref(), seen.source_secret.as_ref());
    validity::can_sync(work.credentials(plan), volume, source)
}

fn take(plan: &mut Plan, work: &Work<'_>, type_: Operation, key: Option<String>) {
    let number = plan
        .status
        .operations_started
        .unwrap_or(0)
        .saturating_add(1);
    plan.status.operations_started = Some(number);
    let id = format!("{}-{number}-{type_}", names::short_uid(work.uid));
    let jobs = plan.status.jobs_name.get_or_insert_with(JobsName::default);
    match type_ {
        Operation::Sync => jobs.sync_job_name = Some(id.clone()),
        Operation::Warmup => jobs.warmup_job_name = Some(id.clone()),
        Operation::Clear | Operation::Rmr => {}
    }
    plan.status.operation = Some(OperationStatus {
        id,
        type_,
        owner: work.uid.to_owned(),
        follow_up: None,
        partitions: Some(work.partitions),
        key,
    });
}

/// A copy succeeded, of the set itself or of a SampleJob: there is new data, which has
/// to be cached. No SampleJob comes between. What was copied is what the lock says, if
/// it is what the set asked for then.
fn follow_up(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) {
    plan.status.operation = None;
    forget_warmth(plan);
    if lock.key.is_some() {
        let old = plan.status.sync.take();
        plan.status.sync = Some(attempt(old.as_ref(), work, lock.key.clone(), Ok(())));
        if lock.key != work.sync_key() {
            // It asks for something else by now, which is copied first.
            return;
        }
    }
    if let Some(warmup) = &work.warmup {
        take(plan, work, Operation::Warmup, Some(warmup.key()));
    }
}

fn forget_warmth(plan: &mut Plan) {
    let cache = plan.status.cache_status.iter_mut();
    for partition in cache.flat_map(|cache| &mut cache.partitions) {
        partition.warmed = None;
    }
}

/// How a try ended: a failure counts as so many.
fn attempt(
    old: Option<&AttemptStatus>,
    work: &Work<'_>,
    key: Option<String>,
    ended: Result<(), i32>,
) -> AttemptStatus {
    let generation = work.set.metadata.generation;
    let same = |old: &&AttemptStatus| old.key == key && old.generation == generation;
    let before = old.filter(same).map_or(0, |old| old.failures);
    AttemptStatus {
        key,
        generation,
        failures: ended.err().map_or(0, |by| before.saturating_add(by)),
        time: Some(Time(work.now)),
    }
}

/// Follows an operation of the set itself.
fn follow(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) {
    match lock.type_ {
        Operation::Sync => follow_sync(plan, work, lock),
        Operation::Warmup => follow_warmup(plan, work, lock),
        Operation::Clear | Operation::Rmr => {}
    }
}

/// Cancels what nobody wants any more, and empties the lock when it has ended
/// everywhere.
fn abandon(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) {
    let ending = work.end(lock);
    plan.cancelled.extend(ending.cancelled);
    let Some(waits_for) = ending.waits_for else {
        plan.say(work).forget(CANCELLING);
        let state = operation::state(&work.seen.answers, 0, &lock.id);
        let is_of_job = lock.type_ == Operation::Sync && lock.owner != work.uid;
        match state {
            // Its job went before it could say so.
            State::Succeeded(_) if is_of_job => follow_up(plan, work, lock),
            _ => plan.status.operation = None,
        }
        return;
    };
    let (type_, id) = (lock.type_, &lock.id);
    let message = format!("the {type_} {id} is no longer wanted; waits for {waits_for}");
    plan.say(work).say(CANCELLING, true, "NotEnded", message);
    work.look_again(plan);
}

fn course(
    plan: &mut Plan,
    work: &Work<'_>,
    lock: &OperationStatus,
    tasks: BTreeMap<i32, Task>,
) -> Course {
    let credentials = if lock.type_ == Operation::Sync {
        work.credentials(plan)
    } else {
        None
    };
    let order = Order {
        id: &lock.id,
        owner: work.uid,
        tasks,
        credentials,
        pods: &work.seen.pods,
    };
    let course = operation::follow(&order, &work.seen.answers, |at| work.server(at));
    plan.cancelled.extend(course.cancelled.iter().cloned());
    if let Outcome::Running { message, .. } = &course.outcome
        && message.is_some()
    {
        work.look_again(plan);
    }
    course
}

fn follow_sync(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) {
    let task = work
        .sync
        .clone()
        .map(|task| (0, Task::Sync(Box::new(task))));
    let course = course(plan, work, lock, task.into_iter().collect());
    let failed = |plan: &mut Plan, count: i32, reason: &str, message: String| {
        let old = plan.status.sync.take();
        let new = attempt(old.as_ref(), work, lock.key.clone(), Err(count));
        let last = new.failures >= TRIES;
        plan.status.sync = Some(new);
        plan.status.operation = None;
        plan.say(work).say(SYNCED, false, reason, message.clone());
        let again = if last { "in 5 minutes" } else { "soon" };
        plan.events.push(Event::warning(
            "SyncFailed",
            format!("{message}; it is tried again {again}"),
        ));
    };
    match course.outcome {
        Outcome::Running { progress, message } => {
            if !course.posted.is_empty() {
                match sync_secrets(plan, work) {
                    Ok(()) => plan.posted.extend(course.posted),
                    Err(obstacle) => return wait(plan, work, &obstacle),
                }
            }
            let message = message.unwrap_or_else(|| {
                let percent = progress.percent.map(|percent| format!(", {percent}% done"));
                format!("copying from the source{}", percent.unwrap_or_default())
            });
            plan.say(work).say(SYNCED, false, "Syncing", message);
        }
        Outcome::Succeeded(done) => {
            let files = done
                .values()
                .fold(0_i64, |all, done| all.saturating_add(done.files));
            let told = format!("the data was copied from the source, {files} files");
            plan.events.push(Event::normal("Synced", told));
            plan.status.operation = Some(OperationStatus {
                follow_up: Some(Operation::Warmup),
                ..lock.clone()
            });
        }
        Outcome::Failed { reason, message } => failed(plan, 1, &reason, message),
        Outcome::Cancelled => {
            let message = "a SampleJob with terminate: true cancelled the sync".to_owned();
            failed(plan, TRIES, "Terminated", message);
        }
    }
}

/// The partitions whose servers can cache now and have something to cache.
pub(super) fn targets<'w>(plan: &Plan, work: &'w Work<'_>) -> impl Iterator<Item = i32> + 'w {
    let cache = plan.status.cache_status.as_ref();
    let warmed: BTreeMap<i32, Option<String>> = cache
        .into_iter()
        .flat_map(|cache| &cache.partitions)
        .map(|known| (known.partition, known.warmed.clone()))
        .collect();
    let ready = (0..work.partitions).filter(|partition| work.seen.ready(*partition));
    ready.filter(move |partition| {
        let known = warmed.get(partition).cloned().flatten();
        work.warm_key(*partition)
            .is_some_and(|key| known != Some(key))
    })
}

fn follow_warmup(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) {
    let Some(task) = &work.warmup else {
        return;
    };
    let targets: Vec<i32> = targets(plan, work).collect();
    if targets.is_empty() {
        // A server that has begun goes on when it is back. For one that waits for a node, which may
        // never come, others need not wait.
        let mut begun = work.seen.pods.iter().filter(|pod| pod.ip.is_some());
        let is_away = |partition| partition < work.partitions && !work.seen.ready(partition);
        if !begun.any(|pod| is_away(pod.partition)) {
            plan.status.operation = None;
        }
        return;
    }
    // What an earlier warmup left there may not be this partition's any more.
    let evict = plan.status.warmup.is_some();
    let tasks = targets
        .iter()
        .map(|partition| (*partition, task.of(*partition, evict)));
    let course = course(plan, work, lock, tasks.collect());
    plan.posted.extend(course.posted);
    let (ended, reason, message) = match course.outcome {
        Outcome::Running { progress, message } => {
            let message = message.unwrap_or_else(|| {
                let percent = progress.percent.map(|percent| format!(", {percent}% done"));
                format!("caching{}", percent.unwrap_or_default())
            });
            return plan.say(work).say(WARM, false, "Warming", message);
        }
        Outcome::Succeeded(_) => (Ok(()), "Warm".to_owned(), "the data was cached".to_owned()),
        Outcome::Failed { reason, message } => (Err(1), reason, message),
        Outcome::Cancelled => (
            Ok(()),
            "Terminated".to_owned(),
            "a SampleJob with terminate: true cancelled the warmup".to_owned(),
        ),
    };
    if ended.is_ok() {
        let keys: BTreeMap<i32, Option<String>> = targets
            .iter()
            .map(|partition| (*partition, work.warm_key(*partition)))
            .collect();
        let cache = plan.status.cache_status.iter_mut();
        for known in cache.flat_map(|cache| &mut cache.partitions) {
            if let Some(key) = keys.get(&known.partition) {
                known.warmed.clone_from(key);
            }
        }
        plan.events.push(Event::normal("Warmed", message.clone()));
    } else {
        plan.events
            .push(Event::warning("WarmupFailed", message.clone()));
    }
    let new = attempt(plan.status.warmup.as_ref(), work, lock.key.clone(), ended);
    plan.status.warmup = Some(new);
    plan.status.operation = None;
    plan.say(work).say(WARM, false, &reason, message);
}

/// The partitions that are too many: what they hold is dropped before they go.
fn surplus<'w>(work: &'w Work<'_>) -> impl Iterator<Item = i32> + 'w {
    let stateful_set = work.seen.stateful_set.ours();
    let there = stateful_set.map_or(0, |there| there.replicas);
    let pods = work.seen.pods.iter().map(|pod| pod.partition);
    let surplus = pods.filter(move |partition| (work.partitions..there).contains(partition));
    surplus.filter(|partition| work.seen.ready(*partition))
}

/// Whether they have dropped it, or can't.
fn follow_clear(plan: &mut Plan, work: &Work<'_>, lock: &OperationStatus) -> bool {
    let clear = |partition| (partition, Task::Clear { paths: Vec::new() });
    let course = course(plan, work, lock, surplus(work).map(clear).collect());
    plan.posted.extend(course.posted);
    !matches!(course.outcome, Outcome::Running { .. })
}
