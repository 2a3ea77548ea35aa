//! Definitions of kinds.

use serde_json::json;

use crate::fault::{At, Faults};

pub(super) fn check(definition: &At<'_, '_>, faults: &mut Faults) {
    let spec = definition.get("spec");
    let names = spec.get("names");
    let wanted = format!(
        "{}.{}",
        names.get("plural").text(),
        spec.get("group").text()
    );
    let meta = definition.get("metadata");
    let name = meta.get("name");
    if name.text() != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        faults.invalid_value(&name.path, &json!(name.text()), why);
    }
    let versions = spec.get("versions");
    let stored = versions
        .items()
        .filter(|version| version.get("storage").is_true());
    if stored.count() != 1 {
        let why = "must have exactly one version marked as storage version";
        faults.invalid(&versions, why);
    }
}
