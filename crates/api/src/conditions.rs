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
