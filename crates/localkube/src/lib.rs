//! A Kubernetes API in one process.
//!
//! It knows the protocol and no kind in particular: what it serves beyond the
//! few built-in kinds it learns from CustomResourceDefinitions.

pub mod kind;
pub mod object;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod status;
mod store;

pub use store::{Change, Error, Event, EventKind, Key, Scope, Store, Watch};
