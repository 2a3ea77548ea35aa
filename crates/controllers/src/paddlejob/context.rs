//! What every pass shares: the client, the caches, and what this process
//! remembers of each job between two passes.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use plan::paddlejob::{ConfigMapView, PodPhase, PodView, Settings};

use crate::cache::Cache;
use crate::{Clock, Metrics};

/// Counts alone are written at most so often.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
/// A step that the next one may overtake is written after so long.
const STEP_AFTER: Duration = Duration::from_millis(500);
/// What can wait is written so often, of all jobs together: of a thousand jobs
/// that start at once most run before their turn comes.
const TURN_EVERY: Duration = Duration::from_millis(200);
/// The first pause after something went wrong, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(300));

/// What every pass shares.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) pods: Cache<PodView>,
    pub(super) config_maps: Cache<ConfigMapView>,
    pub(super) services: Cache<()>,
    memories: Mutex<HashMap<String, Memory>>,
    /// When a status that can wait was last written.
    last_turn: Mutex<Option<Instant>>,
}

/// What is remembered of a job between two passes. Losing it costs a request,
/// never correctness.
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

impl Context {
    /// A context with empty caches.
    pub(super) fn new(
        client: Client,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
    ) -> Context {
        Context {
            client,
            settings,
            clock,
            metrics,
            pods: Cache::remembering(|pod| pod.phase == PodPhase::Succeeded),
            config_maps: Cache::default(),
            services: Cache::default(),
            memories: Mutex::default(),
            last_turn: Mutex::default(),
        }
    }

    pub(super) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cache has not caught up with our own last write.
    pub(super) fn is_superseded(&self, uid: &str, version: &str) -> bool {
        let memories = self.memories();
        memories
            .get(uid)
            .and_then(|memory| memory.superseded.as_deref())
            == Some(version)
    }

    /// Remembers that we replaced `old` by `new`.
    pub(super) fn note_written(&self, uid: &str, old: &str, new: Option<&str>) {
        let mut memories = self.memories();
        let memory = memories.entry(uid.to_owned()).or_default();
        memory.written = Some(Instant::now());
        (memory.step, memory.queued) = (None, None);
        memory.superseded = (new != Some(old)).then(|| old.to_owned());
    }

    /// How long counts have to wait before they may be written; `None`: they may.
    pub(super) fn counts_wait(&self, uid: &str) -> Option<Duration> {
        let written = self.memories().get(uid)?.written?;
        COUNTS_EVERY
            .checked_sub(written.elapsed())
            .filter(|wait| !wait.is_zero())
    }

    /// How long a step has to wait before it may be written; `None`: it may.
    pub(super) fn step_wait(&self, uid: &str) -> Option<Duration> {
        let mut memories = self.memories();
        let memory = memories.entry(uid.to_owned()).or_default();
        let since = memory.step.get_or_insert_with(Instant::now);
        STEP_AFTER
            .checked_sub(since.elapsed())
            .filter(|wait| !wait.is_zero())
    }

    /// How long a status that can wait has to wait for its turn; `None`: it is its
    /// turn. Who comes when nobody waits has it at once.
    pub(super) fn turn_wait(&self, uid: &str) -> Option<Duration> {
        let now = Instant::now();
        let mut memories = self.memories();
        let memory = memories.entry(uid.to_owned()).or_default();
        let since = *memory.queued.get_or_insert(now);
        let ahead = memories
            .values()
            .filter(|other| other.queued.is_some_and(|queued| queued < since))
            .count();
        let mut last = self
            .last_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let turns = u32::try_from(ahead).map_or(u32::MAX, |ahead| ahead.saturating_add(1));
        let wait = last.map_or(Duration::ZERO, |last| {
            TURN_EVERY
                .saturating_mul(turns)
                .saturating_sub(now.duration_since(last))
        });
        if wait.is_zero() {
            *last = Some(now);
            return None;
        }
        // Most of those ahead leave before it is their turn.
        Some(wait.min(COUNTS_EVERY))
    }

    /// There is nothing to write any more.
    pub(super) fn leave_queue(&self, uid: &str) {
        if let Some(memory) = self.memories().get_mut(uid) {
            (memory.step, memory.queued) = (None, None);
        }
    }

    /// How long to wait after a failure; each in a row waits twice as long. Passes
    /// that something else causes meanwhile do not count.
    pub(super) fn back_off(&self, uid: &str) -> Duration {
        let now = Instant::now();
        let mut memories = self.memories();
        let memory = memories.entry(uid.to_owned()).or_default();
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
    pub(super) fn reset_back_off(&self, uid: &str) {
        if let Some(memory) = self.memories().get_mut(uid) {
            (memory.failures, memory.retry_at) = (0, None);
        }
    }

    /// The job is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.memories().remove(uid);
    }

    /// Only these jobs are still there.
    pub(super) fn remember_only(&self, uids: &HashSet<String>) {
        self.memories().retain(|uid, _| uids.contains(uid));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    fn context() -> Context {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        Context::new(
            Client::try_from(nowhere).unwrap(),
            Settings::default(),
            Clock::default(),
            Metrics::default(),
        )
    }

    #[tokio::test]
    async fn who_leaves_the_queue_holds_up_nobody() {
        let context = context();
        assert_eq!(context.turn_wait("first"), None);
        context.note_written("first", "1", Some("2"));
        for job in 0..20 {
            let wait = context.turn_wait(&job.to_string()).unwrap();
            assert!(wait <= TURN_EVERY * (job + 1), "{job}: {wait:?}");
        }
        let last = context.turn_wait("last").unwrap();
        assert!(last > TURN_EVERY * 10, "{last:?}");
        for job in 0..20 {
            context.note_written(&job.to_string(), "1", Some("2"));
        }
        let last = context.turn_wait("last").unwrap();
        assert!(last <= TURN_EVERY, "{last:?}");
    }

    #[tokio::test]
    async fn only_passes_that_were_waited_for_prolong_the_wait() {
        let context = context();
        let first = context.back_off("a");
        assert_eq!(first, BACKOFF.0);
        for _ in 0..10 {
            assert!(context.back_off("a") <= first);
        }
        context.reset_back_off("a");
        assert_eq!(context.back_off("a"), BACKOFF.0);
    }
}
