//! The controllers: observe → plan → apply, one folder per kind.
//!
//! A controller can't tell which API it talks to, and takes no decision of its
//! own: what is to be done comes from the `plan` crate.

mod cache;
mod clock;
mod common;
mod drive;
mod error;
mod etcd;
mod events;
mod leader;
mod memory;
mod metrics;
mod nodes;
pub mod paddlejob;
mod pods;
mod runtime;
pub mod samplejob;
pub mod sampleset;
mod status;
mod stores;
mod writes;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};

pub use clock::Clock;
pub use drive::Options;
pub use error::Error;
pub use etcd::Etcd;
pub use leader::{Leadership, lead};
pub use metrics::Metrics;

/// Every stored object has a name, a uid and a version.
fn identity(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The API of a kind in one namespace or in all.
fn scoped<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}
