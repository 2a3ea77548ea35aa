//! What the tests share: builders for jobs and for what is seen of them, and a
//! small cluster whose caches lag behind.

pub mod fixtures;
pub mod kubelet;
pub mod plans;
pub mod watch;
pub mod world;

pub use fixtures::*;
pub use plans::*;
