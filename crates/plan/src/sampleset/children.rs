//! The children of a set: what is missing is made, what differs is brought in
//! line, and what belongs to somebody else is left alone.

use api::VolumeStatus;
use serde_json::{Value, json};

use super::validity::{self, Obstacle};
use super::work::Work;
use super::world::{Child, SecretSeen, VolumeSecret, VolumeView};
use super::{Kind, Object, Plan, runtime, volume};
use crate::names;
use crate::operation::source;

/// Makes and mends the children. `Ok` says whether the volume is bound.
pub(super) fn ensure(plan: &mut Plan, work: &Work<'_>, replicas: i32) -> Result<bool, Obstacle> {
    let record = match plan.status.volume.clone() {
        Some(record) => record,
        None => found(plan, work)?,
    };
    refuse_foreign(work)?;
    let seen = work.seen;
    if seen.server_secret.is_missing() {
        plan.server_secret = Some(names::server_secret(work.name));
    }
    if seen.volume.is_missing() {
        let value = volume::persistent_volume(&work.made, &record.secret, work.settings);
        create(plan, Kind::PersistentVolume, value);
    }
    if seen.claim.is_missing() {
        create(plan, Kind::PersistentVolumeClaim, volume::claim(work.set));
    }
    ensure_service(plan, work);
    ensure_stateful_set(plan, work, &record, replicas)?;
    plan.status.volume = Some(record);
    let is_left = |volume: &VolumeView| volume.is_released && !volume.is_going;
    if seen.volume.ours().is_some_and(is_left) {
        plan.deleted.push(Kind::PersistentVolume);
    }
    let goes = |volume: &VolumeView| volume.is_going || volume.is_released;
    if [&seen.volume, &seen.claim]
        .iter()
        .any(|child| child.ours().is_some_and(goes))
    {
        return Err(Obstacle::new(
            "VolumeGoing",
            "somebody deleted the volume or its claim, which goes when no pod uses it any more and is made again then",
        ));
    }
    Ok(seen.claim.ours().is_some_and(|claim| claim.is_bound))
}

fn create(plan: &mut Plan, kind: Kind, value: Value) {
    plan.created.push(Object { kind, value });
}

/// What the volume is to be made of, when all of it is there.
fn found(plan: &mut Plan, work: &Work<'_>) -> Result<VolumeStatus, Obstacle> {
    if !work.seen.has_csi_driver {
        return Err(Obstacle::new(
            "NoCsiDriver",
            format!(
                "the CSI driver {} is not installed in this cluster; install the JuiceFS CSI driver",
                volume::CSI_DRIVER
            ),
        ));
    }
    let named = work
        .set
        .spec
        .secret_ref
        .as_ref()
        .and_then(|secret| secret.name.clone());
    let secret = match (named, &work.settings.default_volume_dir) {
        (Some(name), _) => {
            validity::volume_secret(&name, work.seen, work.settings)?;
            name
        }
        (None, dir) => {
            let name = names::volume_secret(work.name);
            let own = volume::local_secret(work.set, dir.as_deref().unwrap_or_default());
            match &work.seen.volume_secret {
                Some(SecretSeen::Missing) => create(plan, Kind::VolumeSecret, own),
                Some(SecretSeen::Present(there)) if *there != read(&own) => {
                    return Err(name_taken("Secret", &name));
                }
                _ => {}
            }
            name
        }
    };
    Ok(VolumeStatus {
        key: volume::key(work.set),
        secret,
        csi: work.set.spec.csi.clone(),
        cache: work.set.spec.cache.clone(),
    })
}

fn refuse_foreign(work: &Work<'_>) -> Result<(), Obstacle> {
    let namespace = work.set.metadata.namespace.as_deref().unwrap_or_default();
    let seen = work.seen;
    let taken = [
        (
            seen.volume == Child::Foreign,
            "PersistentVolume",
            names::volume(namespace, work.name),
        ),
        (
            seen.claim == Child::Foreign,
            "PersistentVolumeClaim",
            names::claim(work.name),
        ),
        (
            seen.service == Child::Foreign,
            "Service",
            names::runtime_service(work.name),
        ),
        (
            seen.stateful_set == Child::Foreign,
            "StatefulSet",
            names::runtime(work.name),
        ),
        (
            seen.server_secret == Child::Foreign,
            "Secret",
            names::server_secret(work.name),
        ),
    ];
    let foreign = taken.into_iter().find(|(foreign, ..)| *foreign);
    foreign.map_or(Ok(()), |(_, kind, name)| Err(name_taken(kind, &name)))
}

fn name_taken(kind: &str, name: &str) -> Obstacle {
    Obstacle::new(
        "NameTaken",
        format!(
            "there is a {kind} {name} that is not this set's; delete it, or give the set another name"
        ),
    )
}

fn ensure_service(plan: &mut Plan, work: &Work<'_>) {
    let wanted = runtime::service(work.set);
    match &work.seen.service {
        Child::Missing => create(plan, Kind::Service, wanted),
        Child::Ours(there) if there.applied.as_deref() != runtime::stamp(&wanted) => {
            patch(plan, Kind::Service, wanted);
        }
        Child::Ours(_) | Child::Foreign => {}
    }
}

fn patch(plan: &mut Plan, kind: Kind, value: Value) {
    plan.patched.push(Object { kind, value });
}

fn ensure_stateful_set(
    plan: &mut Plan,
    work: &Work<'_>,
    record: &VolumeStatus,
    replicas: i32,
) -> Result<(), Obstacle> {
    let there = match &work.seen.stateful_set {
        Child::Ours(there) => Some(there),
        Child::Missing => None,
        Child::Foreign => return Ok(()),
    };
    let paths = match there.and_then(|there| there.local_paths.as_deref()) {
        Some(paths) => paths
            .split(':')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
        None => volume_paths(work, record)?,
    };
    // A SampleJob may copy from it, even if the set itself does not.
    let uri = validity::source_uri(work.set);
    let source = uri.and_then(|uri| source::read("", uri, work.settings.allow_local_paths).ok());
    let source = source.and_then(|source| source.local_path);
    let source = source.as_deref();
    // The caches stay where the volume has them.
    let wanted = runtime::stateful_set(&work.made, work.settings, &paths, source, replicas);
    match there {
        None => create(plan, Kind::StatefulSet, wanted),
        Some(there) if there.applied.as_deref() != runtime::stamp(&wanted) => {
            patch(plan, Kind::StatefulSet, runtime::stateful_set_patch(wanted));
        }
        Some(there) if there.replicas != replicas => {
            patch(
                plan,
                Kind::StatefulSet,
                json!({"spec": {"replicas": replicas}}),
            );
        }
        Some(_) => {}
    }
    Ok(())
}

/// The folders of the machine that the volume is on.
fn volume_paths(work: &Work<'_>, record: &VolumeStatus) -> Result<Vec<String>, Obstacle> {
    let is_own = record.secret == names::volume_secret(work.name);
    if let (true, Some(dir)) = (is_own, &work.settings.default_volume_dir) {
        return Ok(read(&volume::local_secret(work.set, dir)).local_paths);
    }
    let secret = validity::volume_secret(&record.secret, work.seen, work.settings)?;
    Ok(secret.local_paths.clone())
}

/// What is to be known of a Secret that the operator makes.
fn read(secret: &Value) -> VolumeSecret {
    let data = secret.get("stringData").and_then(Value::as_object);
    let data = data.into_iter().flatten();
    VolumeSecret::read(
        data.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default().as_bytes())),
    )
}
