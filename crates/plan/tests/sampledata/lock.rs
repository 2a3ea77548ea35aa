//! One data operation per set at a time.

use api::{Operation, SampleJobPhase, SampleSetPhase};
use plan::operation::State;

use crate::support::*;

fn ready() -> Stage {
    stage(set("imagenet").partitions(2)).settle()
}

#[test]
fn nothing_is_asked_of_a_server_before_the_lock_is_seen() {
    let mut stage = stage(set("imagenet"));
    while stage
        .set()
        .status
        .as_ref()
        .is_none_or(|status| status.operation.is_none())
    {
        assert!(stage.posts.is_empty());
        stage.step();
    }
    let plan = stage.plan_set();
    assert_eq!(plan.posted.len(), 1);
    assert_eq!(
        plan.posted[0].id,
        stage.status().operation.as_ref().unwrap().id
    );
}

#[test]
fn jobs_go_one_by_one_in_order_of_creation() {
    let stage = ready().says(Operation::Clear, running());
    let stage = stage
        .with(job("second", Operation::Clear).created(now() + seconds(2)))
        .with(job("first", Operation::Clear).created(now() + seconds(1)));
    let stage = stage.settle();
    assert_eq!(stage.job_phase("first"), Some(SampleJobPhase::Running));
    assert_eq!(stage.job_phase("second"), Some(SampleJobPhase::Pending));
    assert_eq!(stage.job_told("second", "Waiting").1, "waits for first");
    let stage = stage
        .turns(succeeded())
        .settle()
        .turns(succeeded())
        .settle();
    assert_eq!(stage.job_phase("first"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.job_phase("second"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.job_told("second", "Waiting").1, "the job has ended");
    assert_eq!(stage.status().operation, None);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn the_lock_goes_back_only_after_the_result_is_in_the_status() {
    let mut stage = ready().with(job("a", Operation::Clear));
    while stage.job_phase("a") != Some(SampleJobPhase::Succeeded) {
        assert!(stage.step());
    }
    assert_eq!(stage.status().operation.as_ref().unwrap().owner, "uid-a");
    let stage = stage.settle();
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_sync_of_a_job_is_followed_by_the_warmup_of_the_set_before_other_jobs() {
    let stage = ready()
        .with(job("a", Operation::Sync))
        .says(Operation::Warmup, running());
    let stage = stage
        .with(job("b", Operation::Clear).created(now() + seconds(1)))
        .settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
    assert_eq!(stage.job_phase("b"), Some(SampleJobPhase::Pending));
    assert_eq!(
        stage.job_told("b", "Waiting").1,
        "waits for the warmup of SampleSet imagenet"
    );
    let stage = stage.turns(succeeded()).settle();
    assert_eq!(stage.job_phase("b"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn clear_and_rmr_are_not_followed_by_a_warmup() {
    let stage = ready().with(job("a", Operation::Rmr).removes(&["n01514859"]));
    let stage = stage.with(job("b", Operation::Clear)).settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    let warmups = stage
        .posted(0)
        .into_iter()
        .filter(|posted| *posted == Operation::Warmup);
    assert_eq!(warmups.count(), 1);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn an_operation_whose_owner_is_gone_is_cancelled_and_the_lock_emptied() {
    let stage = ready()
        .says(Operation::Clear, running())
        .with(job("a", Operation::Clear))
        .settle();
    let stage = stage.change(|stage| stage.jobs.clear()).settle();
    assert_eq!(stage.status().operation, None);
    let states = stage
        .servers
        .values()
        .flat_map(|server| server.operations.values());
    assert_eq!(
        states.filter(|state| **state == State::Cancelled).count(),
        2
    );
}

#[test]
fn data_that_a_deleted_job_has_copied_is_cached() {
    let stage = ready()
        .says(Operation::Sync, running())
        .with(job("a", Operation::Sync))
        .settle();
    let before = stage.posted(0).len();
    let stage = stage.turns(succeeded());
    let stage = stage.change(|stage| stage.jobs.clear()).settle();
    assert_eq!(stage.posted(0).split_off(before), [Operation::Warmup]);
    assert_eq!(stage.status().operation, None);
}

#[test]
fn terminate_on_a_new_job_goes_first_and_ends_what_runs() {
    let stage = ready().says(Operation::Warmup, running());
    let stage = stage.with(job("runs", Operation::Warmup));
    let stage = stage
        .with(job("waits", Operation::Clear).created(now() + seconds(1)))
        .settle();
    assert_eq!(stage.job_phase("runs"), Some(SampleJobPhase::Running));
    let last = job("last", Operation::Rmr)
        .removes(&["x"])
        .terminate()
        .created(now() + seconds(2));
    let stage = stage.says(Operation::Rmr, running()).with(last).settle();
    assert_eq!(stage.job_phase("runs"), Some(SampleJobPhase::Failed));
    assert_eq!(stage.job_told("runs", "Failed").0, "Terminated");
    assert_eq!(
        stage.job_phase("last"),
        Some(SampleJobPhase::Running),
        "it does not cancel itself"
    );
    assert_eq!(stage.job_phase("waits"), Some(SampleJobPhase::Pending));
}

#[test]
fn a_job_that_terminates_is_terminated_by_the_next() {
    let first = job("first", Operation::Warmup).terminate();
    let stage = ready().says(Operation::Warmup, running()).with(first);
    let stage = stage.settle();
    assert_eq!(stage.job_phase("first"), Some(SampleJobPhase::Running));
    let second = job("second", Operation::Clear)
        .terminate()
        .created(now() + seconds(1));
    let stage = stage.with(second).settle();
    assert_eq!(stage.job_told("first", "Failed").0, "Terminated");
    assert_eq!(stage.job_phase("second"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.status().operation, None);
}

#[test]
fn terminate_on_a_new_job_ends_the_sync_of_the_set() {
    let stage = stage(set("imagenet"))
        .says(Operation::Sync, running())
        .settle();
    let stage = stage.with(job("a", Operation::Clear).terminate()).settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    assert_eq!(stage.told("Synced").0, "Terminated");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(300)));
}

#[test]
fn terminate_on_a_running_job_ends_it() {
    let stage = ready()
        .says(Operation::Warmup, running())
        .with(job("a", Operation::Warmup))
        .settle();
    let stage = stage.change(|stage| {
        let edited = stage.job("a").clone().terminate();
        *stage.job_mut("a") = edited;
    });
    let stage = stage.settle();
    assert_eq!(stage.job_told("a", "Failed").0, "Terminated");
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_job_may_run_when_the_sync_of_the_set_has_failed_and_its_sync_counts() {
    let stage = stage(set("imagenet")).says(Operation::Sync, failed("Unreachable", "no route"));
    let stage = stage.settle().after(10).after(30);
    assert_eq!(stage.phase(), Some(SampleSetPhase::SyncFailed));
    let stage = stage
        .says(Operation::Sync, succeeded())
        .with(job("a", Operation::Sync))
        .settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn a_job_that_lacks_something_lets_others_go_first() {
    let lacking = job("a", Operation::Sync).edit(|spec| spec.secret_ref = secret_ref("missing"));
    let stage = ready()
        .with(lacking)
        .with(job("b", Operation::Clear).created(now() + seconds(1)));
    let stage = stage.settle();
    assert_eq!(stage.job_told("a", "Waiting").0, "SecretMissing");
    assert_eq!(stage.job_phase("b"), Some(SampleJobPhase::Succeeded));
}
