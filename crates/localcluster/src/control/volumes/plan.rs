//! Which claim gets which volume, and how both stand.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};

use crate::control::mirror::Key;
use quantity::Quantity;

/// Kept on a claim until no pod uses it.
const CLAIM_IN_USE: &str = "kubernetes.io/pvc-protection";
/// Kept on a volume until no claim has it.
const VOLUME_IN_USE: &str = "kubernetes.io/pv-protection";
/// Says on a claim that it was bound, whatever became of its volume.
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// What changes, as it was and as it shall be.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) claims: Vec<(PersistentVolumeClaim, PersistentVolumeClaim)>,
    pub(super) volumes: Vec<(PersistentVolume, PersistentVolume)>,
    /// Volumes whose claim is gone and which go with it.
    pub(super) released: Vec<PersistentVolume>,
    /// Claims that wait for a volume.
    pub(super) unfit: Vec<PersistentVolumeClaim>,
}

/// What is to change. `used` are the claims that pods use.
pub(super) fn plan(
    claims: &BTreeMap<Key, PersistentVolumeClaim>,
    volumes: &BTreeMap<Key, PersistentVolume>,
    used: &BTreeSet<Key>,
) -> Plan {
    let mut plan = Plan::default();
    let mut new_volumes: BTreeMap<&str, PersistentVolume> = { volumes.iter() }
        .map(|((_, name), volume)| (name.as_str(), volume.clone()))
        .collect();
    for (key, old) in claims {
        let mut new = old.clone();
        bind(&mut new, &mut new_volumes);
        protect(&mut new.metadata, CLAIM_IN_USE, used.contains(key));
        let is_waiting = new
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if is_waiting == Some("Pending") && !is_going(&new.metadata) {
            plan.unfit.push(new.clone());
        }
        if new != *old {
            plan.claims.push((old.clone(), new));
        }
    }
    for ((_, name), old) in volumes {
        let Some(mut new) = new_volumes.remove(name.as_str()) else {
            continue;
        };
        let phase = phase_of(&new, claims);
        new.status.get_or_insert_default().phase = Some(phase.to_owned());
        protect(&mut new.metadata, VOLUME_IN_USE, phase == "Bound");
        let policy = new.spec.as_ref();
        let policy = policy.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if phase == "Released" && policy == Some("Delete") && !is_going(&new.metadata) {
            plan.released.push(old.clone());
        }
        if new != *old {
            plan.volumes.push((old.clone(), new));
        }
    }
    plan
}

fn is_going(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// The finalizer is there as long as it is not being deleted, or is in use.
fn protect(meta: &mut ObjectMeta, finalizer: &str, is_used: bool) {
    let is_there = meta
        .finalizers
        .iter()
        .flatten()
        .any(|other| other == finalizer);
    match (is_going(meta), is_there) {
        (false, false) => meta
            .finalizers
            .get_or_insert_default()
            .push(finalizer.to_owned()),
        (true, true) if !is_used => {
            meta.finalizers
                .iter_mut()
                .for_each(|all| all.retain(|other| other != finalizer));
        }
        _ => {}
    }
}

/// Binds a claim to its volume, or to one that fits it.
fn bind(claim: &mut PersistentVolumeClaim, volumes: &mut BTreeMap<&str, PersistentVolume>) {
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.clone());
    let wanted = wanted.filter(|name| !name.is_empty());
    let was_bound = claim.annotations().contains_key(BOUND);
    let found = match &wanted {
        Some(name) => volumes.get_mut(name.as_str()).filter(|volume| {
            is_claimed_by(volume, claim) || (claim_ref(volume).is_none() && !was_bound)
        }),
        None if is_going(&claim.metadata) => None,
        None => best(claim, volumes).and_then(|name| volumes.get_mut(name.as_str())),
    };
    let Some(volume) = found else {
        let status = claim.status.get_or_insert_default();
        if was_bound {
            status.phase = Some("Lost".to_owned());
            (status.access_modes, status.capacity) = (None, None);
        } else {
            status.phase = Some("Pending".to_owned());
        }
        return;
    };
    let spec = volume.spec.get_or_insert_default();
    spec.claim_ref = Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.namespace(),
        name: claim.metadata.name.clone(),
        uid: claim.uid(),
        ..spec.claim_ref.clone().unwrap_or_default()
    });
    claim
        .annotations_mut()
        .insert(BOUND.to_owned(), "yes".to_owned());
    claim.spec.get_or_insert_default().volume_name = volume.metadata.name.clone();
    let status = claim.status.get_or_insert_default();
    status.phase = Some("Bound".to_owned());
    status.access_modes = spec.access_modes.clone();
    status.capacity = spec.capacity.clone();
}

fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref())
}

/// Whether a volume is kept for a claim, or bound to it.
fn is_claimed_by(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|by| {
        let uid = by.uid.as_ref().filter(|uid| !uid.is_empty());
        (&by.namespace, &by.name) == (&claim.metadata.namespace, &claim.metadata.name)
            && uid.is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// The volume that is kept for a claim, or the smallest that fits.
fn best(
    claim: &PersistentVolumeClaim,
    volumes: &BTreeMap<&str, PersistentVolume>,
) -> Option<String> {
    let nothing = PersistentVolumeClaimSpec::default();
    let wanted = claim.spec.as_ref().unwrap_or(&nothing);
    let fitting = volumes.values().filter_map(|volume| {
        let spec = volume.spec.as_ref().filter(|_| !is_going(volume.meta()))?;
        let is_kept = is_claimed_by(volume, claim);
        let is_free = spec.claim_ref.is_none() && is_of_class(volume, claim);
        let fits = (is_kept || is_free) && fits(wanted, spec);
        fits.then(|| ((!is_kept, size(spec.capacity.as_ref())), volume.name_any()))
    });
    fitting.min().map(|(_, name)| name)
}

/// The storage class that a claim asks for.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let class = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.as_deref());
    class.unwrap_or_default()
}

fn is_of_class(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let class = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.as_deref());
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selects = |labels| Selector::try_from(labels).is_ok_and(|it| it.matches(volume.labels()));
    class.unwrap_or_default() == class_of(claim) && selector.is_none_or(selects)
}

fn fits(wanted: &PersistentVolumeClaimSpec, volume: &PersistentVolumeSpec) -> bool {
    let requests = wanted
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let modes = volume.access_modes.as_deref().unwrap_or_default();
    let mut wanted_modes = wanted.access_modes.iter().flatten();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    size(requests) <= size(volume.capacity.as_ref())
        && wanted_modes.all(|wanted| modes.contains(wanted))
        && mode(&wanted.volume_mode) == mode(&volume.volume_mode)
}

fn size(
    amounts: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
) -> i128 {
    let storage = amounts.and_then(|amounts| amounts.get("storage"));
    storage
        .and_then(|storage| Quantity::parse(&storage.0))
        .map(Quantity::thousandths)
        .unwrap_or(0)
}

fn phase_of(
    volume: &PersistentVolume,
    claims: &BTreeMap<Key, PersistentVolumeClaim>,
) -> &'static str {
    let Some(by) = claim_ref(volume) else {
        return "Available";
    };
    let uid = by.uid.as_ref().filter(|uid| !uid.is_empty());
    let key = (
        by.namespace.clone().unwrap_or_default(),
        by.name.clone().unwrap_or_default(),
    );
    match claims.get(&key) {
        _ if uid.is_none() => "Available",
        Some(claim) if claim.metadata.uid.as_ref() == uid => "Bound",
        _ => "Released",
    }
}
