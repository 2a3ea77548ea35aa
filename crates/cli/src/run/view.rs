//! What is said of a job. Pure: a job goes in, words come out.

use std::time::Duration;

use api::{Condition, ConditionStatus, PaddleJob, PaddleJobStatus, Phase, Role, RoleStatus};

/// What a line shows, without the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// How far it is, if somebody knows.
    pub(crate) percent: Option<u64>,
    /// When this changes, there is something new for who reads line after line.
    pub(crate) news: String,
}

impl Shown {
    /// For who reads line after line.
    pub(crate) fn plain(&self) -> String {
        let percent = self.percent.map(|percent| format!(", {percent}%"));
        format!("{}{}", self.text, percent.unwrap_or_default())
    }
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) phase: Option<Phase>,
    /// What its pods do, by role.
    pub(crate) pods: String,
    /// Why it is in its phase, or what it waits for.
    pub(crate) why: String,
    /// It can't start as it is: waiting does not help.
    pub(crate) is_refused: bool,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Failed,
    /// There is a mistake in it.
    Refused,
    /// Somebody deleted it before it ended.
    Deleted,
    /// Its data never came.
    NotStarted,
}

impl Progress {
    pub(crate) fn of(job: &PaddleJob) -> Progress {
        let Some(status) = &job.status else {
            return Progress::default();
        };
        Progress {
            phase: status.phase,
            pods: pods(status),
            why: why(status).unwrap_or_default().trim().to_owned(),
            // Not what was said of it before somebody mended it.
            is_refused: status.observed_generation == job.metadata.generation
                && status.phase == Some(Phase::Pending)
                && is_refused(status),
        }
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.phase? {
            Phase::Completed => Some(Outcome::Completed),
            Phase::Failed => Some(Outcome::Failed),
            _ if self.is_refused => Some(Outcome::Refused),
            _ => None,
        }
    }

    /// One line for who watches, without the name.
    pub(crate) fn line(&self) -> String {
        let Some(phase) = self.phase else {
            return "waits for its controller".to_owned();
        };
        let mut line = phase.to_string();
        if !self.pods.is_empty() {
            line.push_str(&format!(" ({})", self.pods));
        }
        // The verdict says it in full.
        let why = self.why.lines().next();
        if let Some(why) = why.filter(|_| self.outcome().is_none()) {
            line.push_str(&format!(": {why}"));
        }
        line
    }

    pub(crate) fn shown(&self) -> Shown {
        Shown {
            text: self.line(),
            percent: None,
            news: format!("{:?} {}", self.phase, self.why),
        }
    }
}

/// `ps 2 running, worker 1 running and 1 starting`.
fn pods(status: &PaddleJobStatus) -> String {
    let roles = Role::ALL.into_iter().filter_map(|role| {
        let counted = counts(status.role(role)?);
        (!counted.is_empty()).then(|| format!("{role} {counted}"))
    });
    roles.collect::<Vec<_>>().join(", ")
}

fn counts(role: &RoleStatus) -> String {
    let counts = [
        (role.pending, "pending"),
        (role.starting, "starting"),
        (role.running, "running"),
        (role.succeeded, "succeeded"),
        (role.failed, "failed"),
        (role.unknown, "unknown"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{count} {what}"));
    counts.collect::<Vec<_>>().join(" and ")
}

fn why(status: &PaddleJobStatus) -> Option<&str> {
    let (names, wanted): (&[&str], _) = match status.phase? {
        Phase::Running | Phase::Completed | Phase::Terminating => return None,
        Phase::Failed => (&["Failed"], ConditionStatus::True),
        Phase::Suspended => (&["Suspended"], ConditionStatus::True),
        _ => (
            &["DataReady", "Scheduled", "Running"],
            ConditionStatus::False,
        ),
    };
    let said = |name: &&str| {
        let holds = |c: &&Condition| c.type_ == *name && c.status == wanted;
        status.conditions.iter().find(holds)
    };
    names.iter().find_map(said).map(|c| c.message.as_str())
}

/// Whether the job itself is at fault, or what its pods would be.
fn is_refused(status: &PaddleJobStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| {
        c.type_ == "Scheduled"
            && c.status == ConditionStatus::False
            && ["InvalidSpec", "NotSupported", "Refused"].contains(&&*c.reason)
    })
}

/// What is said of a job at its end, without the name.
pub(crate) fn verdict(outcome: Outcome, progress: &Progress, took: Duration) -> String {
    let took = duration(took);
    match outcome {
        Outcome::Completed => format!("Completed in {took} ({})", progress.pods),
        Outcome::Failed => format!("Failed after {took}: {}", progress.why),
        Outcome::Refused => format!("refused after {took}: {}", progress.why),
        Outcome::Deleted => format!("was deleted after {took}"),
        Outcome::NotStarted => "was not started, for its SampleSet failed".to_owned(),
    }
}

/// For people: `3.2 s`, `4 min 5 s`, `2 h 3 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A line of a log as it can be shown: what would move the cursor or ring the bell is
/// left out, and of a line that was written over again and again the last state counts.
pub(crate) fn plain(line: &str) -> String {
    let line = console::strip_ansi_codes(line);
    let line = line.trim_end_matches('\r');
    let last = line.rsplit('\r').next().unwrap_or_default();
    let shown = last.chars().filter(|c| *c == '\t' || !c.is_control());
    shown.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;

    fn progress(status: serde_json::Value) -> Progress {
        let job = json!({"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "metadata": {"name": "a"}, "spec": {}, "status": status});
        Progress::of(&serde_json::from_value(job).unwrap())
    }

    fn condition(type_: &str, status: &str, message: &str) -> serde_json::Value {
        json!({"type": type_, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_job_that_nobody_has_seen() {
        assert_eq!(Progress::default().line(), "waits for its controller");
    }

    #[test]
    fn what_a_job_waits_for() {
        let waits = progress(json!({
            "phase": "Pending",
            "ps": {"replicas": 1, "running": 1},
            "worker": {"replicas": 2, "pending": 1, "starting": 1},
            "conditions": [
                condition("Running", "False", "not every container is ready"),
                condition("Scheduled", "False", "pod a-worker-1: no node is large enough"),
            ],
        }));
        assert_eq!(
            waits.line(),
            "Pending (ps 1 running, worker 1 pending and 1 starting): \
             pod a-worker-1: no node is large enough"
        );
        assert_eq!(waits.outcome(), None);
    }

    #[test]
    fn a_job_that_runs_waits_for_nothing() {
        let runs = progress(json!({
            "phase": "Running",
            "worker": {"replicas": 2, "running": 2},
            "conditions": [condition("Scheduled", "True", "every pod has a node")],
        }));
        assert_eq!(runs.line(), "Running (worker 2 running)");
        assert_ne!(runs.shown().news, Progress::default().shown().news);
        let mut later = runs.clone();
        later.pods = "worker 1 running and 1 succeeded".to_owned();
        assert_eq!(later.shown().news, runs.shown().news);
    }

    #[test]
    fn verdicts() {
        let failed = progress(json!({
            "phase": "Failed",
            "worker": {"replicas": 1, "failed": 1},
            "conditions": [condition("Failed", "True", "pod a-worker-0: exit code 3: no\n data\n")],
        }));
        assert_eq!(failed.outcome(), Some(Outcome::Failed));
        assert_eq!(failed.line(), "Failed (worker 1 failed)");
        assert_eq!(
            verdict(Outcome::Failed, &failed, Duration::from_millis(3210)),
            "Failed after 3.2 s: pod a-worker-0: exit code 3: no\n data"
        );
        let completed = progress(json!({
            "phase": "Completed", "worker": {"replicas": 2, "succeeded": 2},
        }));
        assert_eq!(
            verdict(Outcome::Completed, &completed, Duration::from_secs(245)),
            "Completed in 4 min 5 s (worker 2 succeeded)"
        );
    }

    #[test]
    fn lines_do_not_disturb_the_terminal() {
        assert_eq!(
            plain("\u{1b}[31mred\u{1b}[0m\tand\u{7} \u{1b}[2Jmore\r"),
            "red\tand more"
        );
        assert_eq!(plain("10%\r50%\r100%"), "100%");
        assert_eq!(plain(""), "");
    }
}
