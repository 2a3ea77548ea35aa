//! What the tests are written with.

mod faults;
mod fixtures;
mod stage;

pub use fixtures::*;
pub use stage::*;
