//! What the tests are written with.

mod fixtures;
mod stage;

pub use fixtures::*;
pub use stage::*;
