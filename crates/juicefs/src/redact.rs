//! Keys stay out of what others get to read.

use std::fmt;

use cache_api::Credentials;

use crate::address::Address;

const HIDDEN: &str = "***";

/// Takes keys out of texts: those that it knows, however they are escaped, and
/// whatever stands before the `@` of a URL.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first: one key may be part of another.
    secrets: Vec<Vec<u8>>,
}

impl Redactor {
    /// One who knows some keys.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Redactor {
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        let mut secrets: Vec<Vec<u8>> = secrets.map(|secret| secret.as_bytes().to_vec()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Redactor { secrets }
    }

    /// One who knows the keys of a sync.
    pub fn of(credentials: &Credentials) -> Redactor {
        let metadata = Address::parse(&credentials.metaurl);
        let keys = [&credentials.access_key, &credentials.secret_key];
        let keys = keys.into_iter().flatten().chain(&metadata.password);
        Redactor::new(keys.map(String::as_str))
    }

    /// The text without keys.
    pub fn redact(&self, text: &str) -> String {
        without_userinfo(&self.without_secrets(text))
    }

    fn without_secrets(&self, text: &str) -> String {
        let mut rest = text;
        let mut shown = String::with_capacity(text.len());
        while let Some(next) = rest.chars().next() {
            let found = self.secrets.iter().find_map(|secret| found(rest, secret));
            let after = match found {
                Some(length) => {
                    shown.push_str(HIDDEN);
                    length
                }
                None => {
                    shown.push(next);
                    next.len_utf8()
                }
            };
            rest = rest.get(after..).unwrap_or_default();
        }
        shown
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

/// How many bytes at the beginning of a text are the secret, each of its bytes as
/// it is or escaped as in URLs, JSON and quoted strings.
fn found(text: &str, secret: &[u8]) -> Option<usize> {
    let mut at = 0;
    for byte in secret {
        at += escaped(text.as_bytes().get(at..)?, *byte)?;
    }
    text.is_char_boundary(at).then_some(at)
}

/// How many bytes stand for one.
fn escaped(text: &[u8], byte: u8) -> Option<usize> {
    let hexadecimal = |digits: Option<&[u8]>| {
        let digits = std::str::from_utf8(digits?).ok()?;
        u8::from_str_radix(digits, 16)
            .ok()
            .filter(|found| *found == byte)
    };
    match text {
        [first, ..] if *first == byte && !(byte == b'\\' && text.get(1) == Some(&byte)) => Some(1),
        [b'%', ..] => hexadecimal(text.get(1..3)).map(|_| 3),
        [b'+', ..] if byte == b' ' => Some(1),
        [b'\\', b'u', b'0', b'0', ..] => hexadecimal(text.get(4..6)).map(|_| 6),
        [b'\\', b'x', ..] => hexadecimal(text.get(2..4)).map(|_| 4),
        [b'\\', second, ..] if *second == byte => Some(2),
        _ => None,
    }
}

/// The text with nothing before the `@` of its URLs.
fn without_userinfo(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends = |c: char| c == '/' || c == '"' || c == '\'' || c.is_whitespace();
        let authority = part.split(ends).next().unwrap_or_default();
        let rest = part.get(authority.len()..).unwrap_or_default();
        shown.push_str("://");
        match authority.rsplit_once('@') {
            Some((_, host)) => shown.extend([HIDDEN, "@", host]),
            None => shown.push_str(authority),
        }
        shown.push_str(rest);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hidden_however_it_is_escaped() {
        let redactor = Redactor::new(["p/w\"&+ ä", "plain"]);
        let cases = [
            ("is plain.", "is ***."),
            ("is p/w\"&+ ä.", "is ***."),
            ("is p%2Fw%22%26%2B%20%C3%A4.", "is ***."),
            ("is p%2fw%22%26%2b+%c3%a4.", "is ***."),
            (r#"is "p/w\"&+ ä"."#, r#"is "***"."#),
            (r#"is "p/w\"\u0026+ ä"."#, r#"is "***"."#),
            ("nothing p/w here ä", "nothing p/w here ä"),
        ];
        for (text, want) in cases {
            assert_eq!(redactor.redact(text), want);
        }
    }

    #[test]
    fn a_key_with_a_backslash_is_hidden() {
        let redactor = Redactor::new([r"a\b"]);
        assert_eq!(redactor.redact(r"a\b and a\\b"), "*** and ***");
    }

    #[test]
    fn a_key_that_is_part_of_another_leaves_no_rest() {
        assert_eq!(Redactor::new(["abc", "abcdef"]).redact("abcdef"), "***");
    }

    #[test]
    fn urls_are_shown_without_userinfo() {
        let redactor = Redactor::default();
        let cases = [
            (
                "Get \"redis://:pw@h:1/0\": no",
                "Get \"redis://***@h:1/0\": no",
            ),
            ("s3://a:b@c/d@e s3://f/g", "s3://***@c/d@e s3://f/g"),
            ("mail a@b", "mail a@b"),
        ];
        for (text, want) in cases {
            assert_eq!(redactor.redact(text), want);
        }
    }

    #[test]
    fn every_key_of_a_sync_is_known() {
        let credentials = Credentials {
            access_key: Some("AK".to_owned()),
            secret_key: Some("SK".to_owned()),
            metaurl: "redis://:p%40w@h/0".to_owned(),
        };
        let redactor = Redactor::of(&credentials);
        assert_eq!(redactor.redact("AK SK p@w p%40w"), "*** *** *** ***");
        let redactor = Redactor::of(&Credentials {
            metaurl: "postgres://u@h/db?password=PW".to_owned(),
            ..Credentials::default()
        });
        assert_eq!(redactor.redact("password=PW"), "password=***");
    }
}
