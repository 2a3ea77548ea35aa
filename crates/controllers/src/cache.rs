//! Watch caches of slim views, with what this process wrote but has not seen yet.
//!
//! A watch shows our own writes late. Without a memory of them a pass would
//! create a pod twice (harmless, but a wasted request) or delete it twice. So
//! the result of each write is kept until the watch gets that far. The answer to
//! a write may also come after what the watch shows of it, or even of the end of
//! the object: such an answer is old and is dropped.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::watcher::Event;

/// How long a write is believed that the watch does not show. It always shows
/// it sooner, unless a list came in between and the object was gone by then.
pub(crate) const WRITTEN_FOR: Duration = Duration::from_secs(30);

/// How long a child that is gone is remembered, at least: far longer than it
/// takes to write down what was memorable about it.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// A child as it is cached: who it is, whose it is, and what the plan reads of it.
#[derive(Clone, Debug)]
pub(crate) struct Child<V> {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) owner: Owner,
    pub(crate) view: Arc<V>,
}

/// The controlling owner of a child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Owner {
    /// The owner of the given kind that controls an object.
    pub(crate) fn of(meta: &ObjectMeta, kind: &str) -> Option<Owner> {
        let controls =
            |owner: &&OwnerReference| owner.controller == Some(true) && owner.kind == kind;
        let owner = meta.owner_references.as_ref()?.iter().find(controls)?;
        Some(Owner {
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }
}

impl<V> Child<V> {
    pub(crate) fn new(meta: &ObjectMeta, owner: Owner, view: V) -> Option<Child<V>> {
        Some(Child {
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            version: meta.resource_version.clone()?,
            owner,
            view: Arc::new(view),
        })
    }

    fn key(&self) -> Key {
        Key(self.namespace.clone(), self.name.clone())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(String, String);

/// The children of one kind of all jobs.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    inner: Mutex<Inner<V>>,
    /// Which of those that are gone are remembered.
    is_memorable: fn(&V) -> bool,
}

#[derive(Debug)]
struct Inner<V> {
    /// As the watch shows them.
    seen: HashMap<Key, Arc<Child<V>>>,
    /// Which of them belong to whom, by the owner's uid.
    by_owner: HashMap<String, HashSet<Key>>,
    /// As our writes left them, until the watch shows the same version; by the
    /// owner's uid.
    written: HashMap<String, HashMap<Key, Written<V>>>,
    /// Uids of those that are gone and memorable, by the owner's uid, and when
    /// the last of them went.
    memorable: HashMap<String, (Instant, BTreeSet<String>)>,
    /// A list that is being received.
    listing: Vec<Child<V>>,
    /// How far the watch has got.
    reached: u64,
}

/// The result of a write, and when it came.
#[derive(Debug)]
struct Written<V> {
    child: Arc<Child<V>>,
    at: Instant,
}

/// The children of one owner.
#[derive(Debug)]
pub(crate) struct Children<V> {
    /// Those that the watch has shown, in their latest known form.
    pub(crate) seen: Vec<Arc<Child<V>>>,
    /// Those that we created and the watch has not shown.
    pub(crate) unseen: Vec<Arc<Child<V>>>,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Cache {
            inner: Mutex::new(Inner {
                seen: HashMap::new(),
                by_owner: HashMap::new(),
                written: HashMap::new(),
                memorable: HashMap::new(),
                listing: Vec::new(),
                reached: 0,
            }),
            is_memorable: |_| false,
        }
    }
}

impl<V> Cache<V> {
    fn lock(&self) -> MutexGuard<'_, Inner<V>> {
        // A panic elsewhere leaves whole entries behind, never half of one.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cache that remembers some of those that are gone, for a while.
    pub(crate) fn remembering(is_memorable: fn(&V) -> bool) -> Cache<V> {
        Cache {
            is_memorable,
            ..Cache::default()
        }
    }

    /// Uids of the memorable children of an owner that are gone.
    pub(crate) fn gone(&self, owner: &str) -> BTreeSet<String> {
        let inner = self.lock();
        let gone = inner.memorable.get(owner);
        gone.map(|(_, uids)| uids.clone()).unwrap_or_default()
    }

    /// Takes in what the watch says; returns the owners that it concerns.
    pub(crate) fn apply(&self, event: Event<Child<V>>) -> Vec<(String, Owner)> {
        let mut inner = self.lock();
        match event {
            Event::Init => {
                inner.listing.clear();
                Vec::new()
            }
            Event::InitApply(child) => {
                inner.listing.push(child);
                Vec::new()
            }
            Event::InitDone => inner.replace(self.is_memorable),
            Event::Apply(child) => {
                let whose = (child.namespace.clone(), child.owner.clone());
                inner.insert(child);
                vec![whose]
            }
            Event::Delete(child) => {
                let whose = (child.namespace.clone(), child.owner.clone());
                inner.remove(&child);
                if (self.is_memorable)(&child.view) {
                    inner.remember(&child);
                }
                vec![whose]
            }
        }
    }

    /// Keeps the result of a write until the watch shows it.
    pub(crate) fn note_written(&self, child: Child<V>) {
        let mut inner = self.lock();
        if number(&child.version) > inner.reached {
            let written = inner.written.entry(child.owner.uid.clone()).or_default();
            let (key, child, at) = (child.key(), Arc::new(child), Instant::now());
            written.insert(key, Written { child, at });
        }
    }

    /// The children of the owner with this uid.
    pub(crate) fn of(&self, owner: &str) -> Children<V> {
        let inner = self.lock();
        let nothing = HashMap::new();
        let written = inner.written.get(owner).unwrap_or(&nothing);
        let written = |key: &Key| {
            let kept = written
                .get(key)
                .filter(|written| written.at.elapsed() < WRITTEN_FOR);
            kept.map(|written| &written.child)
        };
        let latest = |key: &Key| {
            let seen = inner.seen.get(key)?;
            let written = written(key).filter(|written| written.uid == seen.uid);
            Some(Arc::clone(written.unwrap_or(seen)))
        };
        let unseen = |key: &Key| {
            let seen = inner.seen.get(key).map(|seen| &seen.uid);
            written(key)
                .filter(|written| seen != Some(&written.uid))
                .cloned()
        };
        let keys = inner.by_owner.get(owner).into_iter().flatten();
        let written_keys = inner
            .written
            .get(owner)
            .into_iter()
            .flatten()
            .map(|(key, _)| key);
        Children {
            seen: keys.filter_map(latest).collect(),
            unseen: written_keys.filter_map(unseen).collect(),
        }
    }
}

impl<V> Inner<V> {
    fn insert(&mut self, child: Child<V>) {
        let key = child.key();
        let version = number(&child.version);
        self.reached = self.reached.max(version);
        self.forget(&child.owner.uid, &key, |written| {
            number(&written.version) <= version
        });
        let before = self.seen.get(&key).map(|before| before.owner.uid.clone());
        if let Some(before) = before.filter(|before| *before != child.owner.uid) {
            self.disown(&before, &key);
        }
        self.by_owner
            .entry(child.owner.uid.clone())
            .or_default()
            .insert(key.clone());
        self.seen.insert(key, Arc::new(child));
    }

    fn remove(&mut self, child: &Child<V>) {
        let key = child.key();
        self.reached = self.reached.max(number(&child.version));
        self.forget(&child.owner.uid, &key, |written| written.uid == child.uid);
        if let Some(gone) = self.seen.remove(&key) {
            self.disown(&gone.owner.uid, &key);
        }
    }

    fn remember(&mut self, child: &Child<V>) {
        let now = Instant::now();
        self.memorable
            .retain(|_, (at, _)| now.duration_since(*at) < REMEMBERED_FOR);
        let nothing = (now, BTreeSet::new());
        let owner = child.owner.uid.clone();
        let (at, uids) = self.memorable.entry(owner).or_insert(nothing);
        *at = now;
        uids.insert(child.uid.clone());
    }

    fn forget(&mut self, owner: &str, key: &Key, which: impl Fn(&Child<V>) -> bool) {
        let Some(written) = self.written.get_mut(owner) else {
            return;
        };
        if written
            .get(key)
            .is_some_and(|written| which(&written.child))
        {
            written.remove(key);
        }
        if written.is_empty() {
            self.written.remove(owner);
        }
    }

    fn disown(&mut self, owner: &str, key: &Key) {
        if let Some(keys) = self.by_owner.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }

    /// A list was received: what it does not hold is gone. Our writes are
    /// forgotten too, since events that would have shown them may be lost;
    /// at worst a request is repeated.
    fn replace(&mut self, is_memorable: fn(&V) -> bool) -> Vec<(String, Owner)> {
        let written = self.written.values().flat_map(HashMap::values);
        let known = written.map(|written| &written.child);
        let mut concerned: HashSet<(String, Owner)> = known
            .chain(self.seen.values())
            .map(|child| (child.namespace.clone(), child.owner.clone()))
            .collect();
        let before = std::mem::take(&mut self.seen);
        self.by_owner.clear();
        self.written.clear();
        for child in std::mem::take(&mut self.listing) {
            concerned.insert((child.namespace.clone(), child.owner.clone()));
            self.insert(child);
        }
        for (key, child) in before {
            let is_there = self.seen.get(&key).is_some_and(|now| now.uid == child.uid);
            if !is_there && is_memorable(&child.view) {
                self.remember(&child);
            }
        }
        concerned.into_iter().collect()
    }
}

/// Versions of one kind are numbers that grow. Where they are not, a write is
/// not kept, and at worst a request is repeated.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(version: u64) -> Child<u64> {
        Child {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            uid: "u".to_owned(),
            version: version.to_string(),
            owner: Owner {
                name: "job".to_owned(),
                uid: "owner".to_owned(),
            },
            view: Arc::new(version),
        }
    }

    fn shown(cache: &Cache<u64>) -> (Vec<u64>, usize) {
        let Children { seen, unseen } = cache.of("owner");
        (seen.iter().map(|child| *child.view).collect(), unseen.len())
    }

    #[test]
    fn a_write_counts_until_the_watch_shows_it() {
        let cache = Cache::default();
        cache.note_written(child(5));
        assert_eq!(shown(&cache), (vec![], 1));
        cache.apply(Event::Apply(child(5)));
        cache.note_written(child(7));
        assert_eq!(shown(&cache), (vec![7], 0));
        cache.apply(Event::Apply(child(7)));
        cache.apply(Event::Apply(child(8)));
        assert_eq!(shown(&cache), (vec![8], 0));
    }

    #[test]
    fn a_list_concerns_those_whose_writes_it_does_not_show() {
        let cache = Cache::default();
        cache.note_written(child(5));
        cache.apply(Event::Init);
        let concerned = cache.apply(Event::InitDone);
        assert_eq!(shown(&cache), (vec![], 0));
        assert_eq!(concerned, [("n".to_owned(), child(5).owner)]);
    }

    #[test]
    fn who_is_gone_is_remembered_if_memorable() {
        for relist in [false, true] {
            let cache = Cache::remembering(|version| *version == 6);
            cache.apply(Event::Apply(child(6)));
            if relist {
                cache.apply(Event::Init);
                cache.apply(Event::InitDone);
            } else {
                cache.apply(Event::Delete(child(6)));
            }
            assert_eq!(shown(&cache), (vec![], 0));
            assert!(cache.gone("owner").contains("u"), "relist: {relist}");
        }
    }

    #[test]
    fn an_answer_that_comes_after_the_watch_is_old() {
        let cache = Cache::default();
        cache.apply(Event::Apply(child(5)));
        cache.apply(Event::Apply(child(6)));
        cache.note_written(child(5));
        assert_eq!(shown(&cache), (vec![6], 0));
        // The object may even be gone by then, and must not be waited for.
        cache.apply(Event::Delete(child(8)));
        cache.note_written(child(7));
        assert_eq!(shown(&cache), (vec![], 0));
    }
}
