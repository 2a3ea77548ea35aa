//! The CustomResourceDefinitions as they are installed.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{PaddleJob, SampleJob, SampleSet};

/// The CRDs of all kinds, in the order in which they stand in `deploy/`.
///
/// They are the derived ones (`PaddleJob::crd()` and so on) made fit for an API
/// server and for people, so these are the ones to install.
pub fn crds() -> [CustomResourceDefinition; 3] {
    [
        installable(PaddleJob::crd(), Spec::Required),
        installable(SampleJob::crd(), Spec::Optional),
        installable(SampleSet::crd(), Spec::Optional),
    ]
}

/// Whether an object may leave its whole spec out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spec {
    /// It can't mean anything without one: a PaddleJob needs a role.
    Required,
    /// As in the original. The API server fills in an empty one, because every
    /// reader here expects a spec.
    Optional,
}

fn installable(mut crd: CustomResourceDefinition, spec: Spec) -> CustomResourceDefinition {
    let names = &mut crd.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(schema) = schema else { continue };
        tidy(schema);
        if let Some(status) = property(schema, "status") {
            without_defaults(status);
        }
        if spec == Spec::Optional {
            schema.required = None;
            if let Some(spec) = property(schema, "spec") {
                spec.default = Some(JSON(json!({})));
            }
        }
    }
    crd
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Takes out what comes from Rust and not from the API.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.title = None;
    // The API server drops a null from a field that is not nullable, so that
    // `worker: null` is the same as no worker, for CEL rules too.
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|JSON(value)| *value != Value::Null);
    }
    if let Some(description) = &mut schema.description {
        *description = unwrapped(description);
    }
    for_each_child(schema, tidy);
}

/// A status says what was observed. A default would make the API server say
/// something that nobody did.
fn without_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    for_each_child(schema, without_defaults);
}

fn for_each_child(schema: &mut JSONSchemaProps, visit: fn(&mut JSONSchemaProps)) {
    schema
        .properties
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
        .for_each(visit);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => visit(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(visit),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit(values);
    }
}

/// Joins the lines of each paragraph: where a line ended in the source means
/// nothing to a reader of `kubectl explain`.
fn unwrapped(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
