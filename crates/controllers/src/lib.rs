//! The controllers: observe → plan → apply, one folder per kind.
//!
//! A controller can't tell which API it talks to, and takes no decision of its
//! own: what is to be done comes from the `plan` crate.

mod cache;
mod clock;
mod events;
mod leader;
mod metrics;
pub mod paddlejob;

pub use clock::Clock;
pub use leader::{Leadership, lead};
pub use metrics::Metrics;
