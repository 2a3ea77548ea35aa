//! What the objects of the built-in kinds look like: the types of their fields,
//! and which fields they have at all.

use k8s_openapi::api::{apps, coordination, core, events, storage};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kind::Kind;
use crate::quantity;

/// A step into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

/// Removes the fields that objects of a built-in kind do not have, and returns
/// their paths. Amounts get their right form.
///
/// # Errors
/// When a field has a value of another type.
pub(crate) fn prune(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    quantity::normalise(&kind.kind, object)?;
    let unknown = match unknown(kind, object) {
        Ok(unknown) => unknown,
        // Null is nothing, also where the types can't have it. In definitions it
        // may be a value.
        Err(_) if kind.kind != "CustomResourceDefinition" => {
            drop_nulls(object);
            self::unknown(kind, object)?
        }
        Err(error) => return Err(error),
    };
    for path in &unknown {
        remove(object, path);
    }
    Ok(unknown.iter().map(|path| told(path)).collect())
}

fn unknown(kind: &Kind, object: &Value) -> Result<Vec<Vec<Step>>, String> {
    let read = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "ConfigMap") => read::<core::v1::ConfigMap>,
        ("", "Event") => read::<core::v1::Event>,
        ("", "Namespace") => read::<core::v1::Namespace>,
        ("", "Node") => read::<core::v1::Node>,
        ("", "PersistentVolume") => read::<core::v1::PersistentVolume>,
        ("", "PersistentVolumeClaim") => read::<core::v1::PersistentVolumeClaim>,
        ("", "Pod") => read::<core::v1::Pod>,
        ("", "Secret") => read::<core::v1::Secret>,
        ("", "Service") => read::<core::v1::Service>,
        ("", "ServiceAccount") => read::<core::v1::ServiceAccount>,
        ("apps", "StatefulSet") => read::<apps::v1::StatefulSet>,
        ("coordination.k8s.io", "Lease") => read::<coordination::v1::Lease>,
        ("events.k8s.io", "Event") => read::<events::v1::Event>,
        ("storage.k8s.io", "CSIDriver") => read::<storage::v1::CSIDriver>,
        ("storage.k8s.io", "StorageClass") => read::<storage::v1::StorageClass>,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            read::<apiextensions::v1::CustomResourceDefinition>
        }
        _ => return Ok(Vec::new()),
    };
    read(object).map_err(|error| in_go(&kind.kind, &error))
}

type Error = serde_path_to_error::Error<serde_json::Error>;

/// Reads an object as a type; what of it the type does not have.
fn read<T: DeserializeOwned>(object: &Value) -> Result<Vec<Vec<Step>>, Error> {
    let mut unknown = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| {
        let mut steps = Vec::new();
        collect(&path, &mut steps);
        unknown.push(steps);
    };
    let watched = serde_ignored::Deserializer::new(object, &mut note);
    serde_path_to_error::deserialize::<_, T>(watched)?;
    Ok(unknown)
}

fn collect(path: &serde_ignored::Path<'_>, steps: &mut Vec<Step>) {
    use serde_ignored::Path;
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            collect(parent, steps);
            steps.push(Step::Index(*index));
        }
        Path::Map { parent, key } => {
            collect(parent, steps);
            steps.push(Step::Field(key.clone()));
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => collect(parent, steps),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn told(path: &[Step]) -> String {
    let mut told = String::new();
    for step in path {
        match step {
            Step::Field(name) if told.is_empty() => told.push_str(name),
            Step::Field(name) => told.extend([".", name]),
            Step::Index(index) => told.push_str(&format!("[{index}]")),
        }
    }
    told
}

fn remove(object: &mut Value, path: &[Step]) {
    let Some((Step::Field(last), parents)) = path.split_last() else {
        return;
    };
    let parent = parents.iter().try_fold(object, |at, step| match step {
        Step::Field(name) => at.get_mut(name),
        Step::Index(index) => at.get_mut(index),
    });
    if let Some(Value::Object(parent)) = parent {
        parent.remove(last);
    }
}

/// An error in the words of the real API server, as far as we know them.
fn in_go(kind: &str, error: &Error) -> String {
    let cause = error.inner().to_string();
    let place: String = error
        .path()
        .to_string()
        .split(['.', '['])
        .filter(|step| !step.ends_with(']') && !step.is_empty())
        .map(|step| format!(".{step}"))
        .collect();
    if let Some(at) = cause.strip_prefix("Invalid symbol ") {
        let at = at.rsplit(' ').next().unwrap_or_default();
        return format!(
            "illegal base64 data at input byte {}",
            at.trim_end_matches('.')
        );
    }
    let Some((found, wanted)) = cause
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.split_once(", expected "))
    else {
        return format!("{kind}{place}: {cause}");
    };
    let found = match found.split(' ').next() {
        Some("string") => "string",
        Some("integer" | "floating") => "number",
        Some("boolean") => "bool",
        Some("sequence") => "array",
        Some("map") => "object",
        _ => "null",
    };
    let wanted = match wanted {
        "a string" => "string".to_owned(),
        "a boolean" => "bool".to_owned(),
        "a sequence" => "[]".to_owned(),
        "a map" => "map".to_owned(),
        "i32" => "int32".to_owned(),
        "i64" => "int64".to_owned(),
        other => format!("v1.{other}"),
    };
    format!("json: cannot unmarshal {found} into Go struct field {kind}{place} of type {wanted}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::built_in;

    fn pod() -> Kind {
        let mut kinds = built_in().into_iter();
        kinds.find(|kind| kind.kind == "Pod").unwrap()
    }

    #[test]
    fn fields_that_a_pod_does_not_have_go() {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "nam": 1},
            "spec": {
                "foo": 1,
                "containers": [{"name": "c", "bar": {}, "resources": {"limits": {"cpu": 1}}}],
                "nodeSelector": {"any": "thing"},
            },
            "zed": 1,
        });
        let unknown = prune(&pod(), &mut object).unwrap();
        assert_eq!(
            unknown,
            ["metadata.nam", "spec.containers[0].bar", "spec.foo", "zed"]
        );
        assert_eq!(
            object.pointer("/spec"),
            Some(&json!({
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
                "nodeSelector": {"any": "thing"},
            }))
        );
        assert!(prune(&pod(), &mut object).unwrap().is_empty());
    }

    #[test]
    fn values_of_other_types_are_refused() {
        for (spec, wanted) in [
            (
                json!({"containers": [{"env": [{"name": "A", "value": true}]}]}),
                "json: cannot unmarshal bool into Go struct field Pod.spec.containers.env.value of type string",
            ),
            (
                json!({"terminationGracePeriodSeconds": "x"}),
                "json: cannot unmarshal string into Go struct field Pod.spec.terminationGracePeriodSeconds of type int64",
            ),
            (
                json!({"containers": ["c"]}),
                "json: cannot unmarshal string into Go struct field Pod.spec.containers of type v1.Container",
            ),
            (
                json!({"containers": [{"resources": {"limits": {"cpu": "much"}}}]}),
                quantity::RULE,
            ),
        ] {
            let mut object = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
            assert_eq!(prune(&pod(), &mut object).unwrap_err(), wanted);
        }
    }
}
