//! What `/metrics` tells.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: &'static str,
    outcome: &'static str,
}

/// The figures of one manager.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<Outcome, Counter>,
    seconds: Histogram,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let reconciles = Family::default();
        let seconds = Histogram::new(exponential_buckets(0.001, 4.0, 8));
        let mut registry = Registry::with_prefix("paddle_operator");
        registry.register(
            "reconciles",
            "Passes over an object, by outcome: ok, or the kind of error",
            Family::clone(&reconciles),
        );
        registry.register("reconcile_seconds", "How long a pass took", seconds.clone());
        Metrics {
            registry: Arc::new(registry),
            reconciles,
            seconds,
        }
    }
}

impl Metrics {
    /// Counts a pass.
    pub(crate) fn count(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.reconciles
            .get_or_create(&Outcome {
                controller,
                outcome,
            })
            .inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// The figures in the text format of OpenMetrics.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
