//! The custom resources of Paddle Operator: what a user may write and what the
//! operator answers. Types, names and schemas only; no client and no decisions.
//!
//! The doc comments of the fields become the API reference and the
//! descriptions that `kubectl explain` prints, so they speak to users.

mod conditions;
pub mod labels;
mod meta;
mod paddlejob;

mod template;

pub use conditions::{Condition, ConditionStatus, set_condition};
pub use meta::{PodReference, Role};
pub use paddlejob::*;
pub use template::PodTemplate;

/// The API group of every kind here.
pub const GROUP: &str = "batch.paddlepaddle.org";
