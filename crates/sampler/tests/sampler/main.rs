//! What the servers and the command ask of this crate, by tables and properties, and beside the
//! real Paddle.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

mod enumeration;
mod list;
mod paddle;
mod shares;
mod support;

#[path = "../../../cli/tests/common/installed.rs"]
mod installed;
