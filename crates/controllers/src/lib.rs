//! The controllers: observe → plan → apply, one folder per kind.
//!
//! A controller can't tell which API it talks to, and takes no decision of its
//! own: what is to be done comes from the `plan` crate.

mod cache;
mod clock;
mod error;
mod events;
mod leader;
mod memory;
mod metrics;
mod nodes;
pub mod paddlejob;
mod status;

pub use clock::Clock;
pub use error::Error;
pub use leader::{Leadership, lead};
pub use metrics::Metrics;

/// Every stored object has a name, a uid and a version.
fn identity(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}
