//! `paddle-operator run`, the real program, with small jobs on this machine's own root.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test may fail, and says what it did not try"
)]

mod ends;
mod jobs;
mod sets;
mod support;
