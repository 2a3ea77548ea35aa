//! Which claim gets which volume, as a table.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::plan::{Plan, plan};
use crate::control::mirror::Key;

fn volume(name: &str, size: &str, more: &Value) -> (Key, PersistentVolume) {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]});
    merge(&mut spec, more);
    let meta = json!({"name": name, "labels": {"disk": name}});
    let volume = json!({"metadata": meta, "spec": spec});
    ((String::new(), name.to_owned()), of(volume))
}

fn claim(more: &Value) -> (Key, PersistentVolumeClaim) {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    });
    merge(&mut spec, more);
    let meta = json!({"name": "c", "namespace": "n", "uid": "claim"});
    let claim = json!({"metadata": meta, "spec": spec});
    (("n".to_owned(), "c".to_owned()), of(claim))
}

fn of<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn merge(to: &mut Value, more: &Value) {
    for (field, value) in more.as_object().unwrap() {
        to.as_object_mut()
            .unwrap()
            .insert(field.clone(), value.clone());
    }
}

/// The phase and the volume of the claim.
fn outcome(plan: &Plan) -> String {
    let (_, claim) = plan.claims.first().unwrap();
    let phase = claim.status.clone().unwrap().phase.unwrap();
    let volume = claim.spec.clone().unwrap().volume_name;
    format!("{phase} {}", volume.unwrap_or_default())
        .trim()
        .to_owned()
}

#[test]
fn claims_get_the_smallest_that_fits() {
    let kept = |namespace: &str, uid: Option<&str>| {
        json!({
            "storageClassName": "fast", "claimRef": {"namespace": namespace, "name": "c", "uid": uid},
        })
    };
    let plain = json!({});
    let named = json!({"volumeName": "a"});
    for (case, claimed, a, b, wanted) in [
        (
            "the smaller",
            json!({}),
            ("4Gi", plain.clone()),
            ("3Gi", plain.clone()),
            "Bound b",
        ),
        (
            "large enough",
            json!({}),
            ("4Gi", plain.clone()),
            ("1Gi", plain.clone()),
            "Bound a",
        ),
        (
            "none",
            json!({}),
            ("1Gi", plain.clone()),
            ("1Gi", plain.clone()),
            "Pending",
        ),
        (
            "its class",
            json!({"storageClassName": "fast"}),
            ("4Gi", json!({"storageClassName": "fast"})),
            ("3Gi", plain.clone()),
            "Bound a",
        ),
        (
            "its modes",
            json!({"accessModes": ["ReadWriteMany"]}),
            (
                "4Gi",
                json!({"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}),
            ),
            ("3Gi", plain.clone()),
            "Bound a",
        ),
        (
            "no block device",
            json!({}),
            ("4Gi", plain.clone()),
            ("3Gi", json!({"volumeMode": "Block"})),
            "Bound a",
        ),
        (
            "its selector",
            json!({"selector": {"matchLabels": {"disk": "a"}}}),
            ("4Gi", plain.clone()),
            ("3Gi", plain.clone()),
            "Bound a",
        ),
        (
            "kept for it",
            json!({}),
            ("9Gi", kept("n", None)),
            ("3Gi", plain.clone()),
            "Bound a",
        ),
        (
            "kept for others",
            json!({}),
            ("2Gi", kept("m", None)),
            ("3Gi", plain.clone()),
            "Bound b",
        ),
        (
            "kept for another of this name",
            json!({}),
            ("2Gi", kept("n", Some("former"))),
            ("3Gi", plain.clone()),
            "Bound b",
        ),
        (
            "by name",
            named.clone(),
            ("1Gi", plain.clone()),
            ("3Gi", plain.clone()),
            "Bound a",
        ),
        (
            "by name, but taken",
            named,
            ("4Gi", kept("m", Some("other"))),
            ("3Gi", plain.clone()),
            "Pending a",
        ),
        (
            "by name, but not there",
            json!({"volumeName": "x"}),
            ("4Gi", plain.clone()),
            ("3Gi", plain.clone()),
            "Pending x",
        ),
    ] {
        let volumes = [volume("a", a.0, &a.1), volume("b", b.0, &b.1)].into();
        let plan = plan(&[claim(&claimed)].into(), &volumes, &BTreeSet::new());
        assert_eq!(outcome(&plan), wanted, "{case}");
    }
}

#[test]
fn one_volume_is_bound_once() {
    let (key, mut other) = claim(&json!({}));
    other.metadata.name = Some("d".to_owned());
    other.metadata.uid = Some("other".to_owned());
    let claims = [claim(&json!({})), ((key.0, "d".to_owned()), other)].into();
    let plan = plan(
        &claims,
        &[volume("a", "4Gi", &json!({}))].into(),
        &BTreeSet::new(),
    );
    let phases = plan
        .claims
        .iter()
        .map(|(_, claim)| claim.status.clone().unwrap().phase.unwrap());
    assert_eq!(phases.collect::<Vec<_>>(), ["Bound", "Pending"]);
    assert_eq!(plan.unfit.len(), 1);
}

#[test]
fn what_is_bound_is_left_alone() {
    let mut claims: BTreeMap<_, _> = [claim(&json!({}))].into();
    let mut volumes: BTreeMap<_, _> = [volume("a", "4Gi", &json!({}))].into();
    let first = plan(&claims, &volumes, &BTreeSet::new());
    claims
        .values_mut()
        .for_each(|claim| *claim = first.claims.first().unwrap().1.clone());
    volumes
        .values_mut()
        .for_each(|volume| *volume = first.volumes.first().unwrap().1.clone());
    let second = plan(&claims, &volumes, &BTreeSet::new());
    assert!(
        second.claims.is_empty() && second.volumes.is_empty(),
        "{second:?}"
    );
    // Without its volume it is lost, and does not take another.
    let others = [volume("b", "4Gi", &json!({}))].into();
    assert_eq!(outcome(&plan(&claims, &others, &BTreeSet::new())), "Lost a");
}

#[test]
fn volumes_know_how_they_stand() {
    let by = |uid: Option<&str>| json!({"claimRef": {"namespace": "n", "name": "c", "uid": uid}});
    let with = |policy: &str, uid| {
        let mut spec = by(uid);
        merge(&mut spec, &json!({"persistentVolumeReclaimPolicy": policy}));
        spec
    };
    for (spec, wanted, is_deleted) in [
        (json!({}), "Available", false),
        (
            json!({"persistentVolumeReclaimPolicy": "Delete"}),
            "Available",
            false,
        ),
        (by(Some("claim")), "Bound", false),
        (with("Retain", Some("former")), "Released", false),
        (with("Delete", Some("former")), "Released", true),
        (with("Delete", Some("claim")), "Bound", false),
    ] {
        // The claim asks for more than the volume has.
        let (key, claim) = claim(&json!({"volumeName": "x"}));
        let volumes = [volume("a", "1Gi", &spec)].into();
        let plan = plan(&[(key, claim)].into(), &volumes, &BTreeSet::new());
        let (_, volume) = plan.volumes.first().unwrap();
        let phase = volume.status.clone().unwrap().phase.unwrap();
        assert_eq!(
            (phase.as_str(), !plan.released.is_empty()),
            (wanted, is_deleted),
            "{spec}"
        );
    }
}
