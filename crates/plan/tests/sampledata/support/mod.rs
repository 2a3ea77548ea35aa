//! What the tests are written with.

mod cluster;
mod faults;
mod fixtures;
mod stage;

pub use cluster::*;
pub use fixtures::*;
pub use stage::*;
