//! Schedules: as CronJobs keep them, through changes of the clock too.

use api::{ConcurrencyPolicy, CronJobStatus, Operation, SampleJob, SampleJobPhase};
use jiff::Timestamp;

use crate::support::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn scheduled(schedule: &str) -> SampleJob {
    job("nightly", Operation::Clear).edit(|spec| spec.schedule = Some(schedule.to_owned()))
}

/// A stage at `start`, on which the schedule was just created.
fn on(start: &str, job: SampleJob) -> Stage {
    let stage = stage(set("imagenet")).change(|stage| stage.now = at(start));
    stage.settle().with(job.created(at(start))).settle()
}

fn runs(stage: &Stage) -> Vec<&str> {
    let names = stage
        .jobs
        .iter()
        .filter_map(|job| job.metadata.name.as_deref());
    names.filter(|name| *name != "nightly").collect()
}

fn go(stage: Stage, to: &str) -> Stage {
    let by = at(to).duration_since(stage.now).as_secs();
    stage.after(by)
}

fn cron(stage: &Stage) -> CronJobStatus {
    let status = stage.job("nightly").status.clone().unwrap();
    status.cron_job_status.unwrap()
}

#[test]
fn a_run_is_made_for_every_minute_and_named_after_it() {
    let stage = on("2026-11-16T08:00:30Z", scheduled("* * * * *"));
    assert_eq!(stage.job_phase("nightly"), Some(SampleJobPhase::Scheduled));
    assert!(runs(&stage).is_empty());
    assert_eq!(
        stage.plan_job("nightly").wake_at,
        Some(at("2026-11-16T08:01:00Z"))
    );
    let stage = go(stage, "2026-11-16T08:01:00Z");
    assert_eq!(runs(&stage), ["nightly-29913601"]);
    assert_eq!(
        stage.job_phase("nightly-29913601"),
        Some(SampleJobPhase::Succeeded)
    );
    let stage = go(stage, "2026-11-16T08:02:01Z");
    assert_eq!(runs(&stage).len(), 2);
    let cron = cron(&stage);
    assert_eq!(
        cron.last_schedule_time.unwrap().0,
        at("2026-11-16T08:02:00Z")
    );
    assert_eq!(
        cron.next_schedule_time.unwrap().0,
        at("2026-11-16T08:03:00Z")
    );
    let run = stage.job("nightly-29913601");
    assert_eq!(run.spec.schedule, None);
    assert_eq!(
        run.metadata.owner_references.as_ref().unwrap()[0].uid,
        "uid-nightly"
    );
}

#[test]
fn a_run_that_is_refused_is_due_until_it_is_made() {
    let stage = on("2026-11-16T08:00:30Z", scheduled("* * * * *"));
    let mut stage = stage.change(|stage| stage.now = at("2026-11-16T08:01:00Z"));
    let why = "SampleJob nightly-29913601 can't be made: exceeded quota";
    let refused = |stage: &Stage| {
        let mut plan = stage.plan_job("nightly");
        assert_eq!(plan.runs_created.len(), 1);
        plan::samplejob::refuse(&mut plan, stage.job("nightly"), why, stage.now);
        plan.runs_created.clear();
        plan
    };
    let plan = refused(&stage);
    let events: Vec<&str> = plan.events.iter().map(|event| event.reason).collect();
    assert_eq!(events, ["RunRefused"]);
    stage.apply_job("nightly", plan);
    let told = ("RunRefused".to_owned(), why.to_owned());
    assert_eq!(stage.job_told("nightly", "Scheduled"), told);
    assert_eq!(cron(&stage).last_schedule_time, None);
    assert!(refused(&stage).events.is_empty(), "told once");
    let stage = stage.settle();
    assert_eq!(runs(&stage), ["nightly-29913601"]);
    assert_eq!(stage.job_told("nightly", "Scheduled").0, "Waiting");
}

#[test]
fn of_many_missed_runs_only_the_last_is_made_up_for() {
    let stage = on("2026-11-16T08:00:30Z", scheduled("* * * * *"));
    let stage = go(stage, "2026-11-16T11:30:10Z");
    assert_eq!(runs(&stage).len(), 1);
    let cron = cron(&stage);
    assert_eq!(
        cron.last_schedule_time.unwrap().0,
        at("2026-11-16T11:30:00Z")
    );
}

#[test]
fn a_start_that_is_too_late_is_skipped_and_told_once() {
    let late = scheduled("0 3 * * *").edit(|spec| spec.starting_deadline_seconds = Some(60));
    let stage = on("2026-11-16T02:00:00Z", late);
    let stage = go(stage, "2026-11-16T03:01:01Z").after(1);
    assert!(runs(&stage).is_empty());
    assert_eq!(stage.job_told("nightly", "Scheduled").0, "TooLate");
    let told = stage
        .events
        .iter()
        .filter(|event| event.reason == "MissedRun");
    assert_eq!(told.count(), 1);
    let stage = go(stage, "2026-11-17T03:00:59Z");
    assert_eq!(runs(&stage).len(), 1);
}

fn busy(policy: ConcurrencyPolicy) -> Stage {
    let job = scheduled("* * * * *").edit(|spec| spec.concurrency_policy = Some(policy));
    let stage = on("2026-11-16T08:00:30Z", job).says(Operation::Clear, running());
    go(go(stage, "2026-11-16T08:01:00Z"), "2026-11-16T08:02:00Z")
}

#[test]
fn allow_makes_both_and_the_second_waits_for_its_turn() {
    let stage = busy(ConcurrencyPolicy::Allow);
    assert_eq!(runs(&stage).len(), 2);
    assert_eq!(
        stage.job_told("nightly-29913602", "Waiting").1,
        "waits for nightly-29913601"
    );
}

#[test]
fn forbid_waits_for_the_last_run_and_makes_up_for_it() {
    let stage = busy(ConcurrencyPolicy::Forbid);
    assert_eq!(runs(&stage), ["nightly-29913601"]);
    assert_eq!(stage.job_told("nightly", "Scheduled").0, "StillActive");
    let stage = stage.turns(succeeded()).settle();
    assert_eq!(runs(&stage), ["nightly-29913601", "nightly-29913602"]);
}

#[test]
fn replace_ends_the_last_run() {
    let stage = busy(ConcurrencyPolicy::Replace);
    assert_eq!(runs(&stage), ["nightly-29913602"]);
    assert_eq!(
        stage.job_phase("nightly-29913602"),
        Some(SampleJobPhase::Running)
    );
}

#[test]
fn only_as_many_ended_runs_are_kept_as_asked_for() {
    let mut stage = on("2026-11-16T08:00:30Z", scheduled("* * * * *"));
    for _ in 0..6 {
        stage = stage.after(60);
    }
    assert_eq!(runs(&stage).len(), 3);
    let stage = stage
        .says(Operation::Clear, failed("X", "x"))
        .after(60)
        .after(60);
    let failed = stage.jobs.iter().filter(|job| {
        job.status.as_ref().and_then(|status| status.phase) == Some(SampleJobPhase::Failed)
    });
    assert_eq!(failed.count(), 1);
}

#[test]
fn a_suspended_schedule_makes_nothing() {
    let job = scheduled("* * * * *").edit(|spec| spec.suspend = Some(true));
    let stage = go(on("2026-11-16T08:00:30Z", job), "2026-11-16T09:00:00Z");
    assert!(runs(&stage).is_empty());
    assert_eq!(stage.plan_job("nightly").wake_at, None);
    assert_eq!(stage.job_told("nightly", "Scheduled").0, "Suspended");
}

#[test]
fn the_time_zone_is_that_of_the_job() {
    let job = scheduled("0 3 * * *").edit(|spec| spec.time_zone = Some("Asia/Shanghai".to_owned()));
    let stage = on("2026-11-16T08:00:00Z", job);
    assert_eq!(
        stage.plan_job("nightly").wake_at,
        Some(at("2026-11-16T19:00:00Z"))
    );
}

#[test]
fn an_hour_that_the_clock_skips_or_repeats_has_one_run() {
    let berlin = |schedule: &str| {
        scheduled(schedule).edit(|spec| spec.time_zone = Some("Europe/Berlin".to_owned()))
    };
    // On 2026-03-29 there is no 02:30 in Berlin.
    let mut stage = on("2026-03-29T00:00:00Z", berlin("30 2 * * *"));
    for _ in 0..24 {
        stage = stage.after(3600);
    }
    assert_eq!(runs(&stage).len(), 1);
    // On 2026-10-25 there are two.
    let mut stage = on("2026-10-24T23:00:00Z", berlin("30 2 * * *"));
    for _ in 0..20 {
        stage = stage.after(3600);
    }
    assert_eq!(runs(&stage).len(), 1);
}

#[test]
fn a_schedule_that_can_not_be_read_says_how_to_write_it() {
    for (schedule, zone, says) in [
        ("tomorrow", None, "minute, hour"),
        ("0 0 30 2 *", None, "no run is ever due"),
        ("0 3 * * *", Some("Mars/Olympus"), "no time zone"),
        ("0 0 3 * * *", None, "minute, hour"),
    ] {
        let job = scheduled(schedule).edit(|spec| spec.time_zone = zone.map(str::to_owned));
        let stage = on("2026-11-16T08:00:00Z", job);
        let (reason, message) = stage.job_told("nightly", "Scheduled");
        assert_eq!(reason, "InvalidSpec");
        assert_eq!(stage.job_phase("nightly"), Some(SampleJobPhase::Pending));
        assert!(message.contains(says), "{schedule}: {message}");
    }
}

#[test]
fn a_run_that_could_not_work_is_refused_before_it_is_made() {
    let mut job = scheduled("* * * * *");
    job.spec.type_ = Some(Operation::Rmr);
    let stage = go(on("2026-11-16T08:00:30Z", job), "2026-11-16T08:05:00Z");
    assert!(runs(&stage).is_empty());
    assert_eq!(stage.job_told("nightly", "Scheduled").0, "InvalidSpec");
}
