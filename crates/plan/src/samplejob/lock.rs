//! The lock of a SampleSet, `status.operation`, as its SampleJobs see it.

use std::collections::BTreeMap;

use api::{OperationStatus, SampleJob, SampleSet};

use super::Lock;
use crate::operation::Task;
use crate::sampleset::{key_of_sync, partitions};

/// Whoever has it.
pub(super) fn of(set: &SampleSet) -> Option<&OperationStatus> {
    set.status.as_ref()?.operation.as_ref()
}

/// If it is the job's. From its follow-up on it is the set's.
pub(super) fn own<'a>(job: &SampleJob, set: &'a SampleSet) -> Option<&'a OperationStatus> {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    of(set).filter(|lock| lock.owner == uid && lock.follow_up.is_none())
}

/// Whether a job that has it still asks for what it was taken for; or what is wrong.
pub(super) fn fits(job: &SampleJob, own: Option<&OperationStatus>) -> Result<(), String> {
    match (own, job.spec.type_) {
        (Some(own), Some(type_)) if own.type_ != type_ => Err(format!(
            "spec.type was changed to {type_} while the {} was under way; create another job",
            own.type_
        )),
        _ => Ok(()),
    }
}

/// Taken for the job.
pub(super) fn taken(job: &SampleJob, set: &SampleSet, tasks: &BTreeMap<i32, Task>) -> Lock {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    Lock {
        operation: job.spec.type_.map(|type_| OperationStatus {
            id: uid.clone(),
            type_,
            owner: uid,
            follow_up: None,
            partitions: Some(partitions(set)),
            key: key(set, tasks),
        }),
    }
}

/// By what the set knows that its own copy was made.
pub(super) fn key(set: &SampleSet, tasks: &BTreeMap<i32, Task>) -> Option<String> {
    match tasks.get(&0) {
        Some(Task::Sync(task)) => key_of_sync(set, task),
        _ => None,
    }
}
