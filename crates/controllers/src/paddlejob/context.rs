//! What every pass shares: the client, the caches, and what this process
//! remembers of each job between two passes.

use std::collections::HashMap;
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
    /// When the next status that can wait may be written.
    next_turn: Mutex<Instant>,
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
    /// When its turn comes among the statuses that can wait.
    turn: Option<Instant>,
    /// How often in a row something went wrong.
    failures: u32,
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
            next_turn: Mutex::new(Instant::now()),
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
        (memory.step, memory.turn) = (None, None);
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
        let turn = *memory.turn.get_or_insert_with(|| {
            let mut next = self
                .next_turn
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let turn = now.max(*next);
            *next = turn + TURN_EVERY;
            turn
        });
        Some(turn.duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// How long to wait after a failure; each in a row waits twice as long.
    pub(super) fn back_off(&self, uid: &str) -> Duration {
        let mut memories = self.memories();
        let memory = memories.entry(uid.to_owned()).or_default();
        let wait = BACKOFF
            .0
            .saturating_mul(1 << memory.failures.min(16))
            .min(BACKOFF.1);
        memory.failures = memory.failures.saturating_add(1);
        wait
    }

    /// All went well: the next failure is the first again.
    pub(super) fn reset_back_off(&self, uid: &str) {
        if let Some(memory) = self.memories().get_mut(uid) {
            memory.failures = 0;
        }
    }

    /// The job is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.memories().remove(uid);
    }
}
