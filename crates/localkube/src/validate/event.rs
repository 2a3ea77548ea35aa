//! Events, in both their forms.

use serde_json::Value;

use super::names;
use crate::fault::{At, Faults, Path};

/// What the two forms call differently and messages name.
struct Names {
    controller: &'static str,
    message: &'static str,
    /// What only the old way of telling events fills in, and how the core says.
    old: [(&'static str, &'static str); 4],
}

const CORE: Names = Names {
    controller: "reportingComponent",
    message: "message",
    old: [
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("source", "source"),
    ],
};
const OTHER: Names = Names {
    controller: "reportingController",
    message: "note",
    old: [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ],
};

/// A new event. One with a time of its own, or in the other form, is told in the
/// new way, of which more is asked.
pub(super) fn check(event: &At<'_, '_>, is_other_form: bool, faults: &mut Faults) {
    let names = if is_other_form { OTHER } else { CORE };
    let time = event.get("eventTime");
    if time.is_empty() && !is_other_form {
        // Those of objects of the whole cluster are told anywhere.
        let about = event.get("involvedObject");
        let (namespace, own) = (about.get("namespace"), event.get("metadata"));
        if !namespace.is_empty() && namespace.text() != own.get("namespace").text() {
            faults.invalid(&namespace, "does not match event.namespace");
        }
        return;
    }
    if time.is_empty() {
        faults.required(&time);
    }
    let nothing = Value::from("");
    let controller = event.get(names.controller);
    if controller.is_empty() {
        faults.required(&controller);
    }
    for what in names::qualified(controller.text()) {
        let given = Value::from(controller.text());
        faults.invalid_value(&controller.path, &given, &what);
    }
    for (field, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let field = event.get(field);
        if field.is_empty() {
            faults.required(&field);
        } else if field.text().len() > most {
            let why = format!("can have at most {most} characters");
            faults.invalid_value(&field.path, &nothing, &why);
        }
    }
    if event.get(names.message).text().len() > 1024 {
        let path = Path::Field(&Path::Root, "message");
        faults.invalid_value(&path, &nothing, "can have at most 1024 characters");
    }
    let type_ = event.get("type");
    if !["Normal", "Warning"].contains(&type_.text()) {
        let why = format!("has invalid value: {}", type_.text());
        faults.invalid_value(&type_.path, &nothing, &why);
    }
    if is_other_form {
        for (field, told) in names.old {
            let field = event.get(field);
            if !field.is_empty() {
                let path = Path::Field(&Path::Root, told);
                faults.invalid_value(&path, &nothing, "needs to be unset");
            }
        }
    }
}
