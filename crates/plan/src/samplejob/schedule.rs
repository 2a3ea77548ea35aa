//! A SampleJob with a schedule: it makes a SampleJob whenever one is due, as a
//! CronJob does.

use api::{
    ConcurrencyPolicy, CronJobStatus, SampleJob, SampleJobPhase, SampleJobReference, labels,
};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::condition::{IGNORED, SCHEDULED};
use super::world::{Run, Seen, Settings};
use super::{Named, Plan, validity};
use crate::{Event, names};

const RUN_CREATED: &str = "RunCreated";
const REFUSED: &str = "RunRefused";

/// Whether a job makes others instead of running itself.
pub(super) fn is_scheduled(job: &SampleJob) -> bool {
    job.spec
        .schedule
        .as_deref()
        .is_some_and(|schedule| !schedule.is_empty())
}

/// Decides what is to be done for a job with a schedule.
pub(super) fn plan(
    plan: &mut Plan,
    job: &SampleJob,
    seen: &Seen,
    settings: &Settings,
    now: Timestamp,
) {
    plan.status.phase = Some(SampleJobPhase::Scheduled);
    plan.status.observed_generation = job.metadata.generation;
    let ignored = validity::ignored(job);
    if !ignored.is_empty() {
        plan.say(job, (IGNORED, true), "NoEffect", ignored.join("; "), now);
    }
    let calendar = Calendar::of(job, settings);
    let tasks = validity::tasks(job, seen.set.as_deref(), settings);
    let calendar = tasks.and(calendar).and_then(|calendar| {
        let next = calendar.after(now)?;
        Ok((calendar, next))
    });
    keep_history(plan, job, seen);
    let before = plan.status.cron_job_status.take().unwrap_or_default();
    let mut cron = CronJobStatus {
        active: active(seen).map(reference).collect(),
        last_schedule_time: before.last_schedule_time,
        next_schedule_time: None,
    };
    let (calendar, next) = match calendar {
        Ok(good) => good,
        Err(fault) => {
            plan.status.phase = Some(SampleJobPhase::Pending);
            plan.status.cron_job_status = Some(cron);
            return tell(plan, job, false, "InvalidSpec", &fault, now);
        }
    };
    if job.spec.suspend == Some(true) {
        plan.status.cron_job_status = Some(cron);
        return tell(plan, job, false, "Suspended", "spec.suspend is true", now);
    }
    let last = cron.last_schedule_time.as_ref().map(|time| time.0);
    let mut told = (
        "Waiting",
        format!("the next run is due at {}", calendar.show(next)),
    );
    match missed(job, &calendar, last, now) {
        Missed::None => {}
        Missed::TooLate(due) => {
            told = (
                "TooLate",
                format!(
                    "the run that was due at {} could not start within spec.startingDeadlineSeconds",
                    calendar.show(due)
                ),
            );
        }
        Missed::Due(due) => match start(plan, job, seen, due) {
            Ok(()) => cron.last_schedule_time = Some(Time(due)),
            Err(active) => {
                told = (
                    "StillActive",
                    format!(
                        "the run that was due at {} waits for {active} (concurrencyPolicy Forbid)",
                        calendar.show(due)
                    ),
                );
            }
        },
    }
    cron.next_schedule_time = Some(Time(next));
    plan.status.cron_job_status = Some(cron);
    plan.wake_at(next);
    let (reason, message) = told;
    tell(plan, job, true, reason, &message, now);
}

/// The run that is due was not made: the API server would not, for the reason that it gives. It
/// is due as before.
pub fn refuse(plan: &mut Plan, job: &SampleJob, why: &str, now: Timestamp) {
    let before = job.status.clone().unwrap_or_default();
    let last = before
        .cron_job_status
        .and_then(|cron| cron.last_schedule_time);
    if let Some(cron) = &mut plan.status.cron_job_status {
        cron.last_schedule_time = last;
    }
    // What was said of it is not so, and that it is refused again is no news.
    plan.status.conditions = before.conditions;
    plan.events.retain(|event| event.reason != RUN_CREATED);
    tell(plan, job, false, REFUSED, why, now);
}

/// Says how the schedule stands, and tells of it when it is something new.
fn tell(
    plan: &mut Plan,
    job: &SampleJob,
    works: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let said = |plan: &Plan| {
        plan.told(SCHEDULED)
            .map(|told| (told.reason.clone(), told.message.clone()))
    };
    let before = said(plan);
    plan.status.message = Some(message.to_owned());
    plan.say(job, (SCHEDULED, works), reason, message, now);
    let is_news = match reason {
        "InvalidSpec" => Some("InvalidSpec"),
        "TooLate" => Some("MissedRun"),
        "StillActive" => Some("RunSkipped"),
        REFUSED => Some(REFUSED),
        _ => None,
    };
    if let Some(event) = is_news.filter(|_| said(plan) != before) {
        plan.events.push(Event::warning(event, message));
    }
}

/// A schedule in its time zone.
struct Calendar {
    cron: Cron,
    zone: TimeZone,
    text: String,
}

impl Calendar {
    fn of(job: &SampleJob, settings: &Settings) -> Result<Calendar, String> {
        let text = job.spec.schedule.clone().unwrap_or_default();
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(&text).map_err(|error| {
            format!("spec.schedule is {text:?}: {error}; write minute, hour, day of month, month and day of week, such as \"0 3 * * *\"")
        })?;
        let zone = match job
            .spec
            .time_zone
            .as_deref()
            .filter(|name| !name.is_empty())
        {
            None => settings.time_zone.clone(),
            // Not that of the machine: a plan reads no files.
            Some(name) => TimeZoneDatabase::bundled().get(name).map_err(|_| {
                format!(
                    "spec.timeZone is {name:?}, which is no time zone; write it as Asia/Shanghai"
                )
            })?,
        };
        Ok(Calendar { cron, zone, text })
    }

    /// A time in the calendar's zone, by the second: schedules know no smaller part.
    fn at(&self, time: Timestamp) -> Zoned {
        let second = Timestamp::from_second(time.as_second()).unwrap_or(time);
        second.to_zoned(self.zone.clone())
    }

    fn after(&self, time: Timestamp) -> Result<Timestamp, String> {
        let next = self.cron.find_next_occurrence(&self.at(time), false);
        let next = next.map_err(|error| {
            format!(
                "spec.schedule is {:?}, and no run is ever due: {error}",
                self.text
            )
        })?;
        Ok(next.timestamp())
    }

    /// The last time that was due until then.
    fn until(&self, time: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.at(time), true);
        last.ok().map(|last| last.timestamp())
    }

    fn show(&self, time: Timestamp) -> String {
        let shown = time.to_zoned(self.zone.clone());
        shown.strftime("%Y-%m-%d %H:%M %Z").to_string()
    }
}

/// What was due and has not been started.
enum Missed {
    None,
    Due(Timestamp),
    TooLate(Timestamp),
}

/// Of all that was due since the last run only the newest counts.
fn missed(job: &SampleJob, calendar: &Calendar, last: Option<Timestamp>, now: Timestamp) -> Missed {
    let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = last.or(created).unwrap_or(now);
    let Some(due) = calendar.until(now).filter(|due| *due > since) else {
        return Missed::None;
    };
    let deadline = job.spec.starting_deadline_seconds;
    let deadline = deadline.map(|seconds| SignedDuration::from_secs(seconds.max(0)));
    let late = deadline.is_some_and(|deadline| now.duration_since(due) > deadline);
    if late {
        Missed::TooLate(due)
    } else {
        Missed::Due(due)
    }
}

fn active(seen: &Seen) -> impl Iterator<Item = &Run> {
    seen.runs
        .iter()
        .filter(|run| !run.is_going && !run.phase.is_some_and(SampleJobPhase::is_terminal))
}

fn reference(run: &Run) -> SampleJobReference {
    SampleJobReference {
        name: run.name.clone(),
        uid: run.uid.clone(),
    }
}

fn named(run: &Run) -> Named {
    Named {
        name: run.name.clone(),
        uid: run.uid.clone(),
    }
}

/// Makes the run that is due, or says which one is in its way.
fn start(plan: &mut Plan, job: &SampleJob, seen: &Seen, due: Timestamp) -> Result<(), String> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let name = names::run(name, due.as_second().div_euclid(60));
    if seen.runs.iter().any(|run| run.name == name) {
        return Ok(());
    }
    match job.spec.concurrency_policy.unwrap_or_default() {
        ConcurrencyPolicy::Allow => {}
        ConcurrencyPolicy::Forbid => {
            if let Some(run) = active(seen).next() {
                return Err(run.name.clone());
            }
        }
        ConcurrencyPolicy::Replace => plan.runs_deleted.extend(active(seen).map(named)),
    }
    plan.events.push(Event::normal(
        RUN_CREATED,
        format!("SampleJob {name} is made"),
    ));
    plan.runs_created.push(run(job, &name, due));
    Ok(())
}

/// The SampleJob of one run.
fn run(job: &SampleJob, name: &str, due: Timestamp) -> Value {
    let mut spec = job.spec.clone();
    spec.schedule = None;
    spec.time_zone = None;
    spec.concurrency_policy = None;
    spec.suspend = None;
    spec.starting_deadline_seconds = None;
    spec.successful_jobs_history_limit = None;
    spec.failed_jobs_history_limit = None;
    let schedule = job.metadata.name.as_deref().unwrap_or_default();
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleJob",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {
                labels::SCHEDULE_NAME: names::label_value(schedule),
                labels::APP_MANAGED_BY: labels::OPERATOR,
            },
            "annotations": {labels::SCHEDULED_AT: due.to_string()},
            "ownerReferences": [{
                "apiVersion": "batch.paddlepaddle.org/v1alpha1",
                "kind": "SampleJob",
                "name": schedule,
                "uid": job.metadata.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// Deletes the oldest runs beyond the limits.
fn keep_history(plan: &mut Plan, job: &SampleJob, seen: &Seen) {
    let spec = &job.spec;
    for (phase, limit) in [
        (
            SampleJobPhase::Succeeded,
            spec.successful_jobs_history_limit.unwrap_or(3),
        ),
        (
            SampleJobPhase::Failed,
            spec.failed_jobs_history_limit.unwrap_or(1),
        ),
    ] {
        let ended = seen
            .runs
            .iter()
            .filter(|run| run.phase == Some(phase) && !run.is_going);
        let mut ended: Vec<&Run> = ended.collect();
        ended.sort_by_key(|run| (run.ended.or(run.created), &run.name));
        let surplus = ended
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        plan.runs_deleted
            .extend(ended.into_iter().take(surplus).map(named));
    }
}
