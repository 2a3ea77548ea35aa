//! Why a job can't be started, and how the user learns of it.

use api::{Condition, PaddleJob, PaddleJobStatus, Phase};
use jiff::Timestamp;

use super::status::{condition, set};
use super::{Event, Plan, Settings, gang, validity};

const INVALID: &str = "InvalidSpec";
const UNSUPPORTED: &str = "NotSupported";

/// Why a job can't be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// One word: the reason of the condition and of the event.
    pub reason: &'static str,
    /// What was found and what would be right.
    pub message: String,
}

/// What in the job itself keeps it from being started.
pub(super) fn fault(job: &PaddleJob, settings: &Settings) -> Option<Refusal> {
    let mut faults = match is_accepted(job) {
        true => Vec::new(),
        false => validity::faults(job),
    };
    // A manager with other flags may have accepted these.
    faults.extend(gang::fault(job, settings));
    if !faults.is_empty() {
        return Some(Refusal {
            reason: INVALID,
            message: faults.join("; "),
        });
    }
    validity::unsupported(job, settings).map(|message| Refusal {
        reason: UNSUPPORTED,
        message,
    })
}

/// Whether this very spec was looked at before and found good: templates may be
/// long, and a job has many passes.
fn is_accepted(job: &PaddleJob) -> bool {
    let generation = job.metadata.generation;
    job.status.as_ref().is_some_and(|status| {
        let refused = |c: &Condition| [INVALID, UNSUPPORTED].contains(&&*c.reason);
        generation.is_some()
            && status.observed_generation == generation
            && !status.conditions.iter().any(refused)
    })
}

/// Says why nothing is started; what runs already goes on. It is also how the
/// controller tells that the API server refused a child.
pub fn refuse(plan: &mut Plan, job: &PaddleJob, refusal: Refusal, now: Timestamp) {
    let Refusal { reason, message } = refusal;
    let status = &mut plan.status;
    status.phase.get_or_insert(Phase::Pending);
    status.observed_generation = job.metadata.generation;
    // What the plan meant to say of this condition never became true.
    status
        .conditions
        .retain(|c| c.type_ != condition::SCHEDULED);
    let told = job.status.iter().flat_map(|status| &status.conditions);
    let told = { told }.find(|c| c.type_ == condition::SCHEDULED);
    status.conditions.splice(0..0, told.cloned());
    set(
        status,
        job,
        condition::SCHEDULED,
        false,
        reason,
        message.clone(),
        now,
    );
    // As the condition has it, which cuts long messages.
    let said = |c: &&Condition| (c.reason.clone(), c.message.clone());
    let mut conditions = status.conditions.iter();
    let tells = conditions.find(|c| c.type_ == condition::SCHEDULED);
    if told.as_ref().map(said) != tells.as_ref().map(said) {
        plan.events.push(Event::warning(reason, message));
    }
}

/// The status of a job that can't be read at all.
pub fn unreadable(
    old: Option<PaddleJobStatus>,
    generation: Option<i64>,
    error: &str,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan {
        status: old.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let mut job = PaddleJob::new("", api::PaddleJobSpec::default());
    job.metadata.generation = generation;
    job.status = old;
    let message = format!("the object does not fit its schema: {error}");
    refuse(
        &mut plan,
        &job,
        Refusal {
            reason: INVALID,
            message,
        },
        now,
    );
    plan
}
