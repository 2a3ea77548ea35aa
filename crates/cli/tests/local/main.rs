//! `paddle-operator local`, as its users have it: the real binary, real processes.
//!
//! Most of it needs root, or namespaces for ordinary users.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod crash;
mod elastic;
mod heter;
mod host;
mod isolation;
mod pods;
mod support;
mod training;
mod volumes;

#[path = "../common/installed.rs"]
mod installed;
#[path = "../common/servers.rs"]
#[expect(dead_code, reason = "nothing here needs S3")]
mod servers;
#[path = "../common/worlds.rs"]
mod worlds;
