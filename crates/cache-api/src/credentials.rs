//! Keys, on their way from a Secret to the environment of one process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a sync needs to reach its source and the volume. It is never written to
/// a disk, a log or a command line; `Debug` shows no value of it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// Access key of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Secret key of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// Where the metadata of the volume is, with its password.
    pub metaurl: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_is_shown() {
        let credentials = Credentials {
            access_key: Some("AK-1".to_owned()),
            secret_key: Some("SK-2".to_owned()),
            metaurl: "redis://:PW-3@host/0".to_owned(),
        };
        let shown = format!("{credentials:?} {:#?}", Some(&credentials));
        for secret in ["AK-1", "SK-2", "PW-3"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
