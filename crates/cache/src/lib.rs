//! The cache runtime server. One runs next to each partition of a SampleSet, on
//! the node whose JuiceFS mount caches that partition: it does data operations
//! one after another, and tells how much is cached.
//!
//! - `api`: the HTTP surface.
//! - `jobs` and `store`: the queue, which survives a kill.
//! - `worker` and `tasks`: what a job does.
//! - `figures`: what is cached, read from the mount's own counters.
//!
//! It knows nothing of Kubernetes. Keys come with a job, stay in memory, and go
//! into the environment of one process.

mod api;
mod figures;
mod jobs;
mod metrics;
mod paths;
mod server;
mod store;
mod tasks;
mod worker;

pub use server::{Error, Options, Server};
