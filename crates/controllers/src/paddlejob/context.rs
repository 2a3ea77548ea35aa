//! What every pass shares: the client, the caches, and what this process
//! remembers.

use std::sync::Arc;

use kube::Client;
use kube::runtime::reflector::Store;
use plan::paddlejob::{ConfigMapView, PodGroupView, PodPhase, PodView, Settings};

use super::ledger::Ledger;
use super::stored::StoredJob;
use super::{Means, NAME};
use crate::Etcd;
use crate::cache::Cache;
use crate::common::Common;
use crate::drive::Options;
use crate::memory::COUNTS;
use crate::stores::StoredSet;

/// What every pass shares.
pub(super) struct Context {
    pub(super) common: Common,
    pub(super) settings: Settings,
    /// Shared with those who wait for the end of pods whose job is gone.
    pub(super) pods: Arc<Cache<PodView>>,
    pub(super) config_maps: Cache<ConfigMapView>,
    pub(super) services: Cache<()>,
    pub(super) pod_groups: Cache<PodGroupView>,
    pub(super) etcd: Etcd,
    pub(super) ledger: Ledger,
    /// All jobs: no two share a port.
    pub(super) jobs: Store<StoredJob>,
    /// The sets that jobs may use.
    pub(super) sets: Store<StoredSet>,
}

impl Context {
    /// A context with empty caches.
    pub(super) fn new(
        client: Client,
        options: Options<Means>,
        jobs: Store<StoredJob>,
        sets: Store<StoredSet>,
    ) -> Context {
        Context {
            common: Common::new(NAME, client, &options, COUNTS),
            settings: options.settings.plan,
            etcd: options.settings.etcd,
            jobs,
            ledger: Ledger::default(),
            pods: Arc::new(Cache::remembering(|pod| pod.phase == PodPhase::Succeeded)),
            config_maps: Cache::default(),
            services: Cache::default(),
            pod_groups: Cache::default(),
            sets,
        }
    }
}
