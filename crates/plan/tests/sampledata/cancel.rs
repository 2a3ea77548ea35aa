//! An operation that nobody wants any more has ended on every server before the next
//! one begins.

use api::{Operation, SampleJobPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::operation::State;

use crate::support::*;

/// Two servers at the warmup of a job.
fn warming() -> Stage {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let stage = stage.says(Operation::Warmup, running());
    let stage = stage.with(job("a", Operation::Warmup)).settle();
    assert!(stage.is_busy(0) && stage.is_busy(1));
    stage
}

fn terminated(stage: Stage) -> Stage {
    stage.change(|stage| {
        let edited = stage.job("a").clone().terminate();
        *stage.job_mut("a") = edited;
    })
}

fn message(stage: &Stage) -> String {
    let status = stage.job("a").status.clone().unwrap();
    status.message.unwrap_or_default()
}

#[test]
fn the_lock_of_a_deleted_job_stays_until_a_silent_server_has_ended_it() {
    let stage = warming().silence(1).change(|stage| stage.jobs.clear());
    let stage = stage.settle();
    assert!(!stage.is_busy(0) && stage.is_busy(1));
    assert_eq!(stage.status().operation.as_ref().unwrap().owner, "uid-a");
    let (_, message) = stage.told("Cancelling");
    assert_eq!(
        message,
        "the warmup uid-a is no longer wanted; waits for imagenet-runtime-1, which does not answer: connection refused"
    );
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
    let stage = stage.hear().settle();
    assert_eq!(stage.status().operation, None);
    assert!(!stage.is_busy(1));
    let mut told = stage.status().conditions.iter();
    assert!(!told.any(|told| told.type_ == "Cancelling"));
}

#[test]
fn nothing_is_known_of_servers_that_have_not_been_asked_yet() {
    let mut stage = warming().change(|stage| stage.jobs.clear());
    let servers = std::mem::take(&mut stage.servers);
    let plan = stage.plan_set();
    assert!(plan.status.operation.is_some());
    stage.servers = servers;
    assert_eq!(stage.settle().status().operation, None);
}

#[test]
fn a_terminated_job_fails_when_a_silent_server_has_ended_it() {
    let stage = terminated(warming().silence(0)).settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Running));
    assert_eq!(
        message(&stage),
        "spec.terminate was set; waits for imagenet-runtime-0, which does not answer: connection refused"
    );
    assert_eq!(stage.plan_job("a").wake_at, Some(now() + seconds(10)));
    let stage = stage.hear().settle();
    assert_eq!(stage.job_told("a", "Failed").0, "Terminated");
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_failed_job_has_ended_on_the_other_servers_before_it_gives_the_lock_back() {
    let stage = warming().silence(0).change(|stage| {
        let server = stage.servers.get_mut(&1).unwrap();
        let state = failed("DiskFull", "no space left");
        server.operations.insert("uid-a".to_owned(), state);
    });
    let stage = stage.settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Running));
    assert!(
        message(&stage).starts_with("imagenet-runtime-1: no space left; waits for"),
        "{}",
        message(&stage)
    );
    let stage = stage.hear().settle();
    assert_eq!(stage.job_told("a", "Failed").0, "DiskFull");
    assert_eq!(stage.servers[&0].operations["uid-a"], State::Cancelled);
}

#[test]
fn a_server_whose_pod_is_gone_is_not_waited_for() {
    let gone = |stage: &mut Stage| {
        stage.works = false;
        stage.seen.pods.retain(|pod| pod.partition != 1);
    };
    let stage = warming().silence(1).change(gone);
    let stage = stage.change(|stage| stage.jobs.clear()).settle();
    assert_eq!(stage.status().operation, None);
    let stage = terminated(warming().silence(1).change(gone)).settle();
    assert_eq!(stage.job_told("a", "Failed").0, "Terminated");
}

#[test]
fn a_server_that_does_not_run_is_not_waited_for() {
    for change in [
        |pod: &mut plan::sampleset::RuntimePod| pod.trouble = Some("CrashLoopBackOff: ".into()),
        |pod: &mut plan::sampleset::RuntimePod| pod.ip = None,
    ] {
        let stage = warming().change(|stage| {
            stage.jobs.clear();
            let mut pods = stage.seen.pods.iter_mut();
            let pod = pods.find(|pod| pod.partition == 1).unwrap();
            pod.is_ready = false;
            change(pod);
            stage.servers.remove(&1);
        });
        assert_eq!(stage.settle().status().operation, None);
    }
}

#[test]
fn a_sync_is_a_matter_of_one_server() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let stage = stage.says(Operation::Sync, running());
    let stage = stage.with(job("a", Operation::Sync)).settle().silence(1);
    let stage = stage.change(|stage| stage.jobs.clear()).settle();
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_set_that_is_deleted_does_not_wait_for_a_silent_server_for_ever() {
    let stage = warming().silence(1).edit(|mut set| {
        set.metadata.deletion_timestamp = Some(Time(now()));
        set
    });
    let stage = terminated(stage).settle();
    assert_eq!(stage.told("Deleting").0, "Clearing");
    let stage = stage.after(60);
    assert!(stage.set.is_none());
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Failed));
}

#[test]
fn a_fault_in_the_set_ends_the_operation_of_a_running_job_first() {
    let spoilt = |set: api::SampleSet| {
        set.edit(|spec| spec.warmup.get_or_insert_default().file = Some("../list".to_owned()))
    };
    let stage = warming().edit(spoilt);
    let plan = stage.plan_job("a");
    assert_eq!(plan.cancelled.len(), 2);
    assert_eq!(plan.status.phase, Some(SampleJobPhase::Running));
    let stage = stage.settle();
    let (reason, message) = stage.job_told("a", "Failed");
    assert_eq!(reason, "InvalidSpec");
    assert!(message.contains("warmup file"), "{message}");
    assert_eq!(stage.status().operation, None);
    // Its id is used up: whoever wants it done creates another job.
    let stage = stage.change(|stage| {
        let edited = stage.job("a").clone().edit(|spec| spec.suspend = None);
        *stage.job_mut("a") = edited;
    });
    assert_eq!(stage.settle().job_told("a", "Failed").0, "InvalidSpec");
}

#[test]
fn a_job_that_is_made_another_one_ends_what_it_began() {
    let stage = warming().change(|stage| {
        let edited = stage.job("a").clone();
        *stage.job_mut("a") = edited.edit(|spec| spec.type_ = Some(Operation::Clear));
    });
    let stage = stage.settle();
    let (reason, message) = stage.job_told("a", "Failed");
    assert_eq!(reason, "InvalidSpec");
    assert!(message.contains("was changed to clear"), "{message}");
    assert!(!stage.posted(0).contains(&Operation::Clear));
    assert_eq!(stage.status().operation, None);
}

#[test]
fn the_lock_of_a_job_that_turns_to_something_else_is_emptied() {
    type Edit = fn(&mut api::SampleJob);
    let edits: [Edit; 3] = [
        |job| job.spec.sample_set_ref.as_mut().unwrap().name = Some("other".to_owned()),
        |job| job.spec.schedule = Some("* * * * *".to_owned()),
        |job| job.metadata.deletion_timestamp = Some(Time(now())),
    ];
    for edit in edits {
        let stage = warming().change(|stage| edit(stage.job_mut("a")));
        let mut plan = stage.plan_set();
        assert_eq!(plan.cancelled.len(), 2);
        assert!(plan.status.operation.take().is_some());
        let stage = stage.settle();
        assert_eq!(stage.status().operation, None);
        assert!(!stage.is_busy(0) && !stage.is_busy(1));
    }
}

#[test]
fn a_set_looks_now_and_then_whether_the_owner_of_the_lock_still_minds() {
    let stage = warming();
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
}

#[test]
fn a_request_that_was_lost_is_made_again() {
    let stage = stage(set("imagenet")).change(|stage| stage.lost_posts = 1);
    let mut stage = stage;
    while stage.plan_set().posted.is_empty() {
        assert!(stage.step());
    }
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(api::SampleSetPhase::Ready));
    let stage = stage.change(|stage| stage.lost_posts = 1);
    let mut stage = stage.with(job("a", Operation::Clear));
    while stage.plan_job("a").posted.is_empty() {
        assert!(stage.step());
    }
    assert_eq!(stage.plan_job("a").wake_at, Some(now() + seconds(10)));
    let stage = stage.settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
}
