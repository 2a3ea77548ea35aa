//! The volume of a set: its PersistentVolume and claim for the JuiceFS CSI
//! driver, and what is mounted how.

use std::borrow::Cow;

use api::{CacheLevel, JuiceFsMountOptions, MediumType, SampleSet, labels};
use serde_json::{Value, json};

use super::Settings;
use super::runtime::{common_labels, owner};
use crate::operation::paths::{is_plain_absolute, lies_below, relative};
use crate::{fingerprint, names};

/// The CSI driver of JuiceFS.
pub const CSI_DRIVER: &str = "csi.juicefs.com";

/// As good as no bound, in MiB: what the disk leaves free is the bound.
const NO_BOUND: i64 = 1 << 30;

/// The part of a disk that JuiceFS leaves free unless told.
const KEPT_FREE: f64 = 0.1;

/// Seconds for which a mount believes what it knows of a file and of its name without asking
/// the metadata server. Training data is read far more often than it is changed, and its
/// files are small: to ask takes as long as to read. A sync never changes a file but puts
/// another in its place, which the warmup after it finds on every node, because it lists
/// all folders.
const FILES_KNOWN_FOR: i64 = 3600;

/// Of how many files a mount knows that much, at a few hundred bytes each. Of those beyond it the
/// kernel drops at the next epoch what it has in memory, and JuiceFS stops at 10,000 by itself.
const FILES_KNOWN: i64 = 1_000_000;

/// The memory limit that the CSI driver gives its mount pods, in MiB.
const MOUNT_MEMORY: i64 = 5 * 1024;

/// JuiceFS does not look at the size, and the API wants one.
const CAPACITY: &str = "10Pi";

/// Fingerprint of all that the volume is made of.
pub(super) fn key(set: &SampleSet) -> String {
    let spec = &set.spec;
    fingerprint::of(&(&spec.csi, &spec.cache, &spec.secret_ref))
}

/// The set with what its volume was made of, whatever the spec says of that by now.
pub(super) fn as_made(set: &SampleSet) -> Cow<'_, SampleSet> {
    let made = set
        .status
        .as_ref()
        .and_then(|status| status.volume.as_ref());
    match made.filter(|made| made.key != key(set)) {
        Some(made) => {
            let mut set = set.clone();
            set.spec.csi = made.csi.clone();
            set.spec.cache = made.cache.clone();
            Cow::Owned(set)
        }
        None => Cow::Borrowed(set),
    }
}

/// The directories on each node that hold the cache.
pub fn cache_dirs(set: &SampleSet) -> Vec<String> {
    let own = || {
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        format!("/var/lib/juicefs/{}", names::volume(namespace, name))
    };
    let levels = levels(set);
    let option = options(set).and_then(|options| options.cache_dir.as_deref());
    let named: Vec<String> = match (levels, option) {
        ([], Some(dirs)) => vec![dirs.to_owned()],
        ([], None) => Vec::new(),
        (levels, _) => levels
            .iter()
            .map(|level| match (&level.path, level.medium_type) {
                (Some(path), _) => path.clone(),
                (None, Some(MediumType::Mem)) => "/dev/shm".to_owned(),
                (None, _) => own(),
            })
            .collect(),
    };
    let dirs = named.iter().flat_map(|dirs| dirs.split(':'));
    let dirs = dirs.map(|dir| dir.trim_end_matches('/').to_owned());
    let mut dirs: Vec<String> = dirs.filter(|dir| !dir.is_empty()).collect();
    if dirs.is_empty() {
        dirs.push(own());
    }
    let mut seen = std::collections::BTreeSet::new();
    dirs.retain(|dir| seen.insert(dir.clone()));
    dirs
}

fn levels(set: &SampleSet) -> &[CacheLevel] {
    set.spec.cache.as_ref().map_or(&[], |cache| &cache.levels)
}

fn options(set: &SampleSet) -> Option<&JuiceFsMountOptions> {
    set.spec.csi.as_ref()?.juicefs_mount_options.as_ref()
}

/// The part of the disk that the cache leaves free; JuiceFS caches nothing more when it is
/// less.
pub(super) fn free_space_ratio(set: &SampleSet, settings: &Settings) -> f64 {
    let own = options(set).and_then(|options| options.free_space_ratio.as_deref());
    let own = own.and_then(|ratio| ratio.parse().ok());
    own.or(settings.free_space_ratio).unwrap_or(KEPT_FREE)
}

/// What `juicefs mount` is told, one option each.
pub fn mount_options(set: &SampleSet, settings: &Settings) -> Vec<String> {
    let none = JuiceFsMountOptions::default();
    let options = options(set).unwrap_or(&none);
    let sizes: Option<Vec<i64>> = levels(set).iter().map(|level| level.cache_size).collect();
    let size = match sizes.as_deref() {
        Some([]) => options.cache_size,
        Some(sizes) => Some(
            sizes
                .iter()
                .fold(0_i64, |all, size| all.saturating_add(*size)),
        ),
        None => None,
    };
    let number = |name: &str, value: Option<i64>| value.map(|value| format!("{name}={value}"));
    let of_files =
        |name: &str, value: Option<i64>| number(name, Some(value.unwrap_or(FILES_KNOWN_FOR)));
    let text = |name: &str, value: Option<&str>| value.map(|value| format!("{name}={value}"));
    let flag = |name: &str, value: Option<bool>| value.filter(|set| *set).map(|_| name.to_owned());
    let dirs = cache_dirs(set).join(":");
    [
        // Else `ls` shows `.trash`, which Paddle's data sets take for a class.
        flag("hide-internal", Some(true)),
        text("cache-dir", Some(&dirs)),
        number("cache-size", Some(size.unwrap_or(NO_BOUND))),
        Some(format!(
            "free-space-ratio={}",
            free_space_ratio(set, settings)
        )),
        text("metrics", options.metrics.as_deref()),
        of_files("attr-cache", options.attr_cache),
        of_files("entry-cache", options.entry_cache),
        of_files("dir-entry-cache", options.dir_entry_cache),
        flag("enable-xattr", options.enable_xattr),
        number("get-timeout", options.get_timeout),
        number("put-timeout", options.put_timeout),
        number("io-retries", options.io_retries),
        number("max-uploads", options.max_uploads),
        number("buffer-size", options.buffer_size),
        number("prefetch", options.prefetch),
        flag("writeback", options.writeback),
        flag("cache-partial-only", options.cache_partial_only),
        of_files("open-cache", options.open_cache),
        number("open-cache-limit", Some(FILES_KNOWN)),
        // JuiceFS spelt it `sub-dir` in 2021.
        text("subdir", options.sub_dir.as_deref()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A sentence for each thing about the volume that can't work.
pub(super) fn faults(set: &SampleSet, settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    let none = JuiceFsMountOptions::default();
    let options = options(set).unwrap_or(&none);
    let path = "spec.csi.juiceFSMountOptions";
    for (name, value) in [
        ("metrics", &options.metrics),
        ("cache-dir", &options.cache_dir),
        ("free-space-ratio", &options.free_space_ratio),
        ("sub-dir", &options.sub_dir),
    ] {
        faults.extend(
            value
                .as_ref()
                .and_then(|value| odd(&format!("{path}.{name}"), value)),
        );
    }
    let folder = options.sub_dir.as_deref().filter(|dir| !dir.is_empty());
    let folder = folder.map(|dir| relative(dir.trim_start_matches('/')));
    if let Some(Err(why)) = folder {
        faults.push(format!("{path}.sub-dir {why}"));
    }
    if let Some(ratio) = &options.free_space_ratio {
        let number: Option<f64> = ratio.parse().ok();
        if !number.is_some_and(|number| (0.0..1.0).contains(&number)) {
            faults.push(format!(
                "{path}.free-space-ratio is {ratio:?}; it must be at least 0 and below 1"
            ));
        }
    }
    for (at, level) in levels(set).iter().enumerate() {
        let field = format!("spec.cache.levels[{at}]");
        faults.extend(
            level
                .path
                .as_ref()
                .and_then(|path| odd(&format!("{field}.path"), path)),
        );
        if let Some(size) = level.cache_size.filter(|size| *size < 1) {
            faults.push(format!(
                "{field}.cacheSize is {size}; it must be 1 MiB or more"
            ));
        }
    }
    for dir in cache_dirs(set) {
        let allowed = &settings.cache_path_prefixes;
        if !is_plain_absolute(&dir) || !allowed.iter().any(|prefix| lies_below(&dir, prefix)) {
            faults.push(format!(
                "the cache directory {dir:?} lies below none of {}; name another one in spec.cache.levels, or start the operator with --cache-path-prefixes",
                allowed.join(", ")
            ));
        }
    }
    faults
}

/// What is wrong with a value that goes into mount options, where a comma would
/// begin another option.
fn odd(field: &str, value: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._/:-".contains(c);
    (value.is_empty() || !value.chars().all(fits)).then(|| {
        format!("{field} is {value:?}; only letters, digits and . _ / : - can be mount options")
    })
}

/// The PersistentVolume.
pub fn persistent_volume(set: &SampleSet, secret: &str, settings: &Settings) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let volume = names::volume(namespace, name);
    let mut labels = common_labels(name);
    labels.insert(labels::SET_UID.to_owned(), json!(set.metadata.uid));
    let memory: i64 = levels(set)
        .iter()
        .filter(|level| level.medium_type == Some(MediumType::Mem))
        .filter_map(|level| level.cache_size)
        .fold(0, |all, size| all.saturating_add(size));
    let attributes = if memory > 0 {
        let limit = MOUNT_MEMORY.saturating_add(memory);
        json!({"juicefs/mount-memory-limit": format!("{limit}Mi")})
    } else {
        json!({})
    };
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": CAPACITY},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": names::claim(name),
            },
            "csi": {
                "driver": CSI_DRIVER,
                "fsType": "juicefs",
                // The driver makes it the hostname of a pod: one label without dots.
                "volumeHandle": set.metadata.uid,
                "volumeAttributes": attributes,
                "nodePublishSecretRef": {"name": secret, "namespace": namespace},
            },
            "mountOptions": mount_options(set, settings),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
        },
    })
}

/// The PersistentVolumeClaim, which jobs mount.
pub fn claim(set: &SampleSet) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names::claim(name),
            "namespace": namespace,
            "labels": common_labels(name),
            "ownerReferences": [owner(set)],
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": CAPACITY}},
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "volumeName": names::volume(namespace, name),
        },
    })
}

/// The Secret of a volume below `dir`, for a set that names none. Nothing in it
/// is secret.
pub fn local_secret(set: &SampleSet, dir: &str) -> Value {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let unique = names::volume(namespace, name);
    let folder = format!("{}/{unique}", dir.trim_end_matches('/'));
    // JuiceFS takes 3 to 63 letters, digits and '-'.
    let volume = fingerprint::cut(
        &format!("set-{}", unique.replace('.', "-")),
        names::MAX_LABEL,
    );
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": names::volume_secret(name),
            "namespace": namespace,
            "labels": common_labels(name),
            "ownerReferences": [owner(set)],
        },
        "stringData": {
            "name": volume,
            "storage": "file",
            "bucket": format!("{folder}/blocks/"),
            "metaurl": format!("sqlite3://{folder}/meta.db"),
        },
    })
}
