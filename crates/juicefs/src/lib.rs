//! The one place that builds and runs juicefs commands.
//!
//! Arguments are handed over as they are, never through a shell. Keys go by the
//! environment of one process, never by its command line, and what a process says is
//! passed on without them.

mod command;
mod format;
mod mount;
mod volume;

pub use command::{Juicefs, Missing};
pub use format::FormatError;
pub use mount::{BadOption, Mount, MountError, MountOptions};
pub use volume::{BadSecret, Volume};
