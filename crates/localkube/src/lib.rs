//! A Kubernetes API in one process.
//!
//! It knows the protocol and no kind in particular: what it serves beyond the
//! few built-in kinds it learns from CustomResourceDefinitions.

mod admit;
mod api;
mod apply;
mod credentials;
mod decode;
mod defaults;
mod discovery;
mod events;
mod fault;
pub mod http;
pub mod kind;
pub mod object;
pub mod patch;
mod path;
mod pod;
mod quantity;
mod scale;
pub mod schema;
pub mod selector;
mod serve;
pub mod served;
pub mod status;
mod store;
mod table;
mod validate;
mod weight;

pub use api::{Api, Patch, Selection, Target, Unknown, Writing};
pub use credentials::{Credentials, Unusable};
pub use fault::Fault;
pub use serve::serve;
pub use store::{Change, Error, Event, EventKind, Key, Scope, Store, Watch};
