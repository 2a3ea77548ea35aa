//! A watch cache that lags behind, and remembers what its manager wrote.
//!
//! Events of one kind come in order and late; a list jumps to the present. The
//! answer to a write is known at once, until the watch shows it too.

use std::collections::{BTreeMap, VecDeque};

/// A version of an object: every write in the cluster has a higher one.
pub type Revision = u64;

/// One object at one version.
#[derive(Clone, Debug)]
pub struct Entry<V> {
    pub revision: Revision,
    pub uid: String,
    /// The uid of the job that controls it.
    pub owner: String,
    pub view: V,
}

#[derive(Clone, Debug)]
enum Event<V> {
    Put(String, Entry<V>),
    Gone(String, String),
}

/// The objects of one kind, as a manager knows them.
#[derive(Clone, Debug)]
pub struct Cache<V> {
    seen: BTreeMap<String, Entry<V>>,
    written: BTreeMap<String, Entry<V>>,
    queue: VecDeque<Event<V>>,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Cache {
            seen: BTreeMap::new(),
            written: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }
}

impl<V: Clone> Cache<V> {
    /// The cluster has a new version of an object; the watch tells later.
    pub fn put(&mut self, name: &str, entry: Entry<V>) {
        self.queue.push_back(Event::Put(name.to_owned(), entry));
    }

    /// An object is gone from the cluster; the watch tells later.
    pub fn gone(&mut self, name: &str, uid: &str) {
        self.queue
            .push_back(Event::Gone(name.to_owned(), uid.to_owned()));
    }

    /// The manager itself wrote this.
    pub fn note_written(&mut self, name: &str, entry: Entry<V>) {
        let seen = self.seen.get(name);
        if seen.is_none_or(|seen| seen.revision < entry.revision) {
            self.written.insert(name.to_owned(), entry);
        }
    }

    /// The watch delivers one event; false when there is none.
    pub fn deliver(&mut self) -> bool {
        match self.queue.pop_front() {
            None => return false,
            Some(Event::Put(name, entry)) => {
                let caught_up = |written: &Entry<V>| written.revision <= entry.revision;
                if self.written.get(&name).is_some_and(caught_up) {
                    self.written.remove(&name);
                }
                self.seen.insert(name, entry);
            }
            Some(Event::Gone(name, uid)) => {
                if self
                    .written
                    .get(&name)
                    .is_some_and(|entry| entry.uid == uid)
                {
                    self.written.remove(&name);
                }
                self.seen.remove(&name);
            }
        }
        true
    }

    /// The watch broke and everything is listed: this is what is there now.
    pub fn relist(&mut self, present: BTreeMap<String, Entry<V>>) {
        self.seen = present;
        self.written.clear();
        self.queue.clear();
    }

    /// What the watch has shown of an owner's objects, in the latest form known.
    pub fn seen(&self, owner: &str) -> Vec<(&str, &Entry<V>)> {
        self.seen
            .iter()
            .filter(|(_, seen)| seen.owner == owner)
            .map(|(name, seen)| {
                let written = self.written.get(name).filter(|w| w.uid == seen.uid);
                (name.as_str(), written.unwrap_or(seen))
            })
            .collect()
    }

    /// What the manager wrote for an owner and the watch has never shown.
    pub fn unseen(&self, owner: &str) -> Vec<(&str, &Entry<V>)> {
        self.written
            .iter()
            .filter(|(_, written)| written.owner == owner)
            .filter(|(name, written)| {
                self.seen
                    .get(*name)
                    .is_none_or(|seen| seen.uid != written.uid)
            })
            .map(|(name, written)| (name.as_str(), written))
            .collect()
    }
}
