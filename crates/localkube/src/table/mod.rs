//! Tables: what `kubectl get` prints.

use serde_json::{Value, json};

use crate::object::metadata_only;
use crate::path::at;
use crate::served::{Column, Served};

mod age;
mod built_in;
mod pod;
mod storage;

use age::age;

/// How much of each object comes with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// A table of objects.
pub(crate) fn of(served: &Served, objects: &[&Value], include: Include, metadata: Value) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells = cells(served, object);
            match include {
                Include::Nothing => json!({"cells": cells}),
                Include::Metadata => json!({"cells": cells, "object": metadata_only(object)}),
                Include::Object => json!({"cells": cells, "object": object}),
            }
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns(served),
        "rows": rows,
    })
}

fn columns(served: &Served) -> Vec<Value> {
    let column = |name: &str, type_: &str, priority: i64| {
        json!({
            "name": name,
            "type": type_,
            "format": if name == "Name" { "name" } else { "" },
            "description": "",
            "priority": priority,
        })
    };
    if let Some(printed) = built_in::find(&served.kind) {
        let columns = printed.columns.iter();
        let type_ = |name: &str| match name {
            "Created At" => "date",
            "Established" => "boolean",
            _ => "string",
        };
        return columns
            .map(|(name, priority)| column(name, type_(name), *priority))
            .collect();
    }
    let own = served.columns.iter();
    let own = own.map(|own| column(&own.name, &own.type_, own.priority));
    let mut columns = vec![column("Name", "string", 0)];
    columns.extend(own);
    if columns.len() == 1 {
        columns.push(column("Age", "date", 0));
    }
    columns
}

fn cells(served: &Served, object: &Value) -> Vec<Value> {
    if let Some(printed) = built_in::find(&served.kind) {
        return (printed.cells)(object);
    }
    let name = at(object, "metadata.name").cloned().unwrap_or_default();
    let mut cells = vec![name];
    cells.extend(served.columns.iter().map(|column| cell(column, object)));
    if cells.len() == 1 {
        cells.push(age(crate::object::meta(object, "creationTimestamp")).into());
    }
    cells
}

fn cell(column: &Column, object: &Value) -> Value {
    match (column.type_.as_str(), at(object, &column.path)) {
        ("date", Some(Value::String(since))) => age(since).into(),
        (_, Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)))) => value.clone(),
        (_, Some(value @ (Value::Array(_) | Value::Object(_)))) => value.to_string().into(),
        _ => Value::Null,
    }
}
