//! The plan for PaddleJobs: tables for each policy, and simulations in which
//! caches lag behind a cluster that changes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should end there"
)]

mod course;
mod data;
mod elastic;
mod ending;
mod environment;
mod gang;
mod heter;
mod host;
mod nodes;
mod phase;
mod rendezvous;
mod simulation;
mod stale;
mod support;
mod takeover;
mod template;
mod total;
mod users;
mod validity;
mod wire;
