//! What failed and is tried again: a while later, or when the pod changes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::node::lifecycle::{Seen, Trouble};

/// How soon something is tried again, at first and at last.
pub(in crate::node) const RETRY: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(20));

/// The name of what is no container's but the pod's. No container has none.
pub(super) const THE_POD: &str = "";

/// What failed, by container.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<String, Failure>);

struct Failure {
    trouble: Trouble,
    again_at: Timestamp,
    pause: Duration,
    /// It is tried again now.
    is_due: bool,
}

impl Failures {
    /// What keeps something from going on.
    pub(super) fn trouble(&self, name: &str) -> Option<Trouble> {
        self.0.get(name).map(|failure| failure.trouble.clone())
    }

    /// Remembers how something ended; whether that is news.
    pub(super) fn note(&mut self, name: &str, done: Result<(), Trouble>, now: Timestamp) -> bool {
        let before = self.0.remove(name);
        let Err(trouble) = done else {
            return false;
        };
        let is_news = before
            .as_ref()
            .is_none_or(|before| before.trouble != trouble);
        let pause = before.map_or(RETRY.0, |before| (before.pause * 2).min(RETRY.1));
        let failure = Failure {
            trouble,
            pause,
            again_at: now + pause,
            is_due: false,
        };
        self.0.insert(name.to_owned(), failure);
        is_news
    }

    /// All of it is tried again.
    pub(super) fn try_again(&mut self) {
        for failure in self.0.values_mut() {
            failure.is_due = true;
        }
    }

    /// What has waited for long enough is.
    pub(super) fn wait_is_over(&mut self, now: Timestamp) {
        for failure in self.0.values_mut() {
            failure.is_due |= failure.again_at <= now;
        }
    }

    /// When the next of it is.
    pub(super) fn again_at(&self) -> Option<Timestamp> {
        let waiting = self.0.values().filter(|failure| !failure.is_due);
        waiting.map(|failure| failure.again_at).min()
    }

    /// What was seen, but for what is tried again now: until that has failed too, its
    /// trouble is still told.
    pub(super) fn without_due(&self, seen: &Seen) -> Seen {
        let mut seen = seen.clone();
        for (name, _) in self.0.iter().filter(|(_, failure)| failure.is_due) {
            match seen.containers.get_mut(name) {
                Some(container) => container.trouble = None,
                None => seen.trouble = None,
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_waits_longer_and_is_no_news() {
        let mut failures = Failures::default();
        let now = Timestamp::UNIX_EPOCH;
        let trouble = || Err(Trouble::new("ErrImagePull", "no such image"));
        assert!(failures.note("a", trouble(), now));
        assert_eq!(failures.again_at(), Some(now + Duration::from_secs(1)));
        assert!(!failures.note("a", trouble(), now));
        assert_eq!(failures.again_at(), Some(now + Duration::from_secs(2)));
        for _ in 0..10 {
            failures.note("a", trouble(), now);
        }
        assert_eq!(failures.again_at(), Some(now + RETRY.1));
        failures.try_again();
        assert_eq!(failures.again_at(), None, "it is tried now");
        assert!(!failures.note("a", Ok(()), now));
        assert_eq!(failures.trouble("a"), None);
    }
}
