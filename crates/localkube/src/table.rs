//! Tables: what `kubectl get` prints.

use serde_json::{Value, json};

use crate::object::metadata_only;
use crate::path::at;
use crate::served::{Column, Served};

/// A table of objects.
pub fn of(served: &Served, objects: &[&Value], revision: &str, next: Option<String>) -> Value {
    let columns = columns(served);
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.type_,
                "format": if column.name == "Name" { "name" } else { "" },
                "description": "",
                "priority": column.priority,
            })
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|column| cell(column, object)).collect();
            json!({"cells": cells, "object": metadata_only(object)})
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision, "continue": next.unwrap_or_default()},
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn column(name: &str, type_: &str, path: &str) -> Column {
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        path: path.to_owned(),
        priority: 0,
    }
}

fn columns(served: &Served) -> Vec<Column> {
    let age = || column("Age", "date", ".metadata.creationTimestamp");
    let own: Vec<Column> = match &*served.kind.kind {
        _ if !served.columns.is_empty() => served.columns.clone(),
        "Namespace" => vec![column("Status", "string", ".status.phase"), age()],
        _ => vec![age()],
    };
    let name = column("Name", "string", ".metadata.name");
    std::iter::once(name).chain(own).collect()
}

fn cell(column: &Column, object: &Value) -> Value {
    match (column.type_.as_str(), at(object, &column.path)) {
        ("date", Some(Value::String(since))) => age(since).into(),
        (_, Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)))) => value.clone(),
        (_, Some(value @ (Value::Array(_) | Value::Object(_)))) => value.to_string().into(),
        // As the real one prints what is not there.
        ("date", _) => "<unknown>".into(),
        ("string", _) => "".into(),
        _ => Value::Null,
    }
}

/// How long ago something was, in the short form that kubectl has.
fn age(since: &str) -> String {
    match since.parse::<jiff::Timestamp>() {
        Ok(since) => human(jiff::Timestamp::now().duration_since(since).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}

fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, wanted) in [
            (-1, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (601, "10m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (30_000, "8h"),
            (180_000, "2d2h"),
            (700_000, "8d"),
        ] {
            assert_eq!(human(seconds), wanted, "{seconds}");
        }
    }
}
