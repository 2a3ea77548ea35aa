//! The options of `juicefs mount` that a SampleSet may set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of `juicefs mount`, under their own names. The defaults are those of
/// JuiceFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct JuiceFsMountOptions {
    /// Address for Prometheus metrics. Default `127.0.0.1:9567`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Seconds for which file attributes are cached. Default 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attr_cache: Option<i64>,
    /// Seconds for which file entries are cached. Default 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_cache: Option<i64>,
    /// Seconds for which directory entries are cached. Default 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir_entry_cache: Option<i64>,
    /// Enables extended attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_xattr: Option<bool>,
    /// Seconds after which a download is given up. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get_timeout: Option<i64>,
    /// Seconds after which an upload is given up. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_timeout: Option<i64>,
    /// How often a failed read or write is tried again. Default 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_retries: Option<i64>,
    /// Uploads at once. Default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uploads: Option<i64>,
    /// Read and write buffer in MiB. Default 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_size: Option<i64>,
    /// Blocks that are read ahead at once. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<i64>,
    /// Uploads in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writeback: Option<bool>,
    /// Directories for cached data, with `:` between them. `spec.cache.levels`
    /// goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<String>,
    /// Size of the cache in MiB. `spec.cache.levels` goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<i64>,
    /// The part of the disk that the cache leaves free, at least 0 and below 1.
    /// On one machine `"0.02"`. Default `"0.1"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_space_ratio: Option<String>,
    /// Caches random and small reads only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_partial_only: Option<bool>,
    /// Seconds for which open files are cached, whatever happens to them elsewhere. Default
    /// 3600; with 0, who opens a file sees what was closed before on any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_cache: Option<i64>,
    /// Mounts a directory of the volume as its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_dir: Option<String>,
}
