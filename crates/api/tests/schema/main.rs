//! The CRDs and the types say the same, and say what a real API server needs.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod fixtures;
mod objects;
mod rules;
mod structural;
mod template;
mod walk;
