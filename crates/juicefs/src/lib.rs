//! The one place that builds and runs juicefs commands and reads its figures.
//!
//! - Arguments, never a shell.
//! - Keys are in the environment of a command, never among its arguments, and
//!   [`Redactor`] takes them out of whatever it says.
//! - A command that nobody waits for any more is killed.
//! - An exit code alone is no proof: several commands say 0 and have done nothing.

mod address;
mod cached;
mod command;
mod error;
mod format;
mod info;
mod log;
mod mount;
mod mount_point;
mod redact;
mod source;
mod sync;
mod volume;

pub use cached::{Checked, Targets};
pub use command::{Juicefs, Missing};
pub use error::Error;
pub use format::FormatError;
pub use info::Info;
pub use mount::{BadOption, Mount, MountError, MountOptions};
pub use mount_point::{MountPoint, Reads, Stats};
pub use redact::Redactor;
pub use source::Source;
pub use sync::{Figures, Synced};
pub use volume::{BadSecret, Volume};
