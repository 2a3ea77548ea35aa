//! What a server last said.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cache_api::Job;
use plan::operation::{Answer, CacheFigures, State};
use tokio::time::Instant;

use super::wire;

/// How long a server that would not take a job is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(8);
/// How long a server that was never heard is taken for one that is starting.
const STARTING: Duration = Duration::from_secs(30);

/// What a server last said. Answers to a poll, a POST and a DELETE may overtake each
/// other: the newest counts, not the last that arrived.
#[derive(Clone, Default)]
pub(super) struct Known(Arc<Mutex<Said>>);

#[derive(Clone)]
struct Said {
    /// Since when it is asked.
    since: Instant,
    /// Whether it did not answer when it was last asked for its cache.
    is_silent: bool,
    answer: Answer,
    /// How new what is known of a job is.
    revisions: BTreeMap<String, u64>,
    /// Jobs that it would not take, and why.
    refusals: BTreeMap<String, (Instant, String)>,
}

impl Default for Said {
    fn default() -> Said {
        Said {
            since: Instant::now(),
            is_silent: false,
            answer: Answer::default(),
            revisions: BTreeMap::new(),
            refusals: BTreeMap::new(),
        }
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    pub(super) fn get(&self) -> Answer {
        let said = self.lock();
        let mut answer = said.answer.clone();
        for (id, (since, message)) in &said.refusals {
            if let Some(state @ State::NotFound) = answer.operations.get_mut(id)
                && since.elapsed() < REFUSED_FOR
            {
                let message = Some(message.clone());
                *state = State::Unreachable { message };
            }
        }
        answer
    }

    /// Whether it does not answer.
    pub(super) fn is_silent(&self) -> bool {
        self.lock().is_silent
    }

    /// What it says of a job; whether that is news.
    pub(super) fn hear(&self, job: &Job) -> bool {
        let mut said = self.lock();
        let known = said.revisions.get(&job.id);
        if known.is_some_and(|known| job.revision < *known) {
            return false;
        }
        said.revisions.insert(job.id.clone(), job.revision);
        said.refusals.remove(&job.id);
        said.set(&job.id, wire::state(job))
    }

    /// What follows for a job from its silence, or from its refusal; whether that is
    /// news.
    pub(super) fn assume(&self, id: &str, state: State) -> bool {
        let mut said = self.lock();
        if matches!(state, State::Unreachable { .. }) && said.is_starting() {
            return false;
        }
        let known = said.answer.operations.get(id);
        if state == State::NotFound && matches!(known, Some(State::Failed { .. })) {
            // It was refused, so the server does not know it.
            return false;
        }
        // A later life may count from less, if the clock was set back.
        said.revisions.remove(id);
        said.set(id, state)
    }

    /// It would not take a job now.
    pub(super) fn note_refusal(&self, id: &str, message: String) {
        let refusal = (Instant::now(), message);
        self.lock().refusals.insert(id.to_owned(), refusal);
    }

    /// What it says of its cache; whether that is news.
    pub(super) fn hear_cache(&self, figures: Result<CacheFigures, String>) -> bool {
        let mut said = self.lock();
        let told = |said: &Said| {
            let answer = &said.answer;
            (said.is_silent, answer.cache.clone(), answer.error.clone())
        };
        let before = told(&said);
        said.is_silent = figures.is_err();
        match figures {
            Ok(figures) => (said.answer.cache, said.answer.error) = (Some(figures), None),
            Err(_) if said.is_starting() => {}
            Err(error) => said.answer.error = Some(error),
        }
        before != told(&said)
    }

    /// Nobody asks for a job any more.
    pub(super) fn forget(&self, id: &str) {
        let mut said = self.lock();
        said.answer.operations.remove(id);
        said.revisions.remove(id);
        said.refusals.remove(id);
    }
}

impl Said {
    fn is_starting(&self) -> bool {
        self.answer.cache.is_none() && self.since.elapsed() < STARTING
    }

    fn set(&mut self, id: &str, state: State) -> bool {
        let operations = &mut self.answer.operations;
        let is_new = operations.get(id) != Some(&state);
        operations.insert(id.to_owned(), state);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use cache_api::{JobState, Progress};

    use super::*;

    fn job(revision: u64, state: JobState) -> Job {
        Job {
            id: "a".to_owned(),
            type_: "warmup".to_owned(),
            owner: "set".to_owned(),
            revision,
            state,
            progress: Progress::default(),
        }
    }

    fn state(known: &Known) -> Option<State> {
        known.get().operations.get("a").cloned()
    }

    #[test]
    fn an_answer_that_was_overtaken_changes_nothing() {
        let known = Known::default();
        assert!(known.hear(&job(2, JobState::Cancelled)));
        assert!(!known.hear(&job(1, JobState::Running)), "sent before");
        assert_eq!(state(&known), Some(State::Cancelled));
        assert!(!known.hear(&job(2, JobState::Cancelled)), "no news");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_not_taken_is_told_and_then_tried_again() {
        let known = Known::default();
        known.assume("a", State::NotFound);
        known.note_refusal("a", "the disk is full".to_owned());
        let message = Some("the disk is full".to_owned());
        assert_eq!(state(&known), Some(State::Unreachable { message }));
        tokio::time::advance(REFUSED_FOR).await;
        assert_eq!(state(&known), Some(State::NotFound));
        known.note_refusal("a", "the disk is full".to_owned());
        known.hear(&job(1, JobState::Queued));
        assert_eq!(state(&known), Some(State::Queued));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_starting_is_given_time() {
        let known = Known::default();
        let refused = || "connection refused".to_owned();
        let unreachable = || State::Unreachable {
            message: Some(refused()),
        };
        assert!(known.hear_cache(Err(refused())), "its Secret is read again");
        assert!(!known.assume("a", unreachable()));
        assert!(known.is_silent() && known.get() == Answer::default());
        tokio::time::advance(STARTING).await;
        assert!(known.hear_cache(Err(refused())) && known.assume("a", unreachable()));
        assert_eq!(known.get().error, Some(refused()));
        assert_eq!(state(&known), Some(unreachable()));
    }

    #[test]
    fn figures_stay_when_a_server_falls_silent() {
        let known = Known::default();
        let figures = CacheFigures {
            cached_bytes: 5,
            ..CacheFigures::default()
        };
        assert!(known.hear_cache(Ok(figures.clone())));
        assert!(known.hear_cache(Err("gone".to_owned())) && known.is_silent());
        assert_eq!(known.get().cache, Some(figures));
        assert!(!known.hear_cache(Err("gone".to_owned())));
    }
}
