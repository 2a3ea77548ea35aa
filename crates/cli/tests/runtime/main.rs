//! `paddle-operator runtime` with the real juicefs: a volume of its own for each
//! test, mounted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod crash;
mod operations;
mod secrets;
mod support;
mod trouble;

#[path = "../common/installed.rs"]
mod installed;
#[path = "../common/servers.rs"]
#[expect(dead_code, reason = "nothing here needs Redis")]
mod servers;
