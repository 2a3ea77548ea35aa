//! A Kubernetes API in one process.
//!
//! It knows the protocol and no kind in particular: what it serves beyond the
//! few built-in kinds it learns from CustomResourceDefinitions.

mod api;
pub mod kind;
pub mod object;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod served;
pub mod status;
mod store;

pub use api::{Api, Patch, Selection, Target, Unknown, Writing};
pub use store::{Change, Error, Event, EventKind, Key, Scope, Store, Watch};
