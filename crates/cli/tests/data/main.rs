//! The data path on one machine: from a source of S3 through JuiceFS to the workers of a
//! job, with the real juicefs and a real Redis, which `make examples` installs.
//!
//! Needs root, and `/dev/fuse`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod bed;
mod changes;
mod full;
mod guides;
mod input;
mod keys;
mod partitions;
mod schedule;
mod seeds;
mod trouble;

#[path = "../common/guide.rs"]
mod guide;
#[path = "../common/installed.rs"]
mod installed;
#[path = "../common/printed.rs"]
mod printed;
#[path = "../common/servers.rs"]
#[expect(dead_code, reason = "what other tests need")]
mod servers;
#[path = "../common/shell.rs"]
mod shell;
#[path = "../local/support.rs"]
#[expect(dead_code, reason = "what only the tests of local mode need")]
mod support;
#[path = "../common/wait.rs"]
mod wait;
