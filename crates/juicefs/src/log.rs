//! What a command says on its standard error.

use std::collections::VecDeque;

use crate::Error;
use crate::error::{advice, classify};

/// Lines that are kept of each kind.
const KEPT: usize = 20;
/// The longest words that go into a message.
const LONGEST: usize = 600;

/// What a command has said, without keys.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The first complaints: later ones usually follow from them.
    complaints: Vec<String>,
    fatal: Option<String>,
    last: VecDeque<String>,
}

impl Log {
    /// Adds a line that holds no key.
    pub(crate) fn add(&mut self, line: &str) {
        let (level, words) = split(line);
        match level {
            "FATAL" => self.fatal = Some(words.to_owned()),
            "ERROR" if self.complaints.len() < KEPT => {
                self.complaints.push(words.to_owned());
            }
            _ => {}
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(words.to_owned());
    }

    /// The last line in which something can be found.
    pub(crate) fn find<T>(&self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.last.iter().rev().find_map(|line| read(line))
    }

    /// Why the command failed.
    pub(crate) fn error(&self, what: &str) -> Error {
        let words = self.fatal.as_ref().or(self.complaints.first());
        let words = words.or(self.last.back());
        let words = words.map_or("it did not say why", String::as_str);
        let reason = classify(words);
        let words: String = words.chars().take(LONGEST).collect();
        Error::new(reason, format!("{what}: {words}{}", advice(reason)))
    }

    /// The first complaint, to be added to a message.
    pub(crate) fn complaint(&self) -> Option<&str> {
        self.complaints.first().map(String::as_str)
    }
}

/// The level and the words of a line such as
/// `2026/11/16 07:02:14.62 juicefs[1] <FATAL>: words [main@main.go:31]`.
fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    let Some((head, words)) = line.split_once(">: ") else {
        return ("", line);
    };
    let Some((_, level)) = head.rsplit_once('<') else {
        return ("", line);
    };
    let place = words
        .rsplit_once(" [")
        .filter(|(_, place)| place.ends_with(']'));
    (level, place.map_or(words, |(words, _)| words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_word_is_told_without_its_frame() {
        let mut log = Log::default();
        log.add(
            "2026/11/16 07:02:14.3 juicefs[2] <ERROR>: Can't list: connection refused [a@b.go:1]",
        );
        log.add("2026/11/16 07:02:14.4 juicefs[2] <FATAL>: list s3://x/: no such host [main@main.go:31]");
        log.add("2026/11/16 07:02:14.5 juicefs[2] <INFO>: close session 0: <nil> [C@base.go:1016]");
        let error = log.error("sync");
        assert_eq!(error.reason, "SourceUnreachable");
        assert!(
            error
                .message
                .starts_with("sync: list s3://x/: no such host;"),
            "{error}"
        );
        assert_eq!(log.complaint(), Some("Can't list: connection refused"));
    }

    #[test]
    fn a_command_that_says_nothing_has_failed_all_the_same() {
        assert_eq!(
            Log::default().error("rmr").message,
            "rmr: it did not say why"
        );
    }
}
