//! Where objects hold amounts, which are put into their one right form.

use serde_json::Value;

pub(crate) use ::quantity::Quantity;

pub(crate) const RULE: &str = "quantities must match the regular expression \
     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Where amounts are in a pod.
const OF_PODS: [&str; 11] = [
    "containers.*.resources.*.*",
    "initContainers.*.resources.*.*",
    "ephemeralContainers.*.resources.*.*",
    "containers.*.env.*.valueFrom.resourceFieldRef.divisor",
    "initContainers.*.env.*.valueFrom.resourceFieldRef.divisor",
    "overhead.*",
    "resources.*.*",
    "volumes.*.emptyDir.sizeLimit",
    "volumes.*.ephemeral.volumeClaimTemplate.spec.resources.*.*",
    "volumes.*.downwardAPI.items.*.resourceFieldRef.divisor",
    "volumes.*.projected.sources.*.downwardAPI.items.*.resourceFieldRef.divisor",
];

/// Where amounts are in objects of a kind: within, and then these.
fn places(kind: &str) -> (&'static str, &'static [&'static str]) {
    match kind {
        "Pod" => ("/spec", &OF_PODS),
        "StatefulSet" => ("/spec/template/spec", &OF_PODS),
        "PersistentVolume" => ("/spec", &["capacity.*"]),
        "PersistentVolumeClaim" => ("", &["spec.resources.*.*", "status.capacity.*"]),
        "Node" => ("/status", &["capacity.*", "allocatable.*"]),
        _ => ("", &[]),
    }
}

/// Puts the amounts in an object of a built-in kind into their right form.
///
/// # Errors
/// When one is none.
pub(crate) fn normalise(kind: &str, object: &mut Value) -> Result<(), &'static str> {
    let (within, places) = places(kind);
    if let Some(within) = object.pointer_mut(within) {
        for place in places {
            visit(within, place)?;
        }
    }
    if kind == "StatefulSet"
        && let Some(claims) = object.pointer_mut("/spec/volumeClaimTemplates")
    {
        visit(claims, "*.spec.resources.*.*")?;
    }
    Ok(())
}

/// A star stands for every item of a list, and for every entry of a map.
fn visit(value: &mut Value, place: &str) -> Result<(), &'static str> {
    if place.is_empty() {
        if value.is_string() || value.is_number() {
            let quantity = Quantity::read(value).ok_or(RULE)?;
            *value = quantity.to_string().into();
        }
        return Ok(());
    }
    let (step, rest) = place.split_once('.').unwrap_or((place, ""));
    match (step, value) {
        ("*", Value::Array(items)) => items.iter_mut().try_for_each(|item| visit(item, rest)),
        ("*", Value::Object(map)) => map.values_mut().try_for_each(|item| visit(item, rest)),
        (step, value) => value
            .get_mut(step)
            .map_or(Ok(()), |value| visit(value, rest)),
    }
}
