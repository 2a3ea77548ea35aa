//! The reasons of failures: words that programs may rely on.

/// The source has no file.
pub const EMPTY_SOURCE: &str = "EmptySource";
/// The server of the source does not answer.
pub const SOURCE_UNREACHABLE: &str = "SourceUnreachable";
/// The source does not accept the keys.
pub const ACCESS_DENIED: &str = "AccessDenied";
/// The source can't be one: a scheme that is not known, no such bucket.
pub const BAD_SOURCE: &str = "BadSource";
/// The metadata, or the mount, of the volume can't be reached.
pub const VOLUME_UNREACHABLE: &str = "VolumeUnreachable";
/// A disk or a bucket is full.
pub const OUT_OF_SPACE: &str = "OutOfSpace";
/// Some files were copied, others not.
pub const INCOMPLETE: &str = "Incomplete";
/// A path is missing, or no path of the data.
pub const BAD_PATH: &str = "BadPath";
/// The options contradict each other, or the data.
pub const BAD_OPTIONS: &str = "BadOptions";
/// There are files, but none that the order of the sampler takes.
pub const NOTHING_SELECTED: &str = "NothingSelected";
/// The server was restarted, and nobody gave it the keys again.
pub const CREDENTIALS_MISSING: &str = "CredentialsMissing";
/// A juicefs command failed in a way that has no word of its own.
pub const COMMAND_FAILED: &str = "CommandFailed";
