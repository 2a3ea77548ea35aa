//! The plans for SampleSets and SampleJobs, on a stage where children, servers
//! and locks behave as in a cluster.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should end there"
)]

mod cancel;
mod children;
mod credit;
mod deletion;
mod figures;
mod job;
mod lock;
mod partitions;
mod schedule;
mod set;
mod support;
mod sync;
mod total;
mod upsets;
mod validity;
