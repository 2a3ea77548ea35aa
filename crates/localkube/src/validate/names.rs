//! How things may be called. Each function returns what is wrong, in the words
//! of the real API server.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
     or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
     '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
     (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
     '[-._a-zA-Z0-9]+')";
pub(crate) const VARIABLE: &str = "a valid environment variable name must consist only of \
     printable ASCII characters other than '='";

type Wrong = Vec<String>;

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Letters, digits, and within them `-`, `_` and `.`.
fn is_word(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(inner) && end(text.chars().next()) && end(text.chars().next_back())
}

/// The name of most objects.
pub(crate) fn subdomain(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    if !is_subdomain(text) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// A name without dots.
pub(crate) fn label(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) {
        let has_dots = is_subdomain(text);
        wrong.push(
            if has_dots {
                "must not contain dots"
            } else {
                LABEL
            }
            .to_owned(),
        );
    }
    wrong
}

/// A name, perhaps with a domain before it: the key of a label.
pub(crate) fn qualified(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let subdomain = subdomain(prefix).into_iter();
                wrong.extend(subdomain.map(|what| format!("prefix part {what}")));
            }
            name
        }
        None => text,
    };
    if name.contains('/') {
        return vec![format!(
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
             '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') \
             with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        wrong.push(QUALIFIED.to_owned());
    }
    wrong
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// The key of an entry of a ConfigMap or a Secret, which may become a file.
pub(crate) fn config_key(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 bytes".to_owned());
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || !text.chars().all(inner) {
        wrong.push(KEY.to_owned());
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of a variable of an environment.
pub(crate) fn variable(text: &str) -> Wrong {
    let is_good = |c: char| matches!(c, ' '..='~') && c != '=';
    match text.chars().all(is_good) {
        true => Wrong::new(),
        false => vec![VARIABLE.to_owned()],
    }
}

/// The name of a port.
pub(crate) fn port(text: &str) -> Wrong {
    let mut wrong = Wrong::new();
    let mut say = |what: &str| wrong.push(what.to_owned());
    if text.len() > 15 {
        say("must be no more than 15 characters");
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.chars().all(inner) {
        say("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.chars().any(|c| c.is_ascii_alphabetic()) {
        say("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        say("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        say("must not begin or end with a hyphen");
    }
    wrong
}
