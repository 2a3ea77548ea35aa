//! What is still waited for, and when the log tells of it: whoever waits for ever shall say for
//! whom.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// When it is told first; a start that is well takes less.
const FIRST: Duration = Duration::from_secs(10);
/// How soon it is told again.
const PAUSE: Duration = Duration::from_secs(60);
/// How many names stand in a line: a job may have 2,000 pods.
const NAMED: usize = 5;

/// What was got instead of what is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Got {
    /// The name does not resolve; what the resolver says of it.
    NoAddress(String),
    /// The address answers, and nobody listens there.
    Refused,
    /// The address does not answer.
    NoAnswer,
}

/// Names or endpoints, and what was got of each.
#[derive(Debug, Default)]
pub(super) struct Awaited(RefCell<BTreeMap<String, Got>>);

impl Awaited {
    /// From now on these are waited for.
    pub(super) fn set(&self, all: impl IntoIterator<Item = (String, Got)>) {
        *self.0.borrow_mut() = all.into_iter().collect();
    }

    /// One of them was asked again; it is not waited for any more when nothing is wrong with it.
    pub(super) fn note(&self, name: &str, got: Option<Got>) {
        let mut all = self.0.borrow_mut();
        match got {
            Some(got) => all.insert(name.to_owned(), got),
            None => all.remove(name),
        };
    }

    /// Tells of them now and then, for as long as it is asked to.
    pub(super) async fn tell(&self) -> Infallible {
        let start = Instant::now();
        let mut told = 0;
        loop {
            let due = due(told);
            sleep(due.saturating_sub(start.elapsed())).await;
            for line in self.lines(due) {
                super::say(&line);
            }
            told += 1;
        }
    }

    /// A line for each thing that was got.
    fn lines(&self, waited: Duration) -> Vec<String> {
        let all = self.0.borrow();
        let mut by_got: BTreeMap<&Got, Vec<&str>> = BTreeMap::new();
        for (name, got) in &*all {
            by_got.entry(got).or_default().push(name);
        }
        let by_got = by_got.into_iter();
        by_got
            .map(|(got, names)| line(got, &names, waited))
            .collect()
    }
}

/// When it is told, having been told so often.
fn due(told: u32) -> Duration {
    FIRST + PAUSE * told
}

fn line(got: &Got, names: &[&str], waited: Duration) -> String {
    let said = match got {
        Got::NoAddress(said) => format!(
            "no address ({said}); either the name is not there yet, or this pod does not reach DNS (a NetworkPolicy?)"
        ),
        Got::Refused => "connection refused; nobody listens there yet".to_owned(),
        Got::NoAnswer => {
            "no answer; a NetworkPolicy may keep this pod from there, or a node is gone".to_owned()
        }
    };
    let named = names.iter().take(NAMED).copied();
    let named = Vec::from_iter(named).join(", ");
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let waited = waited.as_secs();
    format!("still waiting after {waited} s for {named}{more}: {said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(name: &str, got: &Got) -> (String, Got) {
        (name.to_owned(), got.clone())
    }

    #[test]
    fn it_is_told_after_ten_seconds_and_then_every_minute() {
        assert_eq!(
            [0, 1, 2, 60].map(|told| due(told).as_secs()),
            [10, 70, 130, 3610]
        );
    }

    #[test]
    fn what_was_got_is_told_with_a_hint() {
        let awaited = Awaited::default();
        assert!(awaited.lines(FIRST).is_empty());
        awaited.set([
            missing("10.0.0.1:36000", &Got::Refused),
            missing("10.0.0.2:36000", &Got::NoAnswer),
            missing("10.0.0.3:36000", &Got::Refused),
        ]);
        let lines = awaited.lines(due(1));
        assert_eq!(
            lines,
            [
                "still waiting after 70 s for 10.0.0.1:36000, 10.0.0.3:36000: connection refused; nobody listens there yet",
                "still waiting after 70 s for 10.0.0.2:36000: no answer; a NetworkPolicy may keep this pod from there, or a node is gone",
            ]
        );
    }

    #[test]
    fn a_line_names_a_handful() {
        let awaited = Awaited::default();
        let got = Got::NoAddress("Try again".to_owned());
        awaited.set((10..28).map(|rank| missing(&format!("a-{rank}.b"), &got)));
        awaited.note("a-10.b", None);
        assert_eq!(
            awaited.lines(FIRST),
            [
                "still waiting after 10 s for a-11.b, a-12.b, a-13.b, a-14.b, a-15.b and 12 more: no address (Try again); either the name is not there yet, or this pod does not reach DNS (a NetworkPolicy?)"
            ]
        );
    }
}
