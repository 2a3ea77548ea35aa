//! Volumes of pods.

use std::collections::BTreeSet;

use super::container::field_path;
use super::names;
use super::pod::named;
use crate::fault::{At, Faults};
use crate::quantity::Quantity;

const HOST_PATHS: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

pub(super) fn all(volumes: &At<'_, '_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for volume in volumes.items() {
        source(&volume, faults);
        let name = volume.get("name");
        if name.is_empty() {
            faults.required(&name);
            continue;
        }
        named(&name, names::label, faults);
        if !seen.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
    }
}

fn source(volume: &At<'_, '_>, faults: &mut Faults) {
    let sources = volume.value.as_object().into_iter().flatten();
    let sources = sources.filter(|(name, value)| *name != "name" && !value.is_null());
    for (index, (name, _)) in sources.enumerate() {
        let source = volume.get(name);
        if index > 0 {
            faults.forbidden(source.path, "may not specify more than 1 volume type");
            continue;
        }
        match name.as_str() {
            "hostPath" => host_path(&source, faults),
            "emptyDir" => {
                let limit = source.get("sizeLimit");
                if Quantity::read(limit.value).is_some_and(Quantity::is_negative) {
                    let why = "SizeLimit field must be a valid resource quantity";
                    faults.forbidden(limit.path, why);
                }
            }
            "configMap" => files(&source, "name", faults),
            "secret" => files(&source, "secretName", faults),
            "downwardAPI" => {
                mode(&source.get("defaultMode"), faults);
                for item in source.get("items").items() {
                    file_path(&item.get("path"), faults);
                    if item.get("fieldRef").is_set() {
                        field_path(&item.get("fieldRef").get("fieldPath"), faults);
                    }
                }
            }
            "persistentVolumeClaim" => {
                let name = source.get("claimName");
                match name.is_empty() {
                    true => faults.required(&name),
                    false => named(&name, names::subdomain, faults),
                }
            }
            _ => {}
        }
    }
}

pub(super) fn host_path(source: &At<'_, '_>, faults: &mut Faults) {
    let path = source.get("path");
    if path.is_empty() {
        return faults.required(&path);
    }
    climbs(&path, faults);
    faults.one_of(&source.get("type"), &HOST_PATHS);
}

/// The files that a ConfigMap or a Secret becomes.
fn files(source: &At<'_, '_>, name: &str, faults: &mut Faults) {
    let name = source.get(name);
    if name.is_empty() {
        faults.required(&name);
    }
    mode(&source.get("defaultMode"), faults);
    for item in source.get("items").items() {
        let key = item.get("key");
        if key.is_empty() {
            faults.required(&key);
        }
        file_path(&item.get("path"), faults);
        mode(&item.get("mode"), faults);
    }
}

fn mode(mode: &At<'_, '_>, faults: &mut Faults) {
    if mode
        .number()
        .is_some_and(|mode| !(0..=0o777).contains(&mode))
    {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        faults.invalid(mode, why);
    }
}

fn file_path(path: &At<'_, '_>, faults: &mut Faults) {
    match path.is_empty() {
        true => faults.required(path),
        false => relative(path, faults),
    }
}

/// A path that stays below where it begins.
pub(super) fn relative(path: &At<'_, '_>, faults: &mut Faults) {
    if path.text().starts_with('/') {
        faults.invalid(path, "must be a relative path");
    }
    climbs(path, faults);
}

fn climbs(path: &At<'_, '_>, faults: &mut Faults) {
    if path.text().split('/').any(|step| step == "..") {
        faults.invalid(path, "must not contain '..'");
    }
}

/// A port by its number, or by its name.
pub(super) fn port_or_name(port: &At<'_, '_>, faults: &mut Faults) {
    match port.number() {
        Some(_) => faults.between(port, 1, 65_535),
        None if port.is_empty() => faults.required(port),
        None => named(port, names::port, faults),
    }
}
