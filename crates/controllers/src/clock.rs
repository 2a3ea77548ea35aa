//! The time, as the controllers see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::Action;

/// The clock of the machine, which tests may put forward.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ahead_seconds: Arc<AtomicI64>,
}

impl Clock {
    /// The time now, in whole seconds as the API writes it: a status that was
    /// read back then equals the one that was written.
    pub fn now(&self) -> Timestamp {
        let seconds = Timestamp::now().as_second();
        let ahead = SignedDuration::from_secs(self.ahead_seconds.load(Ordering::Relaxed));
        Timestamp::from_second(seconds)
            .and_then(|now| now.checked_add(ahead))
            .unwrap_or(Timestamp::MAX)
    }

    /// Puts the clock forward.
    pub fn advance(&self, by: SignedDuration) {
        self.ahead_seconds
            .fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

/// How long to wait for a moment. Timers are a little late rather than early, so
/// that one is enough.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    wait + Duration::from_millis(100)
}

/// Looks again after the shortest of these times, if there is any.
pub(crate) fn wake(times: impl IntoIterator<Item = Option<Duration>>) -> Action {
    let soonest = times.into_iter().flatten().min();
    soonest.map_or_else(Action::await_change, Action::requeue)
}
