//! The custom resources of Paddle Operator: what a user may write and what the
//! operator answers. Types, names and schemas only; no client and no decisions.
//!
//! The doc comments of the fields become the API reference and the
//! descriptions that `kubectl explain` prints, so they speak to users.

mod conditions;
mod core_schema;
mod crd;
pub mod labels;
mod meta;
mod paddlejob;
mod podgroup;
mod samplejob;
mod sampleset;
mod template;
mod warmup;

pub use conditions::{Condition, ConditionStatus, set_condition};
pub use crd::crds;
pub use meta::{PodReference, Role, SecretReference};
pub use paddlejob::*;
pub use podgroup::{PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus};
pub use samplejob::*;
pub use sampleset::*;
pub use template::PodTemplate;
pub use warmup::{SampleOrder, Sampler, WarmupStrategy};

/// The API group of every kind here.
pub const GROUP: &str = "batch.paddlepaddle.org";
