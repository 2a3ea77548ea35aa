//! What Paddle Operator decides.
//!
//! Everything here is a pure and total function of what was seen: no client, no
//! clock, no environment, no files. The controllers observe, call this crate,
//! and apply what it says.

pub mod names;
pub mod paddlejob;
