//! The queue: which jobs there are, whose turn it is, and how they end.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cache_api::{Credentials, Failure, Job, JobState, NewJob, Progress, Task, reason};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::store::{Record, Store};

/// Ended jobs that are kept for those who have not yet asked.
const ENDED_KEPT: usize = 100;
/// Jobs that have not ended: more than a set can have, unless something runs wild.
const MAX_WAITING: usize = 1000;
/// How long a job may wait for its keys.
pub(crate) const CREDENTIALS_PATIENCE: Duration = Duration::from_secs(600);

/// All jobs of this server.
#[derive(Clone)]
pub(crate) struct Jobs {
    inner: Arc<Mutex<Inner>>,
    /// Sends the newest revision of any job.
    changed: Arc<watch::Sender<u64>>,
}

struct Inner {
    store: Store,
    /// In order of arrival.
    entries: Vec<Entry>,
    revision: u64,
}

struct Entry {
    record: Record,
    revision: u64,
    /// In memory alone.
    credentials: Option<Credentials>,
    /// Since when it waits for them.
    waits_since: Instant,
    /// Tells who runs the job that it is to end.
    cancel: watch::Sender<bool>,
    /// An earlier life was in the middle of it.
    is_repeated: bool,
}

/// A job whose turn it is.
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) task: Task,
    pub(crate) credentials: Option<Credentials>,
    /// An earlier life may have done some of it.
    pub(crate) is_repeated: bool,
    cancel: watch::Receiver<bool>,
}

impl Turn {
    /// Until somebody wants the job to end.
    pub(crate) fn cancelled(&self) -> impl Future<Output = ()> + use<> {
        let mut cancel = self.cancel.clone();
        async move {
            if cancel.wait_for(|cancel| *cancel).await.is_err() {
                std::future::pending().await
            }
        }
    }
}

/// What became of a job that was posted.
#[derive(Debug)]
pub(crate) enum Posted {
    New(Job),
    Known(Job),
    /// Another job has the id.
    Conflict,
    /// There are too many already.
    Full,
}

impl Jobs {
    /// Takes up what an earlier life has left in the store. Also tells which syncs
    /// it was in the middle of.
    pub(crate) fn new(store: Store, found: Vec<Record>) -> (Jobs, Vec<Task>) {
        let mut interrupted = Vec::new();
        let mut inner = Inner {
            store,
            entries: Vec::new(),
            revision: first_revision(),
        };
        for mut record in found {
            let is_repeated = record.state == JobState::Running;
            if is_repeated {
                interrupted.push(record.task.clone());
            }
            if !record.state.has_ended() {
                record.state = waiting(&record.task, false);
            }
            inner.push(record, None, is_repeated);
        }
        let changed = Arc::new(watch::Sender::new(inner.revision));
        let inner = Arc::new(Mutex::new(inner));
        (Jobs { inner, changed }, interrupted)
    }

    /// Accepts a job: it is on disk when this returns. It may begin before, because a disk
    /// that has just taken much data is slow to say that it has it.
    pub(crate) fn post(&self, new: NewJob) -> io::Result<Posted> {
        let id = new.id.clone();
        let posted = self.accept(new)?;
        if matches!(posted, Posted::New(_)) {
            self.secure(&id)?;
        }
        Ok(posted)
    }

    /// What was noted of a job survives when this returns. Nobody else waits for the disk.
    fn secure(&self, id: &str) -> io::Result<()> {
        let store = self.lock().store.clone();
        store.secure(id)
    }

    fn accept(&self, new: NewJob) -> io::Result<Posted> {
        let mut inner = self.lock();
        if let Some(entry) = inner.entry(&new.id) {
            let record = &entry.record;
            if record.task != new.task || record.owner != new.owner {
                return Ok(Posted::Conflict);
            }
            if new.credentials.is_some() && !record.state.has_ended() {
                entry.credentials = new.credentials;
                if entry.record.state == JobState::NeedsCredentials {
                    inner.change(&new.id, |record| record.state = JobState::Queued);
                    self.tell(&inner);
                }
            }
            return Ok(inner.job(&new.id).map_or(Posted::Full, Posted::Known));
        }
        let unended = |entry: &&Entry| !entry.record.state.has_ended();
        if inner.entries.iter().filter(unended).count() >= MAX_WAITING {
            return Ok(Posted::Full);
        }
        let last = inner.entries.last().map_or(0, |entry| entry.record.arrived);
        let record = Record {
            arrived: last + 1,
            id: new.id.clone(),
            owner: new.owner,
            state: waiting(&new.task, new.credentials.is_some()),
            task: new.task,
            progress: Progress::default(),
        };
        inner.store.note(&record)?;
        inner.push(record, new.credentials, false);
        self.tell(&inner);
        Ok(inner.job(&new.id).map_or(Posted::Full, Posted::New))
    }

    /// Cancels a job. One that has ended stays as it is, for those who have not yet
    /// heard of it.
    pub(crate) fn cancel(&self, id: &str) -> io::Result<Option<Job>> {
        let job = self.mark_cancelled(id)?;
        if job.is_some() {
            self.secure(id)?;
        }
        Ok(job)
    }

    fn mark_cancelled(&self, id: &str) -> io::Result<Option<Job>> {
        let mut inner = self.lock();
        let Some(entry) = inner.entry(id) else {
            return Ok(None);
        };
        if entry.record.state.has_ended() {
            return Ok(inner.job(id));
        }
        // Also for a running one: it must not begin again after a restart.
        let mut record = entry.record.clone();
        record.state = JobState::Cancelled;
        if entry.record.state == JobState::Running {
            entry.cancel.send_replace(true);
            inner.store.note(&record)?;
        } else {
            // Whatever the disk does, it does not begin in this life.
            let ended = inner.end(record);
            self.tell(&inner);
            ended?;
        }
        Ok(inner.job(id))
    }

    /// How far a job is.
    pub(crate) fn job(&self, id: &str) -> Option<Job> {
        self.lock().job(id)
    }

    /// All jobs, in order of arrival.
    pub(crate) fn all(&self) -> Vec<Job> {
        self.lock().entries.iter().map(Entry::job).collect()
    }

    /// Tells whenever something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits for the job that is next and starts it.
    pub(crate) async fn next(&self) -> Turn {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            if let Some(turn) = self.start_next() {
                return turn;
            }
            // Both ends are ours.
            let _ = changes.changed().await;
        }
    }

    fn start_next(&self) -> Option<Turn> {
        let mut inner = self.lock();
        let is_next = |entry: &&mut Entry| entry.record.state == JobState::Queued;
        let entry = inner.entries.iter_mut().find(is_next)?;
        entry.cancel.send_replace(false);
        let turn = Turn {
            id: entry.record.id.clone(),
            task: entry.record.task.clone(),
            credentials: entry.credentials.clone(),
            is_repeated: entry.is_repeated,
            cancel: entry.cancel.subscribe(),
        };
        inner.change(&turn.id, |record| record.state = JobState::Running);
        // So that a later life knows what it must clean up. It can do without.
        if let Some(entry) = inner.entry(&turn.id) {
            let record = entry.record.clone();
            if let Err(error) = inner.store.note(&record) {
                tracing::warn!(job = turn.id, %error, "the start of a job is not on disk");
            }
        }
        self.tell(&inner);
        Some(turn)
    }

    /// How far a running job is.
    pub(crate) fn progress(&self, id: &str, progress: Progress) {
        let mut inner = self.lock();
        let is_other = |entry: &mut Entry| entry.record.progress != progress;
        if inner.entry(id).is_some_and(is_other) {
            inner.change(id, |record| record.progress = progress);
            self.tell(&inner);
        }
    }

    /// A job has ended. Its keys are forgotten.
    pub(crate) fn end(&self, id: &str, state: JobState) {
        let mut inner = self.lock();
        let Some(mut record) = inner.entry(id).map(|entry| entry.record.clone()) else {
            return;
        };
        record.state = state;
        if let Err(error) = inner.end(record) {
            // It begins again after a restart, which does no harm.
            tracing::error!(job = id, %error, "the end of a job is not on disk");
        }
        self.tell(&inner);
    }

    /// Gives up jobs whose keys nobody brings.
    pub(crate) async fn expire(&self) {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let waits = |entry: &&Entry| entry.record.state == JobState::NeedsCredentials;
            let first = {
                let inner = self.lock();
                let waiting = inner.entries.iter().filter(waits);
                let waiting = waiting.map(|entry| (entry.waits_since, entry.record.id.clone()));
                waiting.min()
            };
            let Some((since, id)) = first else {
                let _ = changes.changed().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(since + CREDENTIALS_PATIENCE) => self.give_up(&id),
                _ = changes.changed() => {}
            }
        }
    }

    fn give_up(&self, id: &str) {
        let waits = |job: &Job| job.state == JobState::NeedsCredentials;
        if self.job(id).as_ref().is_some_and(waits) {
            let minutes = CREDENTIALS_PATIENCE.as_secs() / 60;
            self.end(
                id,
                JobState::Failed(Failure {
                    reason: reason::CREDENTIALS_MISSING.to_owned(),
                    message: format!(
                        "the server was restarted and got no keys for {minutes} minutes; post \
                         the job again under another id"
                    ),
                }),
            );
        }
    }

    fn tell(&self, inner: &Inner) {
        self.changed.send_replace(inner.revision);
    }

    /// Nobody panics while he holds it, and if so, each change is whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn entry(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.record.id == id)
    }

    fn job(&self, id: &str) -> Option<Job> {
        let entry = self.entries.iter().find(|entry| entry.record.id == id);
        entry.map(Entry::job)
    }

    fn push(&mut self, record: Record, credentials: Option<Credentials>, is_repeated: bool) {
        self.revision += 1;
        self.entries.push(Entry {
            record,
            revision: self.revision,
            credentials,
            waits_since: Instant::now(),
            cancel: watch::Sender::new(false),
            is_repeated,
        });
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Record)) {
        self.revision += 1;
        let revision = self.revision;
        if let Some(entry) = self.entry(id) {
            change(&mut entry.record);
            entry.revision = revision;
        }
    }

    /// Whatever the disk does, the job has ended.
    fn end(&mut self, record: Record) -> io::Result<()> {
        let saved = self.store.note(&record);
        let id = record.id.clone();
        self.change(&id, |old| *old = record);
        if let Some(entry) = self.entry(&id) {
            entry.credentials = None;
        }
        let ended = |entry: &&Entry| entry.record.state.has_ended();
        let ids = self.entries.iter().filter(ended);
        let ids: Vec<String> = ids.map(|entry| entry.record.id.clone()).collect();
        for id in ids.iter().rev().skip(ENDED_KEPT) {
            self.store.remove(id)?;
            self.entries.retain(|entry| entry.record.id != *id);
        }
        saved
    }
}

impl Entry {
    fn job(&self) -> Job {
        let Record {
            id,
            owner,
            task,
            state,
            progress,
            ..
        } = &self.record;
        Job {
            id: id.clone(),
            type_: task.name().to_owned(),
            owner: owner.clone(),
            revision: self.revision,
            state: state.clone(),
            progress: *progress,
        }
    }
}

/// How a job waits: a sync needs keys first.
fn waiting(task: &Task, has_credentials: bool) -> JobState {
    match task {
        Task::Sync(_) if !has_credentials => JobState::NeedsCredentials,
        _ => JobState::Queued,
    }
}

/// Revisions of an earlier life are not met again: there were fewer changes than
/// microseconds.
pub(crate) fn first_revision() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| u64::try_from(since.as_micros()).unwrap_or(1))
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
