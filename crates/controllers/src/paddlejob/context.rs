//! What every pass shares: the client, the caches, and what this process
//! remembers.

use k8s_openapi::NamespaceResourceScope;
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource};
use plan::paddlejob::{ConfigMapView, PodPhase, PodView, Settings};

use super::stored::StoredJob;
use crate::cache::Cache;
use crate::drive::Options;
use crate::memory::Memories;
use crate::sampleset::StoredSet;
use crate::{Clock, Metrics};

/// What every pass shares.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) pods: Cache<PodView>,
    pub(super) config_maps: Cache<ConfigMapView>,
    pub(super) services: Cache<()>,
    pub(super) memories: Memories,
    /// The jobs themselves.
    pub(super) jobs: Store<StoredJob>,
    /// The sets that jobs may use.
    pub(super) sets: Store<StoredSet>,
}

impl Context {
    /// A context with empty caches.
    pub(super) fn new(
        client: Client,
        options: Options<Settings>,
        jobs: Store<StoredJob>,
        sets: Store<StoredSet>,
    ) -> Context {
        Context {
            client,
            settings: options.settings,
            clock: options.clock,
            metrics: options.metrics,
            pods: Cache::remembering(|pod| pod.phase == PodPhase::Succeeded),
            config_maps: Cache::default(),
            services: Cache::default(),
            memories: Memories::default(),
            jobs,
            sets,
        }
    }

    pub(super) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}
