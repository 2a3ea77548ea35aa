//! SampleSets and SampleJobs that are followed to their end.

use std::path::PathBuf;
use std::time::Duration;

use juicefs::{MountPoint, Reads};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::reflector::Store;
use localcluster::node::mounts_of;

use super::apply::Key;
use super::data_view::DataState;
use super::manifest::Kind;
use super::view::Outcome;

/// A mount that does not answer by then does not tell.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is followed.
pub(super) struct Data {
    pub(super) key: Key,
    /// Of the screen.
    pub(super) line: usize,
    pub(super) objects: Store<DynamicObject>,
    pub(super) state: DataState,
    pub(super) ended: Option<(Outcome, Duration)>,
    pub(super) is_gone: bool,
    /// What had been read when it was ready.
    pub(super) before: Option<Reads>,
}

impl Data {
    pub(super) fn new(key: Key, line: usize, objects: Store<DynamicObject>) -> Data {
        Data {
            key,
            line,
            objects,
            state: DataState::default(),
            ended: None,
            is_gone: false,
            before: None,
        }
    }

    /// What the API says of it now.
    pub(super) fn look(&mut self, time: Duration) {
        let objects = self.objects.state();
        let mut objects = objects.iter();
        let found = objects.find(|object| object.uid().as_ref() == Some(&self.key.uid));
        let outcome = match found {
            Some(object) => {
                self.state = state(self.key.kind, object).unwrap_or_default();
                self.state.outcome
            }
            None => {
                self.is_gone = true;
                Some(Outcome::Deleted)
            }
        };
        // The first word counts: a set that was ready may be cached anew.
        self.ended = self.ended.or(outcome.map(|outcome| (outcome, time)));
    }

    pub(super) fn is_set(&self) -> bool {
        self.key.kind == Kind::SampleSet
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_set() && matches!(self.ended, Some((Outcome::Completed, _)))
    }

    /// Whether it is the set of that name, and jobs wait for it in vain.
    pub(super) fn failed_as(&self, namespace: &str, name: &str) -> bool {
        let is_it = (&*self.key.namespace, &*self.key.name) == (namespace, name);
        self.is_set() && is_it && matches!(self.ended, Some((Outcome::Failed, _)))
    }

    /// What was read of a set so far, by whoever, on all nodes. None: nobody can tell.
    pub(super) async fn reads(&self, dir: PathBuf) -> Option<Reads> {
        let volume = plan::names::volume(&self.key.namespace, &self.key.name);
        let reading = tokio::task::spawn_blocking(move || {
            let mounts = mounts_of(&dir, &volume).into_iter();
            let read = mounts.map(|mount| MountPoint::new(mount).reads().ok());
            read.collect::<Option<Vec<Reads>>>()
        });
        let reads = tokio::time::timeout(PATIENCE, reading).await.ok()?.ok()??;
        reads.into_iter().reduce(|sum, node| Reads {
            hits: sum.hits + node.hits,
            hit_bytes: sum.hit_bytes + node.hit_bytes,
            misses: sum.misses + node.misses,
            miss_bytes: sum.miss_bytes + node.miss_bytes,
        })
    }
}

fn state(kind: Kind, object: &DynamicObject) -> Option<DataState> {
    let object = serde_json::to_value(object).ok()?;
    match kind {
        Kind::SampleSet => Some(DataState::of_set(&serde_json::from_value(object).ok()?)),
        Kind::SampleJob => Some(DataState::of_job(&serde_json::from_value(object).ok()?)),
        Kind::PaddleJob => None,
    }
}
