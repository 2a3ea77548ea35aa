//! What `/metrics` tells.

use std::sync::Arc;

use cache_api::{Cache, JobState};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    r#type: &'static str,
    outcome: &'static str,
}

/// The figures of one server.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    jobs: Family<Ended, Counter>,
    cached: Gauge,
    share: Gauge,
    total: Gauge,
    available: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("paddle_cache");
        let jobs = Family::default();
        registry.register(
            "jobs",
            "Jobs that have ended, by outcome",
            Family::clone(&jobs),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, Gauge::clone(&gauge));
            gauge
        };
        let cached = gauge("cached_bytes", "Data that is cached on this node");
        let share = gauge(
            "share_bytes",
            "Data that the last warmup chose for this node",
        );
        let total = gauge("total_bytes", "All data of the volume");
        let available = gauge("disk_available_bytes", "Room on the disks of the cache");
        Metrics {
            registry: Arc::new(registry),
            jobs,
            cached,
            share,
            total,
            available,
        }
    }

    /// Counts a job that has ended.
    pub(crate) fn count(&self, r#type: &'static str, state: &JobState) {
        let outcome = match state {
            JobState::Succeeded(_) => "succeeded",
            JobState::Cancelled => "cancelled",
            _ => "failed",
        };
        self.jobs.get_or_create(&Ended { r#type, outcome }).inc();
    }

    /// The figures in the text format of OpenMetrics.
    pub(crate) fn encode(&self, cache: &Cache) -> Result<String, std::fmt::Error> {
        let gauges = [
            (&self.cached, cache.cached),
            (&self.share, cache.share.unwrap_or_default()),
            (&self.total, cache.total.unwrap_or_default().bytes),
            (&self.available, cache.disk.avail),
        ];
        for (gauge, value) in gauges {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}
