//! What this process remembers of each job between two passes. Losing it costs a
//! request, never correctness.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plan::Urgency;

/// How often statuses are written that can wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// That of one object, at most.
    every: Duration,
    /// Those of all objects together, at most.
    turn_every: Duration,
}

/// Counts of pods: of a thousand jobs that start at once most run before their turn
/// comes.
pub(crate) const COUNTS: Pace = Pace {
    every: Duration::from_secs(5),
    turn_every: Duration::from_millis(200),
};
/// Figures of data, which people look at. There are few sets.
pub(crate) const FIGURES: Pace = Pace {
    every: Duration::from_secs(1),
    turn_every: Duration::ZERO,
};
/// A step that the next one may overtake is written after so long.
const STEP_AFTER: Duration = Duration::from_millis(500);
/// The first pause after something went wrong, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(300));

/// What is remembered of all jobs, by their uids.
#[derive(Debug)]
pub(crate) struct Memories(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    pace: Pace,
    jobs: HashMap<String, Memory>,
    /// When a status that can wait was last written.
    last_turn: Option<Instant>,
}

/// What is remembered of a job.
#[derive(Debug, Default)]
struct Memory {
    /// The version of the job that our last write replaced: a cached job that
    /// still has it is out of date.
    superseded: Option<String>,
    /// When the status was last written.
    written: Option<Instant>,
    /// Since when a step waits to be written.
    step: Option<Instant>,
    /// Since when it waits for its turn among the statuses that can wait.
    queued: Option<Instant>,
    /// How often in a row something went wrong, and when to try again.
    failures: u32,
    retry_at: Option<Instant>,
}

impl Memories {
    /// Nothing yet.
    pub(crate) fn new(pace: Pace) -> Memories {
        Memories(Mutex::new(Inner {
            pace,
            jobs: HashMap::new(),
            last_turn: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cache has not caught up with our own last write.
    pub(crate) fn is_superseded(&self, uid: &str, version: &str) -> bool {
        let inner = self.lock();
        let memory = inner.jobs.get(uid);
        memory.and_then(|memory| memory.superseded.as_deref()) == Some(version)
    }

    /// Remembers that we replaced `old` by `new`.
    pub(crate) fn note_written(&self, uid: &str, old: &str, new: Option<&str>) {
        let mut inner = self.lock();
        let memory = inner.job(uid);
        memory.written = Some(Instant::now());
        (memory.step, memory.queued) = (None, None);
        memory.superseded = (new != Some(old)).then(|| old.to_owned());
    }

    /// How long a status has to wait before it may be written; `None`: it may, or
    /// need not be.
    pub(crate) fn wait(&self, uid: &str, urgency: Urgency) -> Option<Duration> {
        let (mut inner, now) = (self.lock(), Instant::now());
        let due = match urgency {
            Urgency::Now => return None,
            Urgency::Never => {
                if let Some(memory) = inner.jobs.get_mut(uid) {
                    (memory.step, memory.queued) = (None, None);
                }
                return None;
            }
            Urgency::Soon => *inner.job(uid).step.get_or_insert(now) + STEP_AFTER,
            Urgency::Eventually => {
                let (written, every) = (inner.job(uid).written, inner.pace.every);
                written.map_or(now, |written| written + every)
            }
        };
        if due > now {
            return Some(due.duration_since(now));
        }
        inner.turn(uid, now)
    }

    /// How long to wait before what was refused is tried again; `None`: nothing was.
    pub(crate) fn judge(&self, uid: &str, is_refused: bool) -> Option<Duration> {
        if is_refused {
            return Some(self.back_off(uid));
        }
        self.reset_back_off(uid);
        None
    }

    /// How long to wait after a failure; each in a row waits twice as long. Passes
    /// that something else causes meanwhile do not count.
    pub(crate) fn back_off(&self, uid: &str) -> Duration {
        let (mut inner, now) = (self.lock(), Instant::now());
        let memory = inner.job(uid);
        if let Some(at) = memory.retry_at.filter(|at| *at > now) {
            return at.duration_since(now);
        }
        let wait = BACKOFF
            .0
            .saturating_mul(1 << memory.failures.min(16))
            .min(BACKOFF.1);
        memory.failures = memory.failures.saturating_add(1);
        memory.retry_at = Some(now + wait);
        wait
    }

    /// All went well: the next failure is the first again.
    pub(crate) fn reset_back_off(&self, uid: &str) {
        if let Some(memory) = self.lock().jobs.get_mut(uid) {
            (memory.failures, memory.retry_at) = (0, None);
        }
    }

    /// The job is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().jobs.remove(uid);
    }

    /// Only these jobs are still there.
    pub(crate) fn keep(&self, uids: &HashSet<String>) {
        self.lock().jobs.retain(|uid, _| uids.contains(uid));
    }
}

impl Inner {
    fn job(&mut self, uid: &str) -> &mut Memory {
        self.jobs.entry(uid.to_owned()).or_default()
    }

    /// How long a job has to wait for its turn; `None`: it has it. Who comes when
    /// nobody waits has it at once.
    fn turn(&mut self, uid: &str, now: Instant) -> Option<Duration> {
        let since = *self.job(uid).queued.get_or_insert(now);
        let queued = self.jobs.values().filter_map(|memory| memory.queued);
        let ahead = queued.filter(|other| *other < since).count();
        let turns = u32::try_from(ahead + 1).unwrap_or(u32::MAX);
        let wait = self.last_turn.map_or(Duration::ZERO, |last| {
            let turn = self.pace.turn_every.saturating_mul(turns);
            turn.saturating_sub(now.duration_since(last))
        });
        if wait.is_zero() {
            self.last_turn = Some(now);
            return None;
        }
        // Most of those ahead leave before it is their turn.
        Some(wait.min(self.pace.every))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    fn turn(memories: &Memories, uid: &str) -> Option<Duration> {
        memories.wait(uid, Urgency::Eventually)
    }

    #[test]
    fn who_leaves_the_queue_holds_up_nobody() {
        let memories = Memories::new(COUNTS);
        assert_eq!(turn(&memories, "first"), None);
        memories.note_written("first", "1", Some("2"));
        for job in 0..20 {
            let wait = turn(&memories, &job.to_string()).unwrap();
            assert!(wait <= COUNTS.turn_every * (job + 1), "{job}: {wait:?}");
        }
        let last = turn(&memories, "last").unwrap();
        assert!(last > COUNTS.turn_every * 10, "{last:?}");
        for job in 0..20 {
            memories.note_written(&job.to_string(), "1", Some("2"));
        }
        let last = turn(&memories, "last").unwrap();
        assert!(last <= COUNTS.turn_every, "{last:?}");
    }

    #[test]
    fn figures_wait_a_second_and_for_no_other_set() {
        let memories = Memories::new(FIGURES);
        for set in ["a", "b"] {
            assert_eq!(turn(&memories, set), None);
            memories.note_written(set, "1", Some("2"));
            assert!(turn(&memories, set).unwrap() <= FIGURES.every);
            assert_eq!(memories.wait(set, Urgency::Now), None);
        }
    }

    #[test]
    fn only_passes_that_were_waited_for_prolong_the_wait() {
        let memories = Memories::new(COUNTS);
        let first = memories.back_off("a");
        assert_eq!(first, BACKOFF.0);
        for _ in 0..10 {
            assert!(memories.back_off("a") <= first);
        }
        memories.reset_back_off("a");
        assert_eq!(memories.back_off("a"), BACKOFF.0);
    }
}
