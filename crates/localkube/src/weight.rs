//! How large an object may be. What is stored must be read again, and what is
//! kept for watches must not fill the machine.

use serde_json::Value;

use crate::status::Status;

/// How deep an object may be nested. JSON is read to a depth of 128.
pub(crate) const MAX_DEPTH: usize = 100;
/// How large an object may be: what etcd takes.
pub(crate) const MAX_BYTES: usize = 3 << 19;

/// How deep a value is nested, and about how many bytes it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) depth: usize,
    pub(crate) bytes: usize,
}

impl Weight {
    pub(crate) fn of(value: &Value) -> Weight {
        match value {
            Value::Object(map) => map
                .iter()
                .fold(Weight { depth: 1, bytes: 2 }, |sum, (key, value)| {
                    sum.with(Weight::of(value), key.len() + 4)
                }),
            Value::Array(items) => items
                .iter()
                .fold(Weight { depth: 1, bytes: 2 }, |sum, value| {
                    sum.with(Weight::of(value), 1)
                }),
            Value::String(text) => Weight {
                depth: 0,
                bytes: text.len() + 2,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => Weight { depth: 0, bytes: 8 },
        }
    }

    fn with(self, inner: Weight, more: usize) -> Weight {
        Weight {
            depth: self.depth.max(inner.depth + 1),
            bytes: self.bytes + inner.bytes + more,
        }
    }
}

/// Refuses an object that is too large to be kept.
pub(crate) fn check(object: &Value) -> Result<(), Status> {
    let weight = Weight::of(object);
    if weight.depth > MAX_DEPTH {
        return Err(Status::bad_request(format!(
            "the object is nested {} deep; at most {MAX_DEPTH} are kept",
            weight.depth
        )));
    }
    if weight.bytes > MAX_BYTES {
        return Err(Status::too_large(MAX_BYTES));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_have_a_weight() {
        assert_eq!(Weight::of(&json!(1)).depth, 0);
        assert_eq!(Weight::of(&json!({"a": [{"b": 1}], "c": 2})).depth, 3);
        let text = json!({"a": "x".repeat(1000)});
        assert_eq!(Weight::of(&text).bytes, 1009);
    }
}
