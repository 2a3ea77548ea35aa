//! A Kubernetes API in one process.
//!
//! It knows the protocol and no kind in particular: what it serves beyond the
//! few built-in kinds it learns from CustomResourceDefinitions.

pub mod patch;
pub mod selector;
mod store;

pub use store::{Change, Error, Event, EventKind, Key, Scope, Store, Watch};
