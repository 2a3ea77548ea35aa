//! How an operation goes on, from what all servers say of it.

use std::collections::{BTreeMap, BTreeSet};

use api::{Operation, Progress};

use super::{Answers, Cancel, Credentials, Done, Listing, Post, State, Task, state};
use crate::sampleset::RuntimePod;

/// An operation that is to be done on some partitions.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// Its id.
    pub id: &'a str,
    /// The uid of the SampleSet or SampleJob that wants it.
    pub owner: &'a str,
    /// What each partition is to do, by partition.
    pub tasks: BTreeMap<i32, Task>,
    /// Where its keys are.
    pub credentials: Option<Credentials>,
    /// The pods of all servers that may know of it.
    pub pods: &'a [RuntimePod],
}

/// What follows from the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// What is to be posted now.
    pub posted: Vec<Post>,
    /// What is to be cancelled now.
    pub cancelled: Vec<Cancel>,
    /// How it stands.
    pub outcome: Outcome,
}

/// How an operation stands, on all servers together.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is under way.
    Running {
        /// How far, summed.
        progress: Progress,
        /// What it waits for, if it does.
        message: Option<String>,
    },
    /// It is done on every server.
    Succeeded(BTreeMap<i32, Done>),
    /// It failed.
    Failed {
        /// One word.
        reason: String,
        /// Which server, and why.
        message: String,
    },
    /// Somebody cancelled it.
    Cancelled,
}

const EVICT: &str = "-evict";
const RECOUNT: &str = "-recount";
const AGAIN: &str = "-again";

/// The ids under which an operation may be known to the servers: an `rmr`
/// begins with an eviction and ends with a count, and a warmup may be done twice.
pub fn ids(id: &str, operation: Operation) -> BTreeSet<String> {
    let mut ids = BTreeSet::from([id.to_owned()]);
    match operation {
        Operation::Rmr => ids.extend([format!("{id}{EVICT}"), format!("{id}{RECOUNT}")]),
        Operation::Warmup => ids.extend([format!("{id}{AGAIN}")]),
        Operation::Sync | Operation::Clear => {}
    }
    ids
}

/// How an operation comes to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// What is to be cancelled now.
    pub cancelled: Vec<Cancel>,
    /// The server that may still be at it, and why; `None`: it has ended everywhere.
    pub waits_for: Option<String>,
}

/// Ends an operation wherever it is under way. A server that does not answer may be at
/// it, for all that is known; one whose pod is gone, or does not run, is not.
pub fn end(id: &str, operation: Operation, pods: &[RuntimePod], answers: &Answers) -> Ending {
    let mut ending = Ending {
        cancelled: Vec::new(),
        waits_for: None,
    };
    for pod in pods {
        // No other server is ever asked to copy.
        let concerns = operation != Operation::Sync || pod.partition == 0;
        for id in ids(id, operation) {
            let waits = match state(answers, pod.partition, &id) {
                State::Queued | State::NeedsCredentials | State::Running(_) => {
                    let partition = pod.partition;
                    ending.cancelled.push(Cancel { partition, id });
                    format!("{}, which has not ended it yet", pod.name)
                }
                State::Unreachable { message } if concerns && pod.may_work() => {
                    format!("{}, which {}", pod.name, silence(message))
                }
                _ => continue,
            };
            ending.waits_for.get_or_insert(waits);
        }
    }
    ending
}

/// What is to be done next for `order`. `name` gives the name of a partition's
/// server.
pub fn follow(order: &Order<'_>, answers: &Answers, name: impl Fn(i32) -> String) -> Course {
    let Some(operation) = order.tasks.values().next().map(Task::operation) else {
        return step(order, answers, &name);
    };
    let course = match operation {
        Operation::Rmr => remove(order, answers, &name),
        Operation::Warmup => warm(order, answers, &name),
        Operation::Sync | Operation::Clear => step(order, answers, &name),
    };
    settle(course, order, operation, answers)
}

/// A result counts when nothing of the operation is under way any more: whoever has it
/// gives the lock back. Success does not wait for servers that were never asked.
fn settle(course: Course, order: &Order<'_>, operation: Operation, answers: &Answers) -> Course {
    let (result, awaits_all) = match &course.outcome {
        Outcome::Running { .. } => return course,
        Outcome::Succeeded(_) => ("it is done", false),
        Outcome::Failed { message, .. } => (message.as_str(), true),
        Outcome::Cancelled => ("it was cancelled", true),
    };
    let Ending {
        cancelled,
        waits_for,
    } = end(order.id, operation, order.pods, answers);
    let waits_for = waits_for.filter(|_| awaits_all || !cancelled.is_empty());
    let Some(waits_for) = waits_for else {
        return course;
    };
    Course {
        posted: Vec::new(),
        cancelled,
        outcome: Outcome::Running {
            progress: Progress::default(),
            message: Some(format!("{result}; waits for {waits_for}")),
        },
    }
}

/// Every partition evicts, then partition 0 removes: what is removed first can't
/// be evicted any more. Then the others count what they should hold, as partition 0 has.
fn remove(order: &Order<'_>, answers: &Answers, name: &impl Fn(i32) -> String) -> Course {
    let first = |(partition, task): (&i32, &Task)| (*partition, task.clone());
    let removal = Order {
        tasks: order.tasks.iter().take(1).map(first).collect(),
        ..order.clone()
    };
    let begun = removal.tasks.keys().any(|partition| {
        !matches!(
            state(answers, *partition, order.id),
            State::NotFound | State::Unreachable { .. }
        )
    });
    let id = format!("{}{EVICT}", order.id);
    let evict = |(partition, task): (&i32, &Task)| match task {
        Task::Rmr { paths } => Some((
            *partition,
            Task::Clear {
                paths: paths.clone(),
            },
        )),
        _ => None,
    };
    let eviction = Order {
        id: &id,
        tasks: order.tasks.iter().skip(1).filter_map(evict).collect(),
        ..order.clone()
    };
    if eviction.tasks.is_empty() {
        return step(&removal, answers, name);
    }
    if !begun {
        let course = step(&eviction, answers, name);
        if !matches!(course.outcome, Outcome::Succeeded(_)) {
            return course;
        }
    }
    let removed = step(&removal, answers, name);
    if !matches!(removed.outcome, Outcome::Succeeded(_)) {
        return removed;
    }
    let id = format!("{}{RECOUNT}", order.id);
    let others = eviction.tasks.keys();
    let counted = Order {
        id: &id,
        tasks: others
            .map(|partition| (*partition, Task::Recount))
            .collect(),
        ..order.clone()
    };
    let counted = step(&counted, answers, name);
    match counted.outcome {
        Outcome::Succeeded(_) => removed,
        _ => counted,
    }
}

/// Servers that disagree about what there is would leave gaps: it is done once
/// more, and then it has failed.
fn warm(order: &Order<'_>, answers: &Answers, name: &impl Fn(i32) -> String) -> Course {
    let course = step(order, answers, name);
    let Outcome::Succeeded(done) = &course.outcome else {
        return course;
    };
    if agree(done) {
        return judge(course, answers);
    }
    let id = format!("{}{AGAIN}", order.id);
    let again = Order {
        id: &id,
        ..order.clone()
    };
    let course = step(&again, answers, name);
    match &course.outcome {
        Outcome::Succeeded(done) if !agree(done) => Course {
            outcome: Outcome::Failed {
                reason: "ListingsDiffer".to_owned(),
                message: "the runtime servers found different files, twice: was the data changed meanwhile?".to_owned(),
            },
            ..course
        },
        _ => judge(course, answers),
    }
}

fn agree(done: &BTreeMap<i32, Done>) -> bool {
    let listings = done.values().filter_map(|done| done.listing);
    let mut crcs: Vec<(i64, u32)> = listings
        .map(|Listing { count, crc }| (count, crc))
        .collect();
    crcs.dedup();
    crcs.len() <= 1
}

/// An order that selects nothing of what is there is a mistake, not a success.
fn judge(course: Course, answers: &Answers) -> Course {
    let Outcome::Succeeded(done) = &course.outcome else {
        return course;
    };
    let selected = done
        .values()
        .filter_map(|done| done.listing)
        .any(|found| found.count > 0);
    let totals = answers
        .values()
        .filter_map(|answer| answer.cache.as_ref()?.total);
    let files = totals.map(|total| total.files).max().unwrap_or(0);
    if selected || files == 0 {
        return course;
    }
    Course {
        outcome: Outcome::Failed {
            reason: "NoSamples".to_owned(),
            message: format!(
                "the data has {files} files, but warmup order, paths and file select none of them"
            ),
        },
        ..course
    }
}

/// One id, on all servers that it is for.
fn step(order: &Order<'_>, answers: &Answers, name: &impl Fn(i32) -> String) -> Course {
    let states: BTreeMap<i32, State> = order
        .tasks
        .keys()
        .map(|partition| (*partition, state(answers, *partition, order.id)))
        .collect();
    // A failure on one server is why it was cancelled on the others.
    let failed = states.iter().find_map(|(partition, state)| match state {
        State::Failed { reason, message } => Some(Outcome::Failed {
            reason: reason.clone(),
            message: format!("{}: {message}", name(*partition)),
        }),
        _ => None,
    });
    let mut all = states.values();
    let cancelled = all.any(|state| *state == State::Cancelled);
    if let Some(outcome) = failed.or(cancelled.then_some(Outcome::Cancelled)) {
        return Course {
            posted: Vec::new(),
            cancelled: Vec::new(),
            outcome,
        };
    }
    let asks = |state: &State| matches!(state, State::NotFound | State::NeedsCredentials);
    let asked = order
        .tasks
        .iter()
        .filter(|(partition, _)| states.get(partition).is_some_and(asks));
    let posted = asked.map(|(partition, task)| Post {
        partition: *partition,
        id: order.id.to_owned(),
        owner: order.owner.to_owned(),
        task: task.clone(),
        credentials: order.credentials.clone(),
    });
    Course {
        posted: posted.collect(),
        cancelled: Vec::new(),
        outcome: under_way(&states, answers, name),
    }
}

fn under_way(
    states: &BTreeMap<i32, State>,
    answers: &Answers,
    name: &impl Fn(i32) -> String,
) -> Outcome {
    let done = states.iter().filter_map(|(partition, state)| match state {
        State::Succeeded(done) => Some((*partition, done.clone())),
        _ => None,
    });
    let done: BTreeMap<i32, Done> = done.collect();
    if done.len() == states.len() && !states.is_empty() {
        return Outcome::Succeeded(done);
    }
    let is_heard = |partition: &i32| {
        let answer = answers.get(partition);
        answer.is_some_and(|answer| answer.cache.is_some())
    };
    let message = states.iter().find_map(|(partition, state)| match state {
        // It was asked for this just now.
        State::Unreachable { message: None } if is_heard(partition) => None,
        State::Unreachable { message } => {
            Some(format!("{} {}", name(*partition), silence(message.clone())))
        }
        _ => None,
    });
    Outcome::Running {
        progress: sum(states.values()),
        message,
    }
}

/// A server that is starting is nothing to worry about.
fn silence(message: Option<String>) -> String {
    match message {
        Some(message) => format!("does not answer: {message}"),
        None => "has not answered yet".to_owned(),
    }
}

/// The progress of all servers together.
fn sum<'a>(states: impl Iterator<Item = &'a State>) -> Progress {
    let mut all = Progress::default();
    let add = |to: &mut Option<i64>, more: Option<i64>| {
        if let Some(more) = more {
            *to = Some(to.unwrap_or(0).saturating_add(more));
        }
    };
    for state in states {
        let progress = match state {
            State::Running(progress) => progress.clone(),
            State::Succeeded(done) => Progress {
                files: Some(done.files),
                total_files: Some(done.files),
                bytes: Some(done.bytes),
                total_bytes: Some(done.bytes),
                percent: None,
            },
            _ => continue,
        };
        add(&mut all.files, progress.files);
        add(&mut all.total_files, progress.total_files);
        add(&mut all.bytes, progress.bytes);
        add(&mut all.total_bytes, progress.total_bytes);
    }
    all.percent =
        percent(all.bytes, all.total_bytes).or_else(|| percent(all.files, all.total_files));
    all
}

/// `part` of `whole` in percent, rounded down: 100 means all of it.
pub(crate) fn percent(part: Option<i64>, whole: Option<i64>) -> Option<i32> {
    let (part, whole) = (i128::from(part?), i128::from(whole?));
    if whole <= 0 {
        return None;
    }
    i32::try_from((part * 100 / whole).clamp(0, 100)).ok()
}
