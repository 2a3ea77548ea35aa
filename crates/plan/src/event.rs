//! What is told to users beside the status.

/// Something worth telling.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// A Warning, rather than Normal.
    pub is_warning: bool,
    /// One word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Event {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Event {
        Event {
            is_warning: false,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Event {
        Event {
            is_warning: true,
            reason,
            message: message.into(),
        }
    }
}
