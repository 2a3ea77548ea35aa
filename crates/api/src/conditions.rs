//! Conditions: the part of a status that says why.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It can't be told.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One aspect of the object's state, with the reason for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, such as `Running` or `Failed`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// One word that programs may rely on.
    pub reason: String,
    /// What a person wants to know: which object, what was found, what helps.
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// The `metadata.generation` that this was said of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Messages are cut here: a status is no place for a log.
const MAX_MESSAGE: usize = 2048;

/// Sets one condition in `conditions`; `lastTransitionTime` moves only when the
/// status changes, so that repeating what was said changes nothing.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: impl Into<ConditionStatus>,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = status.into();
    let mut message = message.into();
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - '…'.len_utf8()));
        message.push('…');
    }
    let at = conditions.iter().position(|c| c.type_ == type_);
    let last_transition_time = match at.and_then(|at| conditions.get(at)) {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let new = Condition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time,
        observed_generation: generation,
    };
    match at.and_then(|at| conditions.get_mut(at)) {
        Some(slot) => *slot = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, "Running", true, "Ready", "", None, at(1));
        let first = conditions.clone();
        set_condition(&mut conditions, "Running", true, "Ready", "", None, at(2));
        assert_eq!(conditions, first);

        set_condition(
            &mut conditions,
            "Running",
            true,
            "Other",
            "x",
            Some(3),
            at(3),
        );
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].reason, "Other");
        assert_eq!(conditions[0].observed_generation, Some(3));

        set_condition(&mut conditions, "Running", false, "Other", "x", None, at(4));
        assert_eq!(conditions[0].last_transition_time, Time(at(4)));
        set_condition(&mut conditions, "Failed", true, "Other", "x", None, at(5));
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut conditions = Vec::new();
        let text = "飞".repeat(MAX_MESSAGE);
        set_condition(&mut conditions, "Failed", true, "Long", text, None, at(1));
        let message = &conditions[0].message;
        assert!(message.len() <= MAX_MESSAGE, "{} bytes", message.len());
        assert!(message.ends_with("飞…"));

        let exact = "a".repeat(MAX_MESSAGE);
        set_condition(
            &mut conditions,
            "Failed",
            true,
            "Long",
            exact.clone(),
            None,
            at(1),
        );
        assert_eq!(conditions[0].message, exact);
    }
}
