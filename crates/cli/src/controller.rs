//! The controllers, by the names that flags give them.

use controllers::{Clock, Etcd, Metrics, Options, paddlejob, samplejob, sampleset};
use jiff::tz::TimeZone;
use kube::Client;
use plan::paddlejob::PortRange;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Controller {
    /// Runs training jobs.
    Paddlejob,
    /// Keeps data sets synced and cached.
    Sampleset,
    /// Runs operations on data sets.
    Samplejob,
}

/// How controllers run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The only namespace that they look at; `None`: all.
    pub(crate) namespace: Option<String>,
    /// Image of the init container of jobs.
    pub(crate) init_image: Option<String>,
    /// Volcano schedules jobs.
    pub(crate) volcano: bool,
    /// The etcd servers of elastic jobs.
    pub(crate) etcd: Etcd,
    /// The ports of jobs on the network of their nodes.
    pub(crate) ports: PortRange,
    /// Image of the cache runtime servers.
    pub(crate) runtime_image: String,
    /// Where SampleSets may cache.
    pub(crate) cache_path_prefixes: Vec<String>,
    /// SampleSets may name paths of the nodes.
    pub(crate) allow_local_paths: bool,
    /// Where SampleSets without a Secret get a volume.
    pub(crate) default_volume_dir: Option<String>,
    /// The part of a disk that caches leave free.
    pub(crate) free_space_ratio: Option<f64>,
    /// Their figures.
    pub(crate) metrics: Metrics,
}

impl Controller {
    /// All of them.
    pub(crate) const ALL: [Controller; 3] = [
        Controller::Paddlejob,
        Controller::Sampleset,
        Controller::Samplejob,
    ];

    /// The lease that it holds while it works.
    pub(crate) const fn lease(self) -> &'static str {
        match self {
            Controller::Paddlejob => paddlejob::LEASE,
            Controller::Sampleset => sampleset::LEASE,
            Controller::Samplejob => samplejob::LEASE,
        }
    }

    /// Runs it until it is to stop; `begun` is called when it begins to work.
    pub(crate) async fn run(
        self,
        client: Client,
        settings: Settings,
        begun: impl FnOnce() + Send,
        stop: impl Future<Output = ()> + Send + Sync + 'static,
    ) {
        let (namespace, metrics) = (settings.namespace, settings.metrics);
        match self {
            Controller::Paddlejob => {
                let means = paddlejob::Means {
                    plan: plan::paddlejob::Settings {
                        init_image: settings.init_image,
                        volcano: settings.volcano,
                        etcd: settings.etcd.servers.clone(),
                        ports: settings.ports,
                    },
                    etcd: settings.etcd,
                };
                let options = options(namespace, means, metrics);
                paddlejob::run(client, options, begun, stop).await;
            }
            Controller::Sampleset => {
                let settings = plan::sampleset::Settings {
                    runtime_image: settings.runtime_image,
                    cache_path_prefixes: settings.cache_path_prefixes,
                    allow_local_paths: settings.allow_local_paths,
                    default_volume_dir: settings.default_volume_dir,
                    free_space_ratio: settings.free_space_ratio,
                };
                let options = options(namespace, settings, metrics);
                sampleset::run(client, options, begun, stop).await;
            }
            Controller::Samplejob => {
                let settings = plan::samplejob::Settings {
                    allow_local_paths: settings.allow_local_paths,
                    time_zone: TimeZone::system(),
                };
                let options = options(namespace, settings, metrics);
                samplejob::run(client, options, begun, stop).await;
            }
        }
    }
}

fn options<S>(namespace: Option<String>, settings: S, metrics: Metrics) -> Options<S> {
    Options {
        namespace,
        settings,
        clock: Clock::default(),
        metrics,
    }
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Controller::Paddlejob => "paddlejob",
            Controller::Sampleset => "sampleset",
            Controller::Samplejob => "samplejob",
        })
    }
}
