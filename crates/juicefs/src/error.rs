//! Why a command could not do what it should.

use cache_api::reason;

/// Why a command could not do what it should. It holds no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// One of [`cache_api::reason`].
    pub reason: &'static str,
    /// What was found, and what would help.
    pub message: String,
}

impl Error {
    /// For a reason, in words for users.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Error {
        Error {
            reason,
            message: message.into(),
        }
    }
}

/// What a last word of juicefs, or of the libraries in it, tells. The first that
/// fits counts.
const WORDS: [(&str, &str); 32] = [
    ("no space left", reason::OUT_OF_SPACE),
    ("disk quota exceeded", reason::OUT_OF_SPACE),
    ("create jfs", reason::VOLUME_UNREACHABLE),
    ("is not available: ", reason::VOLUME_UNREACHABLE),
    ("load setting", reason::VOLUME_UNREACHABLE),
    ("not formatted", reason::VOLUME_UNREACHABLE),
    ("noauth", reason::VOLUME_UNREACHABLE),
    ("wrongpass", reason::VOLUME_UNREACHABLE),
    ("open control file", reason::VOLUME_UNREACHABLE),
    (
        "transport endpoint is not connected",
        reason::VOLUME_UNREACHABLE,
    ),
    ("invalid storage", reason::BAD_SOURCE),
    ("nosuchbucket", reason::BAD_SOURCE),
    ("invalid bucket", reason::BAD_SOURCE),
    ("not a directory", reason::BAD_SOURCE),
    ("http response to https", reason::BAD_SOURCE),
    ("statuscode: 301", reason::BAD_SOURCE),
    ("statuscode: 404", reason::BAD_SOURCE),
    ("signaturedoesnotmatch", reason::ACCESS_DENIED),
    ("invalidaccesskeyid", reason::ACCESS_DENIED),
    ("accessdenied", reason::ACCESS_DENIED),
    ("access denied", reason::ACCESS_DENIED),
    ("statuscode: 403", reason::ACCESS_DENIED),
    ("statuscode: 401", reason::ACCESS_DENIED),
    ("get credentials", reason::ACCESS_DENIED),
    ("permission denied", reason::ACCESS_DENIED),
    ("connection refused", reason::SOURCE_UNREACHABLE),
    ("no such host", reason::SOURCE_UNREACHABLE),
    ("no route to host", reason::SOURCE_UNREACHABLE),
    ("network is unreachable", reason::SOURCE_UNREACHABLE),
    ("timeout", reason::SOURCE_UNREACHABLE),
    ("deadline exceeded", reason::SOURCE_UNREACHABLE),
    ("connection reset", reason::SOURCE_UNREACHABLE),
];

/// The reason in the words of juicefs.
pub(crate) fn classify(words: &str) -> &'static str {
    let words = words.to_lowercase();
    let found = WORDS.iter().find(|(word, _)| words.contains(word));
    found.map_or(reason::COMMAND_FAILED, |(_, reason)| *reason)
}

/// What would help.
pub(crate) fn advice(reason: &str) -> &'static str {
    match reason {
        reason::OUT_OF_SPACE => "; make room in the storage of the volume",
        reason::VOLUME_UNREACHABLE => "; see whether metaurl is right and its server runs",
        reason::BAD_SOURCE => "; see whether the URI of the source is right",
        reason::ACCESS_DENIED => "; see whether the keys of the source are right",
        reason::SOURCE_UNREACHABLE => {
            "; see whether the address of the source is right and its server runs"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of juicefs 1.4.2.
    #[test]
    fn reasons_are_found_in_the_words_of_juicefs() {
        let cases = [
            (
                "list minio://127.0.0.1:9/b/: operation error S3: ListObjectsV2, https response error StatusCode: 403, RequestID: 1, HostID: , api error SignatureDoesNotMatch: The request",
                "AccessDenied",
            ),
            (
                "list s3://127.0.0.1:1/b/p/: operation error S3: ListObjectsV2, request send failed, Get \"http://127.0.0.1:1/b\": dial tcp 127.0.0.1:1: connect: connection refused",
                "SourceUnreachable",
            ),
            (
                "list s3://b/p/: operation error S3: ListObjectsV2, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found",
                "AccessDenied",
            ),
            (
                "list minio://127.0.0.1:9/n/: StatusCode: 404, NoSuchBucket: The specified bucket does not exist",
                "BadSource",
            ),
            ("create foo https://x: invalid storage: foo", "BadSource"),
            (
                "list file:///etc/passwd/: open /etc/passwd/: not a directory",
                "BadSource",
            ),
            (
                "create jfs vol: load setting: database is not formatted, please run `juicefs format ...` first",
                "VolumeUnreachable",
            ),
            (
                "Meta redis://h/0 is not available: ping redis: dial tcp: connect: connection refused",
                "VolumeUnreachable",
            ),
            ("write /x: no space left on device", "OutOfSpace"),
            ("something else", "CommandFailed"),
        ];
        for (words, want) in cases {
            assert_eq!(classify(words), want, "{words}");
        }
    }
}
