//! Which faults there are, how likely each is, and how often each was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Method;

/// What happens to a request that is no watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 409 to a write that was not done.
    Conflict,
    /// 429, with the time after which to try again.
    TooMany,
    /// 500; nothing was done.
    Internal,
    /// It was done, and the answer is 500 all the same.
    DoneAndInternal,
    /// It was done, and the connection breaks before the answer.
    DoneAndLost,
}

/// What happens to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchFault {
    /// It ends as if its time were over.
    Ends,
    /// The connection breaks in the middle of an event.
    Breaks,
    /// 410: what it asks for is too old.
    Gone,
    /// It begins, and then an event says 410.
    GoneLater,
    /// 500.
    Internal,
}

/// Of a hundred requests.
const FAULTS: [(Fault, usize); 5] = [
    (Fault::Conflict, 3),
    (Fault::TooMany, 3),
    (Fault::Internal, 3),
    (Fault::DoneAndInternal, 2),
    (Fault::DoneAndLost, 2),
];
const REQUESTS: usize = 100;
/// Of twenty watches: none lives long. After an error, though not after a break,
/// the manager's watch pauses, and longer each time, so that errors are the fewer.
const WATCH_FAULTS: [(WatchFault, usize); 5] = [
    (WatchFault::Ends, 8),
    (WatchFault::Breaks, 9),
    (WatchFault::Gone, 1),
    (WatchFault::GoneLater, 1),
    (WatchFault::Internal, 1),
];
const WATCHES: usize = 20;
/// How long a watch lives before its fault, in milliseconds.
const WATCH_LIFE_MS: std::ops::Range<u64> = 500..8000;
/// How many events in a hundred are late, and by how much.
const LATE: (u8, std::ops::Range<u64>) = (20, 50..800);

/// Decides and counts.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    random: fastrand::Rng,
    requests: Deck<Fault>,
    watches: Deck<WatchFault>,
    done: BTreeMap<Fault, usize>,
    done_to_watches: BTreeMap<WatchFault, usize>,
    late: usize,
}

impl Faults {
    pub fn new(random: fastrand::Rng) -> Faults {
        Faults(Arc::new(Mutex::new(Inner {
            random,
            requests: Deck::new(&FAULTS, REQUESTS),
            watches: Deck::new(&WATCH_FAULTS, WATCHES),
            done: BTreeMap::new(),
            done_to_watches: BTreeMap::new(),
            late: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of_request(&self, method: &Method) -> Option<Fault> {
        let inner = &mut *self.lock();
        let fault = inner
            .requests
            .draw(&mut inner.random)
            // Nothing that only reads can be in conflict.
            .filter(|fault| *fault != Fault::Conflict || *method != Method::GET)?;
        *inner.done.entry(fault).or_default() += 1;
        Some(fault)
    }

    /// The fault of a watch, and when it comes if not at once.
    pub fn of_watch(&self) -> Option<(WatchFault, Duration)> {
        let inner = &mut *self.lock();
        let fault = inner.watches.draw(&mut inner.random)?;
        *inner.done_to_watches.entry(fault).or_default() += 1;
        let after = Duration::from_millis(inner.random.u64(WATCH_LIFE_MS));
        Some((fault, after))
    }

    /// How late an event is.
    pub fn lateness(&self) -> Option<Duration> {
        let mut inner = self.lock();
        if inner.random.u8(0..100) >= LATE.0 {
            return None;
        }
        inner.late += 1;
        Some(Duration::from_millis(inner.random.u64(LATE.1)))
    }

    /// A run in which some fault never came has shown nothing about it.
    pub fn were_all_done(&self) -> Result<()> {
        let inner = self.lock();
        for (fault, _) in FAULTS {
            ensure!(inner.done.contains_key(&fault), "{fault:?} never came");
        }
        for (fault, _) in WATCH_FAULTS {
            let came = inner.done_to_watches.contains_key(&fault);
            ensure!(came, "{fault:?} never came to a watch");
        }
        ensure!(inner.late > 0, "no event was late");
        Ok(())
    }
}

/// Cards that are shuffled when all were drawn: in the long run every fault
/// comes, and none comes much too often.
#[derive(Debug)]
struct Deck<T> {
    cards: Vec<Option<T>>,
    next: usize,
}

impl<T: Copy> Deck<T> {
    fn new(faults: &[(T, usize)], size: usize) -> Deck<T> {
        let faults = faults
            .iter()
            .flat_map(|(fault, count)| std::iter::repeat_n(Some(*fault), *count));
        let cards = faults.chain(std::iter::repeat(None)).take(size).collect();
        Deck { cards, next: 0 }
    }

    fn draw(&mut self, random: &mut fastrand::Rng) -> Option<T> {
        if self.next.is_multiple_of(self.cards.len()) {
            random.shuffle(&mut self.cards);
            self.next = 0;
        }
        let card = self.cards.get(self.next).copied().flatten();
        self.next += 1;
        card
    }
}
