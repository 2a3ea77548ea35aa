//! What a pass knows about a set before it decides anything.

use std::borrow::Cow;

use api::{AttemptStatus, Operation, OperationStatus, PartitionStatus, SampleSet};
use jiff::{SignedDuration, Timestamp};

use super::world::{Seen, Settings};
use super::{Plan, validity, volume};
use crate::operation::{self, Credentials, Ending, LOOK_AGAIN, SyncTask, WarmupTask};
use crate::{fingerprint, names};

/// As [`LOOK_AGAIN`], for what keeps a user waiting: why a pod does not start, and the jobs
/// that a set which is to go waits for.
const LOOK_SOON: SignedDuration = SignedDuration::from_secs(3);

/// A set, what is seen of it, and what it asks for.
pub(super) struct Work<'a> {
    pub set: &'a SampleSet,
    /// The same, with what its volume was made of.
    pub made: Cow<'a, SampleSet>,
    pub seen: &'a Seen,
    pub settings: &'a Settings,
    pub now: Timestamp,
    pub name: &'a str,
    pub uid: &'a str,
    pub partitions: i32,
    /// The copy that the spec asks for.
    pub sync: Option<SyncTask>,
    /// The caching that the spec asks for.
    pub warmup: Option<WarmupTask>,
    /// What in the spec can't work; nothing new is started then.
    pub faults: Vec<String>,
}

/// When something is to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Done,
    Now,
    At(Timestamp),
}

impl<'a> Work<'a> {
    pub(super) fn new(
        set: &'a SampleSet,
        seen: &'a Seen,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Work<'a> {
        Work {
            set,
            made: volume::as_made(set),
            seen,
            settings,
            now,
            name: set.metadata.name.as_deref().unwrap_or_default(),
            uid: set.metadata.uid.as_deref().unwrap_or_default(),
            partitions: validity::partitions(set),
            sync: validity::sync_task(set, settings).ok().flatten(),
            warmup: validity::warmup_task(set).ok().flatten(),
            faults: validity::faults(set, settings),
        }
    }

    /// Looks again at what no watch tells of.
    pub(super) fn look_again(&self, plan: &mut Plan) {
        plan.wake_at(self.now.checked_add(LOOK_AGAIN).unwrap_or(self.now));
    }

    /// Looks again at what no watch tells of and somebody waits for.
    pub(super) fn look_soon(&self, plan: &mut Plan) {
        plan.wake_at(self.now.checked_add(LOOK_SOON).unwrap_or(self.now));
    }

    /// The lock as it is seen to be.
    pub(super) fn lock(&self) -> Option<&'a OperationStatus> {
        self.set.status.as_ref()?.operation.as_ref()
    }

    /// The lock, if the set itself has taken it for `operation`.
    pub(super) fn own(&self, operation: Operation) -> Option<&'a OperationStatus> {
        let own = |lock: &&OperationStatus| {
            lock.owner == self.uid && lock.type_ == operation && lock.follow_up.is_none()
        };
        self.lock().filter(own)
    }

    /// Ends an operation on all servers.
    pub(super) fn end(&self, lock: &OperationStatus) -> Ending {
        let seen = self.seen;
        operation::end(&lock.id, lock.type_, &seen.pods, &seen.answers)
    }

    pub(super) fn server(&self, partition: i32) -> String {
        names::runtime_pod(self.name, partition)
    }

    /// Fingerprint of the copy that the spec asks for.
    pub(super) fn sync_key(&self) -> Option<String> {
        let task = self.sync.as_ref()?;
        Some(validity::sync_key(self.set, task))
    }

    /// Fingerprint of a partition that has been cached as the spec asks for.
    pub(super) fn warm_key(&self, partition: i32) -> Option<String> {
        let key = self.warmup.as_ref()?.key();
        let node = self.seen.pod(partition)?.node.as_ref()?;
        Some(fingerprint::of(&(key, node)))
    }

    /// Whether a partition has been cached as the spec asks for, if it asks for that.
    pub(super) fn is_warm(&self, known: &PartitionStatus) -> bool {
        let key = self.warm_key(known.partition);
        self.warmup.is_none() || (key.is_some() && known.warmed == key)
    }

    /// When the copy is to be made.
    pub(super) fn sync_due(&self) -> Due {
        let Some(key) = self.sync_key() else {
            return Due::Done;
        };
        let attempt = self
            .set
            .status
            .as_ref()
            .and_then(|status| status.sync.as_ref());
        due(attempt, &key, self.set.metadata.generation, sync_pause)
    }

    /// Whether the volume has the data that the spec asks for.
    pub(super) fn is_synced(&self, sync: Option<&AttemptStatus>) -> bool {
        let Some(key) = self.sync_key() else {
            return self.set.spec.no_sync == Some(true);
        };
        sync.is_some_and(|sync| sync.failures == 0 && sync.key.as_deref() == Some(&key))
    }

    /// The Secrets with the keys of the copy.
    pub(super) fn credentials(&self, plan: &Plan) -> Option<Credentials> {
        let volume = plan.status.volume.as_ref()?.secret.clone();
        let source = self.set.spec.source.as_ref()?.secret_ref.as_ref();
        let source = source.and_then(|source| source.name.clone());
        Some(Credentials::new(volume, source))
    }
}

/// Tries of a copy that failed so often before are repeated after this time.
fn sync_pause(failures: i32) -> SignedDuration {
    SignedDuration::from_secs(match failures {
        ..=1 => 10,
        2 => 30,
        _ => 300,
    })
}

/// After so many failures in a row the phase is SyncFailed.
pub(super) const TRIES: i32 = 3;

/// The same for caching, which can be used while it is incomplete.
fn warm_pause(failures: i32) -> SignedDuration {
    SignedDuration::from_secs(if failures <= 1 { 30 } else { 300 })
}

/// When caching that failed is to be tried again.
pub(super) fn warm_due(attempt: Option<&AttemptStatus>, key: &str, generation: Option<i64>) -> Due {
    match attempt {
        // Partitions that are not warm all the same have moved, or are new.
        Some(attempt) if attempt.failures == 0 => Due::Now,
        _ => due(attempt, key, generation, warm_pause),
    }
}

fn due(
    attempt: Option<&AttemptStatus>,
    key: &str,
    generation: Option<i64>,
    pause: impl Fn(i32) -> SignedDuration,
) -> Due {
    let Some(attempt) = attempt else {
        return Due::Now;
    };
    if attempt.key.as_deref() != Some(key) {
        return Due::Now;
    }
    if attempt.failures == 0 {
        return Due::Done;
    }
    if attempt.generation != generation {
        return Due::Now;
    }
    let time = attempt.time.as_ref();
    let at = time.and_then(|time| time.0.checked_add(pause(attempt.failures)).ok());
    at.map_or(Due::Now, Due::At)
}
