//! The way to a field of an object.

use serde_json::Value;

/// The value at a path such as `spec.containers[0].image`; a dot may precede it,
/// as it does in the simple JSON paths of definitions.
pub(crate) fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).try_fold(object, |at, step| match step.strip_suffix(']') {
        Some(index) => at.get(index.parse::<usize>().ok()?),
        None => at.get(step),
    })
}

/// The text at a path; empty when there is none.
pub(crate) fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The steps of a path.
pub(crate) fn steps(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split(['.', '[']).filter(|step| !step.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_through_maps_and_lists() {
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(text(&object, "spec.containers[1].name"), "b");
        assert_eq!(text(&object, ".spec.containers[0].name"), "a");
        assert_eq!(at(&object, "spec.containers[2]"), None);
        assert_eq!(text(&object, "spec.containers"), "");
        assert_eq!(at(&object, ""), Some(&object));
    }
}
