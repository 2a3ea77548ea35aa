//! What is wrong in a spec, and what is wrong in the Secret that it names.

use api::{SampleSet, SecretReference, SyncOptions};

use super::world::{SecretSeen, Seen, VolumeSecret};
use super::{Settings, volume};
use crate::fingerprint;
use crate::operation::{self, Credentials, SyncTask, WarmupTask, paths};

/// Something that keeps the set from going on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Obstacle {
    pub reason: &'static str,
    pub message: String,
}

impl Obstacle {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Obstacle {
        Obstacle {
            reason,
            message: message.into(),
        }
    }
}

/// The number of partitions that the spec asks for.
pub fn partitions(set: &SampleSet) -> i32 {
    set.spec.partitions.unwrap_or(1).clamp(1, MAX_PARTITIONS)
}

/// As many as a job may have workers.
const MAX_PARTITIONS: i32 = api::MAX_REPLICAS;

/// A sentence for each thing in the spec that can't work. What makes up the
/// volume is judged only before there is one.
pub(super) fn faults(set: &SampleSet, settings: &Settings) -> Vec<String> {
    let spec = &set.spec;
    let own = set.metadata.namespace.as_deref();
    let mut faults = Vec::new();
    if let Some(found) = spec
        .partitions
        .filter(|found| !(1..=MAX_PARTITIONS).contains(found))
    {
        faults.push(format!(
            "spec.partitions is {found}; it must be 1 to {MAX_PARTITIONS}"
        ));
    }
    if set
        .status
        .as_ref()
        .is_none_or(|status| status.volume.is_none())
    {
        let secret = secret_name(own, "spec.secretRef", spec.secret_ref.as_ref());
        match secret {
            Ok(None) if settings.default_volume_dir.is_none() => faults.push(
                "spec.secretRef is missing; name a Secret with name, storage, bucket and metaurl of a JuiceFS volume".to_owned(),
            ),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
        faults.extend(volume::faults(set, settings));
    }
    let source_secret = spec
        .source
        .as_ref()
        .and_then(|source| source.secret_ref.as_ref());
    faults.extend(secret_name(own, "spec.source.secretRef", source_secret).err());
    faults.extend(sync_task(set, settings).err());
    faults.extend(warmup_task(set).err());
    faults
}

/// The copy that the spec asks for; `None`: the data is there already.
pub(super) fn sync_task(set: &SampleSet, settings: &Settings) -> Result<Option<SyncTask>, String> {
    if set.spec.no_sync == Some(true) {
        return Ok(None);
    }
    let uri = source_uri(set);
    if uri.is_none() {
        return Err("spec.source.uri is missing; name the folder that the data comes from, or set spec.noSync if the volume has it already".to_owned());
    }
    operation::sync(uri, &SyncOptions::default(), settings.allow_local_paths).map(Some)
}

/// Where the data of the set comes from.
pub(crate) fn source_uri(set: &SampleSet) -> Option<&str> {
    let uri = set.spec.source.as_ref()?.uri.as_deref();
    uri.filter(|uri| !uri.is_empty())
}

/// Fingerprint of the copy that the spec asks for.
pub(super) fn sync_key(set: &SampleSet, task: &SyncTask) -> String {
    let source = set.spec.source.as_ref();
    let secret = source.and_then(|source| source.secret_ref.as_ref());
    fingerprint::of(&(&task.source, secret.and_then(|secret| secret.name.as_ref())))
}

/// The same, if `task` copies as much, whoever wants it.
pub(crate) fn key_of_sync(set: &SampleSet, task: &SyncTask) -> Option<String> {
    // Whether the source may be a folder of the machine was judged with the task.
    let own = operation::sync(source_uri(set), &SyncOptions::default(), true).ok()?;
    let wants = set.spec.no_sync != Some(true);
    (wants && task.covers(&own)).then(|| sync_key(set, &own))
}

/// The caching that the spec asks for; `None`: nothing is cached by itself.
pub(super) fn warmup_task(set: &SampleSet) -> Result<Option<WarmupTask>, String> {
    let warmup = set.spec.warmup.as_ref();
    if warmup.and_then(|warmup| warmup.enabled) == Some(false) {
        return Ok(None);
    }
    operation::warmup(warmup, None, partitions(set)).map(Some)
}

/// The name in a reference; a reference to another namespace is refused: the
/// operator may read Secrets that the user may not.
pub(crate) fn secret_name(
    namespace: Option<&str>,
    field: &str,
    reference: Option<&SecretReference>,
) -> Result<Option<String>, String> {
    let Some(reference) = reference else {
        return Ok(None);
    };
    let own = namespace.unwrap_or_default();
    let named = reference
        .namespace
        .as_deref()
        .filter(|named| !named.is_empty());
    if let Some(other) = named.filter(|named| *named != own) {
        return Err(format!(
            "{field}.namespace is {other}; only a Secret of the namespace {own} can be used: copy it there"
        ));
    }
    let name = reference.name.as_deref().filter(|name| !name.is_empty());
    match name {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(format!("{field}.name is missing")),
    }
}

/// What is wrong with the Secret of the volume, or its absence.
pub(super) fn volume_secret<'a>(
    name: &str,
    seen: &'a Seen,
    settings: &Settings,
) -> Result<&'a VolumeSecret, Obstacle> {
    let secret = present(name, seen.volume_secret.as_ref())?;
    if let Some(key) = secret.missing(&["name", "storage", "bucket", "metaurl"]) {
        return Err(Obstacle::new(
            "SecretKeyMissing",
            format!(
                "the Secret {name} has no {key}; it needs name, storage, bucket and metaurl of a JuiceFS volume"
            ),
        ));
    }
    let volume = secret.name.as_deref().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !(3..=63).contains(&volume.len()) || !volume.chars().all(fits) {
        return Err(Obstacle::new(
            "SecretInvalid",
            format!("name in the Secret {name} must be 3 to 63 letters, digits and '-'"),
        ));
    }
    if !secret.local_paths.is_empty() && !settings.allow_local_paths {
        return Err(Obstacle::new(
            "SecretInvalid",
            format!(
                "the Secret {name} names a folder of a machine (storage file, or sqlite metadata), which this operator was not started to allow (--allow-local-paths)"
            ),
        ));
    }
    let odd =
        |path: &&String| !paths::is_plain_absolute(path) || path.len() < 2 || path.contains(':');
    if secret.local_paths.iter().any(|path| odd(&path)) {
        return Err(Obstacle::new(
            "SecretInvalid",
            format!(
                "bucket and metaurl in the Secret {name} must name folders by absolute paths, without '..' and ':'"
            ),
        ));
    }
    Ok(secret)
}

/// A Secret that is there.
pub(crate) fn present<'a>(
    name: &str,
    seen: Option<&'a SecretSeen>,
) -> Result<&'a VolumeSecret, Obstacle> {
    match seen {
        Some(SecretSeen::Present(secret)) => Ok(secret),
        Some(SecretSeen::Missing) => Err(Obstacle::new(
            "SecretMissing",
            format!("there is no Secret {name} in this namespace; create it"),
        )),
        None => Err(Obstacle::new(
            "SecretUnread",
            format!("the Secret {name} has not been read yet"),
        )),
    }
}

/// Whether the keys of a copy are there, of the volume and of the source.
pub(crate) fn can_sync(
    credentials: Option<Credentials>,
    volume: Option<&SecretSeen>,
    source: Option<&SecretSeen>,
) -> Result<(), Obstacle> {
    let Some(credentials) = credentials else {
        return Err(Obstacle::new("VolumeMissing", "there is no volume yet"));
    };
    let secret = present(&credentials.volume, volume)?;
    if let Some(key) = secret.missing(&["metaurl"]) {
        let message = format!("the Secret {} has no {key}", credentials.volume);
        return Err(Obstacle::new("SecretKeyMissing", message));
    }
    match credentials.source {
        Some(name) if name != credentials.volume => source_secret(&name, source),
        _ => Ok(()),
    }
}

/// Whether the Secret of a source is there and has both keys, or none: some
/// sources are public.
fn source_secret(name: &str, seen: Option<&SecretSeen>) -> Result<(), Obstacle> {
    let secret = present(name, seen)?;
    let keys = ["access-key", "secret-key"];
    match secret.missing(&keys) {
        Some(key) if keys.iter().any(|key| secret.keys.contains(*key)) => Err(Obstacle::new(
            "SecretKeyMissing",
            format!("the Secret {name} has no {key}; a source needs access-key and secret-key"),
        )),
        _ => Ok(()),
    }
}
