//! What can go wrong in a pass, by stage. What the user got wrong is not here:
//! that is a condition.

use std::borrow::Cow;

/// A pass did not get through; it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read.
    #[error("can't read: {}", words(.0))]
    Observe(#[source] kube::Error),
    /// A child could not be written.
    #[error("can't {action} {kind} {name}: {}", words(.source))]
    Apply {
        /// What was tried.
        action: &'static str,
        /// The kind of the child.
        kind: Cow<'static, str>,
        /// Its name.
        name: String,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// No keys could be made for the runtime servers.
    #[error("no keys for the runtime servers: {0}")]
    Keys(String),
    /// The status could not be written.
    #[error("can't write the status: {}", words(.0))]
    Publish(#[source] kube::Error),
}

impl Error {
    /// A fixed label for metrics.
    pub fn category(&self) -> &'static str {
        match self {
            _ if self.is_conflict() => "conflict",
            Error::Observe(_) => "observe",
            Error::Apply { .. } => "apply",
            Error::Keys(_) => "keys",
            Error::Publish(_) => "publish",
        }
    }

    /// Somebody else wrote meanwhile.
    pub fn is_conflict(&self) -> bool {
        match self {
            Error::Observe(error) | Error::Publish(error) => code(error) == Some(409),
            Error::Apply { source, .. } => code(source) == Some(409),
            Error::Keys(_) => false,
        }
    }
}

/// What the API server said, in its own words.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The HTTP status that the API server answered with.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the API server understood and will not do it: now or again, or as long as a
/// webhook that has to agree is down, which only an administrator can mend.
pub(crate) fn is_refusal(error: &kube::Error) -> bool {
    match code(error) {
        Some(400 | 403 | 405 | 413 | 422) => true,
        Some(500) => words(error).contains("failed calling webhook"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_is_down_refuses_and_an_api_server_in_trouble_does_not() {
        let answer = |code, message: &str| {
            let status = kube::core::Status::failure(message, "InternalError").with_code(code);
            kube::Error::Api(status.boxed())
        };
        let down = "Internal error occurred: failed calling webhook \"pods.example.com\": refused";
        assert!(is_refusal(&answer(500, down)));
        assert!(is_refusal(&answer(403, "exceeded quota")));
        assert!(!is_refusal(&answer(500, "etcdserver: request timed out")));
        assert!(!is_refusal(&answer(503, "the server is shutting down")));
    }
}
