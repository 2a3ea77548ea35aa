//! How the controllers talk to the cache runtime servers, one of which runs
//! next to each partition of a SampleSet: what is asked and answered. Nothing
//! here knows Kubernetes, or how JuiceFS does it.
//!
//! | request | meaning |
//! |---|---|
//! | `POST /v1/jobs` | starts a job; the id is the caller's, so a repeat is harmless |
//! | `GET /v1/jobs` | lists the jobs, in order of arrival |
//! | `GET /v1/jobs/{id}` | how far a job is |
//! | `DELETE /v1/jobs/{id}` | cancels a job; one that has ended stays as it is |
//! | `GET /v1/cache` | how much there is, and how much of it is cached here |
//! | `GET /healthz`, `GET /metrics` | for probes and for Prometheus |
//!
//! Both GETs of something that changes take `?since=<revision>&wait=<seconds>`:
//! the answer comes when the revision is another one, or the time is up.

#[cfg(feature = "client")]
mod client;
mod credentials;
#[cfg(feature = "client")]
mod identity;
mod job;
pub mod reason;

#[cfg(feature = "client")]
pub use client::{Client, Error, Poll};
pub use credentials::Credentials;
#[cfg(feature = "client")]
pub use identity::Identity;
pub use job::{
    Clear, Failure, Job, JobState, Listing, NewJob, Order, Outcome, Progress, Rmr, Sampler, Sync,
    Task, Warmup,
};
use serde::{Deserialize, Serialize};

/// The port of every cache runtime server.
pub const PORT: u16 = 7716;

/// The name in the certificate of every cache runtime server. They are reached
/// by the address of their pod, which no certificate can know beforehand.
pub const SERVER_NAME: &str = "runtime";

/// The longest wait, in seconds, that a server grants.
pub const MAX_WAIT_SECONDS: u64 = 60;

/// What there is, and what of it is cached on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// Changes whenever another field does.
    pub revision: u64,
    /// All data of the volume, as counted after the last job that could have
    /// changed it. Unknown until it has been counted once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Bytes that are cached on this node.
    pub cached: u64,
    /// Bytes of the files that the last warmup chose for this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// The disks that hold the cache directories, each counted once.
    pub disk: Disk,
    /// Why figures are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// All data of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    /// Their size in bytes, as JuiceFS counts it: an empty volume has 4096.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

/// Disks that hold cache directories, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Their size.
    pub size: u64,
    /// What is used of it.
    pub used: u64,
    /// What may still be used.
    pub avail: u64,
}

/// Why a request was refused; the body of every answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What was found, and what would be right.
    pub message: String,
}
