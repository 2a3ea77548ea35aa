//! What Paddle Operator decides.
//!
//! Everything here is a pure and total function of what was seen: no client, no
//! clock, no environment, no files. The controllers observe, call this crate,
//! and apply what it says.

mod event;
mod fingerprint;
pub mod names;
pub mod operation;
pub mod paddlejob;
pub mod samplejob;
pub mod sampleset;
mod urgency;

pub use event::Event;
pub use urgency::Urgency;
