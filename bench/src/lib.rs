//! What benchmarks share: the cluster, the requests that managers make and what they take, and
//! servers.

pub mod audit;
pub mod cluster;
pub mod server;
pub mod usage;

/// The one in the middle.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
