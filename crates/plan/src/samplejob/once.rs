//! A SampleJob that runs once: it waits for its turn, takes the lock of its set,
//! follows its operation, writes down the result, and gives the lock back.

use std::collections::BTreeMap;

use api::{Operation, OperationStatus, Progress, SampleJob, SampleJobPhase, SampleSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::condition::{COMPLETE, FAILED, IGNORED, WAITING};
use super::turn::{self, TURN};
use super::world::{Seen, Settings};
use super::{Lock, Plan, lock, validity};
use crate::operation::{self, Credentials, Done, Ending, Order, Outcome, State, Task, percent};
use crate::sampleset::{Obstacle, can_sync, is_mounted, partitions};
use crate::{Event, names};

const INVALID: &str = "InvalidSpec";
const TERMINATED: &str = "Terminated";

/// Decides what is to be done for a job without a schedule.
pub(super) fn plan(
    plan: &mut Plan,
    job: &SampleJob,
    seen: &Seen,
    settings: &Settings,
    now: Timestamp,
) {
    let is_over = plan.status.phase.is_some_and(SampleJobPhase::is_terminal);
    if is_over && !is_corrected(plan, job) {
        return end(plan, job, seen, now);
    }
    if is_over {
        plan.status.phase = None;
        plan.status.completion_time = None;
        plan.say(
            job,
            (FAILED, false),
            "Corrected",
            "the spec was changed",
            now,
        );
    }
    plan.status.observed_generation = job.metadata.generation;
    plan.status.phase.get_or_insert(SampleJobPhase::Pending);
    let ignored = validity::ignored(job);
    if !ignored.is_empty() {
        plan.say(job, (IGNORED, true), "NoEffect", ignored.join("; "), now);
    }
    let set = seen.set.as_deref();
    let own = set.and_then(|set| lock::own(job, set));
    let tasks = validity::tasks(job, set, settings);
    let tasks = tasks.and_then(|tasks| lock::fits(job, own).map(|()| tasks));
    let tasks = match (tasks, own) {
        (Ok(tasks), _) => tasks,
        // It had been started before somebody changed the set, or the job.
        (Err(fault), Some(own)) => return stop(plan, job, seen, own, (INVALID, &fault), now),
        (Err(fault), None) => return fail(plan, job, INVALID, &fault, now),
    };
    match (set, own) {
        (None, _) => without_set(plan, job, now),
        (Some(set), Some(own)) => run(plan, job, seen, (set, own), tasks, now),
        (Some(set), None) => wait(plan, job, seen, set, &tasks, now),
    }
}

/// A job that was refused is looked at again when its spec was changed, unless it had
/// begun: its servers know its id as that of an operation that has ended.
fn is_corrected(plan: &Plan, job: &SampleJob) -> bool {
    let refused = plan.told(FAILED).is_some_and(|told| told.reason == INVALID);
    let has_begun = plan.status.start_time.is_some();
    refused && !has_begun && plan.status.observed_generation != job.metadata.generation
}

/// The lock goes back once the result is in the cached status; a sync that copied
/// something leaves it to the set, which caches before any other job comes.
fn end(plan: &mut Plan, job: &SampleJob, seen: &Seen, now: Timestamp) {
    let own = seen.set.as_deref().and_then(|set| lock::own(job, set));
    if let Some(lock) = own {
        let copied = plan.status.phase == Some(SampleJobPhase::Succeeded)
            && lock.type_ == Operation::Sync
            && !validity::is_dry(job);
        plan.lock = Some(Lock {
            operation: copied.then(|| OperationStatus {
                follow_up: Some(Operation::Warmup),
                ..lock.clone()
            }),
        });
        // For what comes after the lock, and should it not be taken back.
        return plan.look_again(now);
    }
    let ttl = job
        .spec
        .ttl_seconds_after_finished
        .map(|ttl| ttl.max(0).into());
    let ended = plan.status.completion_time.as_ref().map(|time| time.0);
    let until = ttl
        .zip(ended)
        .and_then(|(ttl, ended)| ended.checked_add(SignedDuration::from_secs(ttl)).ok());
    match until {
        Some(until) if until <= now => plan.deletes_job = true,
        Some(until) => plan.wake_at(until),
        None => {}
    }
}

fn without_set(plan: &mut Plan, job: &SampleJob, now: Timestamp) {
    let set = job
        .spec
        .sample_set_ref
        .as_ref()
        .and_then(|set| set.name.as_deref());
    let set = set.unwrap_or_default();
    if plan.status.phase == Some(SampleJobPhase::Running) {
        let message = format!("SampleSet {set} was deleted while the operation ran");
        return fail(plan, job, "SampleSetGone", &message, now);
    }
    let message = format!("there is no SampleSet {set} in this namespace; create it");
    hold(plan, job, &Obstacle::new("SampleSetMissing", message), now);
}

/// Says what the job waits for.
fn hold(plan: &mut Plan, job: &SampleJob, obstacle: &Obstacle, now: Timestamp) {
    plan.status.phase = Some(SampleJobPhase::Pending);
    plan.status.message = Some(obstacle.message.clone());
    plan.say(
        job,
        (WAITING, true),
        obstacle.reason,
        obstacle.message.clone(),
        now,
    );
}

/// Waits, or takes the lock when it is this job's turn.
fn wait(
    plan: &mut Plan,
    job: &SampleJob,
    seen: &Seen,
    set: &SampleSet,
    tasks: &BTreeMap<i32, Task>,
    now: Timestamp,
) {
    let lock = lock::of(set);
    let obstacle = obstacle(job, seen, set);
    if let Err(obstacle) = obstacle {
        plan.look_again(now);
        return hold(plan, job, &obstacle, now);
    }
    let first = turn::before(job, lock, seen);
    let message = match (lock, first) {
        (_, Some(first)) => format!("waits for {}", first.name),
        (Some(lock), None) => format!("waits for {}", turn::holder(set, lock, seen)),
        (None, None) => "it is the turn of this job".to_owned(),
    };
    hold(plan, job, &Obstacle::new(TURN, message), now);
    match lock {
        None if first.is_none() => plan.lock = Some(lock::taken(job, set, tasks)),
        Some(lock) if first.is_none() && job.spec.terminate == Some(true) => {
            plan.cancelled.extend(ending(seen, lock).cancelled);
        }
        _ => {}
    }
}

/// What keeps the job from running, whoever else waits.
fn obstacle(job: &SampleJob, seen: &Seen, set: &SampleSet) -> Result<(), Obstacle> {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    if set.metadata.deletion_timestamp.is_some() {
        let message = format!("SampleSet {name} is being deleted");
        return Err(Obstacle::new("SampleSetGoing", message));
    }
    let phase = set.status.as_ref().and_then(|status| status.phase);
    if !phase.is_some_and(is_mounted) {
        let phase = phase.map_or_else(|| "not bound yet".to_owned(), |phase| phase.to_string());
        let message =
            format!("SampleSet {name} is {phase}; the job waits until its volume is mounted");
        return Err(Obstacle::new("SampleSetNotMounted", message));
    }
    let needed = match job.spec.type_ {
        Some(Operation::Sync) => 0..1,
        _ => 0..partitions(set),
    };
    let ready = |partition: i32| {
        let mut pods = seen.pods.iter();
        pods.any(|pod| pod.partition == partition && pod.is_ready && pod.deleted_at.is_none())
    };
    let mut needed = needed;
    if let Some(partition) = needed.find(|partition| !ready(*partition)) {
        let message = format!(
            "the runtime server {} is not ready",
            names::runtime_pod(name, partition)
        );
        return Err(Obstacle::new("RuntimeMissing", message));
    }
    if job.spec.type_ == Some(Operation::Sync) {
        sync_secrets(job, set, seen)?;
    }
    Ok(())
}

/// The Secrets with the keys of a sync: those of the job, else of the set's
/// source, else of the volume.
pub(super) fn credentials(job: &SampleJob, set: &SampleSet) -> Option<Credentials> {
    let volume = set.status.as_ref()?.volume.as_ref()?.secret.clone();
    let own = job.spec.secret_ref.as_ref();
    let source = set
        .spec
        .source
        .as_ref()
        .and_then(|source| source.secret_ref.as_ref());
    let source = own.or(source).and_then(|secret| secret.name.clone());
    Some(Credentials::new(volume, source))
}

fn sync_secrets(job: &SampleJob, set: &SampleSet, seen: &Seen) -> Result<(), Obstacle> {
    let (volume, source) = (seen.volume_secret.as_ref(), seen.source_secret.as_ref());
    can_sync(credentials(job, set), volume, source)
}

/// Follows the operation of the job, which has the lock.
fn run(
    plan: &mut Plan,
    job: &SampleJob,
    seen: &Seen,
    (set, lock): (&SampleSet, &OperationStatus),
    mut tasks: BTreeMap<i32, Task>,
    now: Timestamp,
) {
    if plan.status.phase != Some(SampleJobPhase::Running) {
        plan.status.phase = Some(SampleJobPhase::Running);
        plan.status.start_time.get_or_insert(Time(now));
        plan.status.job_name = Some(lock.id.clone());
        plan.status.terminates = Some(job.spec.terminate == Some(true));
        plan.say(
            job,
            (WAITING, false),
            "Running",
            "the operation is under way",
            now,
        );
    } else if job.spec.terminate == Some(true) && plan.status.terminates != Some(true) {
        let why = (TERMINATED, "spec.terminate was set");
        return stop(plan, job, seen, lock, why, now);
    }
    let key = lock::key(set, &tasks);
    let is_unasked = operation::state(&seen.answers, 0, &lock.id) == State::NotFound;
    if lock.key != key && is_unasked {
        // The source was changed since: the lock says what is really copied.
        let operation = Some(OperationStatus {
            key,
            ..lock.clone()
        });
        plan.lock = Some(Lock { operation });
        return;
    }
    // Partitions that came later are the set's to warm.
    tasks.retain(|partition, _| lock.partitions.is_none_or(|all| *partition < all));
    let is_sync = lock.type_ == Operation::Sync;
    let order = Order {
        id: &lock.id,
        owner: &lock.owner,
        tasks,
        credentials: credentials(job, set).filter(|_| is_sync),
        pods: &seen.pods,
    };
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let course = operation::follow(&order, &seen.answers, |at| names::runtime_pod(name, at));
    plan.cancelled.extend(course.cancelled);
    if is_sync
        && !course.posted.is_empty()
        && let Err(obstacle) = sync_secrets(job, set, seen)
    {
        plan.look_again(now);
        plan.status.message = Some(obstacle.message);
        return;
    }
    plan.posted.extend(course.posted);
    match course.outcome {
        Outcome::Running { progress, message } => {
            if message.is_some() {
                plan.look_again(now);
            }
            let known = progress != Progress::default();
            plan.status.progress = known.then_some(progress);
            plan.status.message = message;
        }
        Outcome::Succeeded(done) => succeed(plan, job, lock.type_, &done, now),
        Outcome::Failed { reason, message } => fail(plan, job, &reason, &message, now),
        Outcome::Cancelled => {
            let message = match set.metadata.deletion_timestamp {
                Some(_) => "it was cancelled because its SampleSet is being deleted",
                None => "another SampleJob with terminate: true cancelled it",
            };
            fail(plan, job, TERMINATED, message, now);
        }
    }
}

/// How the operation comes to its end on all servers.
fn ending(seen: &Seen, lock: &OperationStatus) -> Ending {
    operation::end(&lock.id, lock.type_, &seen.pods, &seen.answers)
}

/// Ends the operation of a running job, which has failed when it has ended everywhere.
fn stop(
    plan: &mut Plan,
    job: &SampleJob,
    seen: &Seen,
    lock: &OperationStatus,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let ending = ending(seen, lock);
    plan.cancelled.extend(ending.cancelled);
    match ending.waits_for {
        None => fail(plan, job, reason, message, now),
        Some(waits_for) => {
            plan.status.message = Some(format!("{message}; waits for {waits_for}"));
            plan.look_again(now);
        }
    }
}

fn succeed(
    plan: &mut Plan,
    job: &SampleJob,
    type_: Operation,
    done: &BTreeMap<i32, Done>,
    now: Timestamp,
) {
    let sum = |pick: fn(&Done) -> i64| {
        done.values()
            .fold(0_i64, |all, done| all.saturating_add(pick(done)))
    };
    let (files, bytes) = (sum(|done| done.files), sum(|done| done.bytes));
    let cached = percent(Some(sum(|done| done.cached_bytes)), Some(bytes)).unwrap_or(100);
    let message = match type_ {
        Operation::Sync if validity::is_dry(job) => format!("{files} files would be copied"),
        Operation::Sync => format!("{files} files of the source are there"),
        Operation::Warmup => format!("{cached}% of {files} files are cached"),
        Operation::Clear => "what was cached is dropped".to_owned(),
        Operation::Rmr => "the paths are removed".to_owned(),
    };
    plan.status.progress = Some(Progress {
        files: Some(files),
        total_files: Some(files),
        bytes: Some(bytes),
        total_bytes: Some(bytes),
        percent: Some(100),
    });
    conclude(plan, job, SampleJobPhase::Succeeded, &message, now);
    plan.say(job, (COMPLETE, true), "Succeeded", message.clone(), now);
    plan.events.push(Event::normal("Succeeded", message));
}

fn fail(plan: &mut Plan, job: &SampleJob, reason: &str, message: &str, now: Timestamp) {
    conclude(plan, job, SampleJobPhase::Failed, message, now);
    plan.say(job, (FAILED, true), reason, message, now);
    plan.events
        .push(Event::warning("Failed", format!("{reason}: {message}")));
}

fn conclude(
    plan: &mut Plan,
    job: &SampleJob,
    phase: SampleJobPhase,
    message: &str,
    now: Timestamp,
) {
    plan.status.phase = Some(phase);
    plan.status.message = Some(message.to_owned());
    plan.status.completion_time = Some(Time(now));
    if plan.told(WAITING).is_some() {
        plan.say(job, (WAITING, false), "Ended", "the job has ended", now);
    }
}
