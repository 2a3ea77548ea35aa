//! The objects: on disk, in memory, and as a history that watches replay.
//!
//! One thread writes. It takes all that wait, brings them to disk in one
//! transaction, and only then shows them to readers and watches and answers. So
//! what was acknowledged, or seen by anybody, survives the death of the process.
//!
//! A watch has no queue of its own that could grow: it reads on in the history,
//! which is of limited length, and one that falls behind is told so.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, mpsc};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::weight::Weight;

const OBJECTS: TableDefinition<'_, (&str, &str, &str), &str> = TableDefinition::new("objects");
const FIGURES: TableDefinition<'_, &str, u64> = TableDefinition::new("figures");
const REVISION: &str = "revision";

/// How many events are kept for watches that begin in the past.
const HISTORY: usize = 10_000;
/// How large these may be together.
const HISTORY_SIZE: usize = 64 << 20;
/// How many writes share a transaction at most.
const BATCH: usize = 256;

/// Where an object is: its resource (`<group>/<plural>`, or `<plural>`), its
/// namespace (empty for those that have none), and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The resource.
    pub resource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What a list or a watch looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The resource.
    pub resource: String,
    /// The only namespace; `None`: all of them.
    pub namespace: Option<String>,
}

impl Scope {
    fn holds(&self, key: &Key) -> bool {
        self.resource == key.resource && { self.namespace.as_ref() }
            .is_none_or(|only| *only == key.namespace)
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision that it made.
    pub revision: u64,
    /// Whose it is.
    pub key: Key,
    /// What happened.
    pub kind: EventKind,
    /// The object as it is now, or as it was last.
    pub object: Arc<Value>,
    /// The object before, if there was one.
    pub before: Option<Arc<Value>>,
    /// About how many bytes it is.
    pub(crate) size: usize,
}

/// What is to become of an object.
#[derive(Clone, Debug)]
pub enum Change {
    /// It becomes this; the store sets its resourceVersion.
    Put(Value),
    /// It goes; this is how it is seen last.
    Delete(Value),
    /// It stays.
    Keep,
}

/// What a store can't do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be opened, read or written.
    #[error("the store can't be {action}: {cause}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        cause: String,
    },
    /// The history does not reach back so far.
    #[error("too old resource version: {asked} ({oldest})")]
    Gone {
        /// The revision that was asked for.
        asked: u64,
        /// The oldest from which a watch can go on.
        oldest: u64,
    },
}

fn disk<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |cause| Error::Disk {
        action,
        cause: cause.to_string(),
    }
}

/// All objects. Clones share them.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    writer: mpsc::Sender<Write>,
}

#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// The revision that is in force, for those who wait for the next.
    revision: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    revision: u64,
    /// In the order of their revisions, without a gap.
    history: VecDeque<Arc<Event>>,
    /// What it is in bytes.
    history_size: usize,
}

impl State {
    /// A watch can go on from here: all that came later is in the history.
    fn oldest(&self) -> u64 {
        let first = self.history.front().map(|event| event.revision - 1);
        first.unwrap_or(self.revision)
    }
}

/// Decides in the writer's thread, and answers when the disk has it.
type Write = Box<dyn FnOnce(&mut Draft<'_>) -> Answer + Send>;
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Writes that are not on disk yet, on top of the state that is.
struct Draft<'a> {
    state: &'a State,
    objects: BTreeMap<Key, Option<Arc<Value>>>,
    events: Vec<Arc<Event>>,
}

impl Draft<'_> {
    fn get(&self, key: &Key) -> Option<Arc<Value>> {
        match self.objects.get(key) {
            Some(drafted) => drafted.clone(),
            None => self.state.objects.get(key).cloned(),
        }
    }

    fn change(&mut self, key: Key, change: Change) -> Option<Arc<Value>> {
        let before = self.get(&key);
        let (mut object, is_deleted) = match change {
            Change::Put(object) => (object, false),
            Change::Delete(object) => (object, true),
            Change::Keep => return before,
        };
        let revision = self.state.revision + self.events.len() as u64 + 1;
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.insert("resourceVersion".to_owned(), json!(revision.to_string()));
        }
        let object = Arc::new(object);
        let kind = match (&before, is_deleted) {
            (_, true) => EventKind::Deleted,
            (None, false) => EventKind::Added,
            (Some(_), false) => EventKind::Modified,
        };
        self.objects
            .insert(key.clone(), (!is_deleted).then(|| Arc::clone(&object)));
        self.events.push(Arc::new(Event {
            revision,
            key,
            kind,
            size: Weight::of(&object).bytes,
            object: Arc::clone(&object),
            before,
        }));
        Some(object)
    }
}

impl Store {
    /// Opens the store in a file, which is made if it is not there.
    ///
    /// # Errors
    /// When the file can't be read, or is no store.
    pub fn open(path: &Path) -> Result<Store, Error> {
        let database = Database::create(path).map_err(disk("opened"))?;
        let state = load(&database)?;
        let (revision, _) = watch::channel(state.revision);
        let shared = Arc::new(Shared {
            state: RwLock::new(state),
            revision,
        });
        let (writer, writes) = mpsc::channel();
        let written = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_all(&database, &written, &writes))
            .map_err(disk("opened"))?;
        Ok(Store { shared, writer })
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.shared.read()
    }

    /// The revision that is in force.
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// An object, if it is there.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state().objects.get(key).cloned()
    }

    /// The objects in a scope in the order of their keys, and the revision at
    /// which the list is true. It begins behind `after`, and has `limit` at most.
    pub fn list(
        &self,
        scope: &Scope,
        after: Option<&Key>,
        limit: usize,
    ) -> (Vec<(Key, Arc<Value>)>, u64) {
        let state = self.state();
        let first = Key {
            resource: scope.resource.clone(),
            namespace: scope.namespace.clone().unwrap_or_default(),
            name: String::new(),
        };
        let from = after.map_or(Bound::Included(&first), Bound::Excluded);
        let objects = state.objects.range((from, Bound::Unbounded));
        let found = objects
            .take_while(|(key, _)| scope.holds(key))
            .take(limit)
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        (found, state.revision)
    }

    /// Changes an object as `decide` says, who sees it as it is: nobody else
    /// writes meanwhile. Returns the object as it is then, or was last.
    ///
    /// # Errors
    /// What `decide` says; `Error::Disk` when it could not be written.
    pub async fn write<E>(
        &self,
        key: Key,
        decide: impl FnOnce(Option<&Value>) -> Result<Change, E> + Send + 'static,
    ) -> Result<Option<Arc<Value>>, E>
    where
        E: From<Error> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let write: Write = Box::new(move |draft| {
            let before = draft.get(&key);
            let decided = decide(before.as_deref()).map(|change| draft.change(key, change));
            Box::new(move |written| {
                let result = decided.and_then(|object| {
                    written?;
                    Ok(object)
                });
                // Who asked may be gone by now.
                let _ = answer.send(result);
            })
        });
        let stopped = || {
            E::from(Error::Disk {
                action: "written",
                cause: "its thread has ended".to_owned(),
            })
        };
        self.writer.send(write).map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Watches a scope from behind a revision.
    ///
    /// # Errors
    /// [`Error::Gone`] when the history does not reach back so far, or the
    /// revision is one that was never made.
    pub fn watch(&self, scope: Scope, after: u64) -> Result<Watch, Error> {
        let (oldest, newest) = {
            let state = self.state();
            (state.oldest(), state.revision)
        };
        if after < oldest || after > newest {
            return Err(Error::Gone {
                asked: after,
                oldest,
            });
        }
        Ok(Watch {
            shared: Arc::clone(&self.shared),
            revision: self.shared.revision.subscribe(),
            scope,
            after,
        })
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while writing is impossible: only whole entries are moved in.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a scope, in order, each once.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    revision: watch::Receiver<u64>,
    scope: Scope,
    after: u64,
}

impl Watch {
    /// The revision up to which everything was told: a watch may go on from here.
    pub fn revision(&self) -> u64 {
        self.after
    }

    /// Waits for the next events; there may be none in this scope among them.
    ///
    /// # Errors
    /// [`Error::Gone`] when it has fallen behind the history.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        let after = self.after;
        // The sender lives as long as the store that we hold.
        let _ = self.revision.wait_for(|revision| *revision > after).await;
        let state = self.shared.read();
        let oldest = state.oldest();
        if after < oldest {
            return Err(Error::Gone {
                asked: after,
                oldest,
            });
        }
        // Revisions in the history have no gap.
        let skipped = usize::try_from(after - oldest).unwrap_or(usize::MAX);
        let news = state.history.iter().skip(skipped);
        let news = news.filter(|event| self.scope.holds(&event.key));
        self.after = state.revision;
        Ok(news.cloned().collect())
    }
}

fn load(database: &Database) -> Result<State, Error> {
    let begin = database.begin_write().map_err(disk("opened"))?;
    // So that both tables are there when they are read.
    begin.open_table(OBJECTS).map_err(disk("opened"))?;
    begin.open_table(FIGURES).map_err(disk("opened"))?;
    begin.commit().map_err(disk("opened"))?;
    let read = database.begin_read().map_err(disk("read"))?;
    let figures = read.open_table(FIGURES).map_err(disk("read"))?;
    let revision = figures.get(REVISION).map_err(disk("read"))?;
    let mut state = State {
        // Clients take 0 for "any".
        revision: revision.map_or(1, |revision| revision.value()),
        ..State::default()
    };
    let objects = read.open_table(OBJECTS).map_err(disk("read"))?;
    for entry in objects.iter().map_err(disk("read"))? {
        let (key, object) = entry.map_err(disk("read"))?;
        let (resource, namespace, name) = key.value();
        let key = Key {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let object = serde_json::from_str(object.value()).map_err(disk("read"))?;
        state.objects.insert(key, Arc::new(object));
    }
    Ok(state)
}

/// Writes until nobody can ask for more.
fn write_all(database: &Database, shared: &Shared, writes: &mpsc::Receiver<Write>) {
    while let Ok(first) = writes.recv() {
        let batch = std::iter::once(first).chain(writes.try_iter()).take(BATCH);
        let state = shared.read();
        let mut draft = Draft {
            state: &state,
            objects: BTreeMap::new(),
            events: Vec::new(),
        };
        // One that panics has decided nothing; whoever asked is told so.
        let write = |write: Write| catch_unwind(AssertUnwindSafe(|| write(&mut draft))).ok();
        let answers: Vec<Answer> = batch.filter_map(write).collect();
        let Draft {
            objects, events, ..
        } = draft;
        let committed = commit(database, &objects, &events);
        drop(state);
        match committed {
            Ok(()) => shared.show(objects, events),
            Err(error) => {
                tracing::error!(%error, "nothing was written");
                let cause = error.to_string();
                let action = "written";
                for answer in answers {
                    let cause = cause.clone();
                    answer(Err(Error::Disk { action, cause }));
                }
                continue;
            }
        }
        for answer in answers {
            answer(Ok(()));
        }
    }
}

fn commit(
    database: &Database,
    objects: &BTreeMap<Key, Option<Arc<Value>>>,
    events: &[Arc<Event>],
) -> Result<(), redb::Error> {
    let Some(last) = events.last() else {
        return Ok(());
    };
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(OBJECTS)?;
        for (key, object) in objects {
            let key = (&*key.resource, &*key.namespace, &*key.name);
            match object {
                Some(object) => table.insert(key, &*object.to_string())?,
                None => table.remove(key)?,
            };
        }
        let mut figures = transaction.open_table(FIGURES)?;
        figures.insert(REVISION, last.revision)?;
    }
    transaction.commit()?;
    Ok(())
}

impl Shared {
    fn show(&self, objects: BTreeMap<Key, Option<Arc<Value>>>, events: Vec<Arc<Event>>) {
        let Some(revision) = events.last().map(|event| event.revision) else {
            return;
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for (key, object) in objects {
            match object {
                Some(object) => state.objects.insert(key, object),
                None => state.objects.remove(&key),
            };
        }
        for event in events {
            state.history_size += event.size;
            state.history.push_back(event);
        }
        while state.history.len() > HISTORY || state.history_size > HISTORY_SIZE {
            let Some(oldest) = state.history.pop_front() else {
                break;
            };
            state.history_size -= oldest.size;
        }
        state.revision = revision;
        drop(state);
        self.revision.send_replace(revision);
    }
}
