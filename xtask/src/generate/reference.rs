//! `docs/en/api_doc.md`: every field of every kind, from the schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema;

const INTRODUCTION: &str = "\
# API reference

<!-- Made from crates/api by `cargo xtask generate`; changes here are overwritten. -->

Every field of the custom resources. `kubectl explain paddlejob.spec.worker` and so on prints the
same descriptions. Fields of Kubernetes' own types are described in the
[Kubernetes API reference](https://kubernetes.io/docs/reference/kubernetes-api/).
";

/// Fields whose type is Kubernetes' own: they are named, not spelled out.
const KUBERNETES_TYPES: &[(&str, &str)] = &[
    ("minResources", "map of string to Quantity"),
    ("nodeAffinity", "NodeAffinity"),
    ("resources", "ResourceRequirements"),
    ("template", "PodTemplateSpec"),
    ("tolerations", "list of Toleration"),
];

/// The reference of all kinds as Markdown.
pub fn markdown(crds: &[Value]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for crd in crds {
        text.push_str(&kind(crd));
    }
    text
}

fn kind(crd: &Value) -> String {
    let name = schema::text(crd, "/spec/names/kind");
    let api_version = format!(
        "{}/{}",
        schema::text(crd, "/spec/group"),
        schema::text(crd, "/spec/versions/0/name")
    );
    let null = Value::Null;
    let root = crd
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
        .unwrap_or(&null);

    let mut text = format!("\n## {name}\n\n{}\n\n", schema::text(root, "/description"));
    let _ = write!(
        text,
        "`apiVersion: {api_version}`, plural `{}`",
        schema::text(crd, "/spec/names/plural")
    );
    for short in strings(crd.pointer("/spec/names/shortNames")) {
        let _ = write!(text, ", short name `{short}`");
    }
    text.push_str(".\n");
    if let Some(columns) = crd.pointer("/spec/versions/0/additionalPrinterColumns") {
        let columns: Vec<_> = columns
            .as_array()
            .into_iter()
            .flatten()
            .map(|column| {
                let name = schema::text(column, "/name").to_uppercase();
                format!("{name} (`{}`)", schema::text(column, "/jsonPath"))
            })
            .collect();
        let _ = writeln!(text, "`kubectl get` prints {}.", columns.join(", "));
    }

    let mut sections = Vec::new();
    for part in ["spec", "status"] {
        if let Some(object) = root.pointer(&format!("/properties/{part}")) {
            collect(part.to_owned(), object, &mut sections);
        }
    }
    for section in &sections {
        text.push_str(&section.markdown(name, &sections));
    }
    text
}

/// One table: an object type, and every path at which it stands.
struct Section<'a> {
    paths: Vec<String>,
    object: &'a Value,
}

/// Adds the objects at `path` and below it. A type that was seen before gets
/// one more path instead of one more table: the roles of a job are alike.
fn collect<'a>(path: String, object: &'a Value, sections: &mut Vec<Section<'a>>) {
    if let Some(same) = sections
        .iter_mut()
        .find(|section| properties(section.object) == properties(object))
    {
        same.paths.push(path);
        return;
    }
    sections.push(Section {
        paths: vec![path.clone()],
        object,
    });
    for (name, property) in properties(object).into_iter().flatten() {
        if let Some((object, suffix)) = nested(name, property) {
            collect(format!("{path}.{name}{suffix}"), object, sections);
        }
    }
}

/// The object type of a field that has a table of its own.
fn nested<'a>(name: &str, property: &'a Value) -> Option<(&'a Value, &'static str)> {
    if kubernetes_type(name).is_some() {
        return None;
    }
    let (object, suffix) = match property.get("items") {
        Some(item) => (item, "[]"),
        None => (property, ""),
    };
    properties(object).map(|_| (object, suffix))
}

impl Section<'_> {
    fn anchor(&self, kind: &str) -> String {
        let path = self.paths.first().map_or("", String::as_str);
        let words = path.trim_end_matches("[]").replace("[].", ".");
        format!("{kind}-{}", words.replace('.', "-")).to_lowercase()
    }

    fn markdown(&self, kind: &str, all: &[Section<'_>]) -> String {
        let paths: Vec<_> = self.paths.iter().map(|path| format!("`{path}`")).collect();
        let mut text = format!(
            "\n<a id=\"{}\"></a>\n### {kind} {}\n\n",
            self.anchor(kind),
            paths.join(", ")
        );
        for rule in self
            .object
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let _ = writeln!(text, "- Refused: {}.", schema::text(rule, "/message"));
        }
        if text.ends_with(".\n") {
            text.push('\n');
        }
        text.push_str("| field | type | required | default | description |\n");
        text.push_str("|---|---|---|---|---|\n");
        let required = strings(self.object.get("required"));
        for (name, property) in properties(self.object).into_iter().flatten() {
            let (description, default) = split_default(schema::text(property, "/description"));
            let default = match property.get("default") {
                Some(Value::String(value)) => format!("`{value}`"),
                Some(value) => format!("`{value}`"),
                None => default,
            };
            let _ = writeln!(
                text,
                "| `{name}` | {} | {} | {} | {} |",
                cell(&type_of(name, property, kind, all)),
                if required.contains(&name.as_str()) {
                    "yes"
                } else {
                    ""
                },
                cell(&default),
                cell(&description),
            );
        }
        text
    }
}

/// What may stand in a field, with the bounds that the API server checks.
fn type_of(name: &str, property: &Value, kind: &str, all: &[Section<'_>]) -> String {
    if let Some(type_) = kubernetes_type(name) {
        return type_.to_owned();
    }
    if let Some((object, suffix)) = nested(name, property) {
        let section = all
            .iter()
            .find(|section| properties(section.object) == properties(object));
        let link = section.map_or("object".to_owned(), |section| {
            format!("[object](#{})", section.anchor(kind))
        });
        return match suffix {
            "" => link,
            _ => format!("list of {link}{}", bounds(property)),
        };
    }
    if let Some(item) = property.get("items") {
        let item = type_of(name, item, kind, all);
        return format!("list of {item}{}", bounds(property));
    }
    let values = strings(property.get("enum"));
    if !values.is_empty() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    match schema::text(property, "/format") {
        "date-time" => "time".to_owned(),
        _ => format!("{}{}", schema::text(property, "/type"), bounds(property)),
    }
}

fn bounds(property: &Value) -> String {
    let bound = |key: &str| property.get(key);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => return format!(", {least} to {most}"),
        (Some(least), None) => return format!(", at least {least}"),
        (None, Some(most)) => return format!(", at most {most}"),
        (None, None) => {}
    }
    match (bound("minLength"), bound("minItems")) {
        (Some(least), _) if *least == 1 => ", not empty".to_owned(),
        (Some(least), _) => format!(", at least {least} characters"),
        (None, Some(least)) => format!(", at least {least}"),
        (None, None) => String::new(),
    }
}

/// Takes the sentence that gives the default out of a description: it has a
/// column of its own.
fn split_default(description: &str) -> (String, String) {
    let mut rest = Vec::new();
    let mut default = String::new();
    for sentence in sentences(description) {
        let value = ["Default: ", "Default ", "Unset: "]
            .iter()
            .find_map(|start| sentence.trim().strip_prefix(start));
        match value {
            Some(value) => default = value.trim_end_matches('.').to_owned(),
            None => rest.push(sentence),
        }
    }
    (rest.concat().trim().to_owned(), default)
}

/// The sentences of a text, each with the white space that follows it.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut rest = text;
    while let Some(end) = rest
        .match_indices('.')
        .map(|(at, _)| at + 1)
        .find(|at| rest.get(*at..).is_some_and(|r| r.starts_with([' ', '\n'])))
    {
        let tail = rest.get(end..).unwrap_or_default();
        let space = tail.len() - tail.trim_start().len();
        let (sentence, after) = rest.split_at(end + space);
        sentences.push(sentence);
        rest = after;
    }
    sentences.push(rest);
    sentences
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace("\n\n", "<br>")
        .replace('\n', " ")
}

fn kubernetes_type(name: &str) -> Option<&'static str> {
    let (_, type_) = KUBERNETES_TYPES.iter().find(|(field, _)| *field == name)?;
    Some(type_)
}

fn properties(object: &Value) -> Option<&serde_json::Map<String, Value>> {
    object.get("properties").and_then(Value::as_object)
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::crds;
    use super::*;

    fn described(path: &str, schema: &Value, undescribed: &mut Vec<String>) {
        for (name, property) in properties(schema).into_iter().flatten() {
            let path = format!("{path}.{name}");
            if schema::text(property, "/description").is_empty() {
                undescribed.push(path.clone());
            }
            if let Some((object, suffix)) = nested(name, property) {
                described(&format!("{path}{suffix}"), object, undescribed);
            }
        }
    }

    #[test]
    fn every_field_of_ours_has_a_description() {
        let mut undescribed = Vec::new();
        for crd in crds::v1().unwrap() {
            let root = crd
                .pointer("/spec/versions/0/schema/openAPIV3Schema")
                .unwrap();
            for part in ["spec", "status"] {
                let part_schema = root.pointer(&format!("/properties/{part}")).unwrap();
                let path = format!("{}.{part}", schema::text(&crd, "/spec/names/kind"));
                described(&path, part_schema, &mut undescribed);
            }
        }
        assert_eq!(undescribed, Vec::<String>::new());
    }

    #[test]
    fn every_link_has_its_anchor() {
        let text = markdown(&crds::v1().unwrap());
        let mut links = 0;
        for link in text.split("](#").skip(1) {
            let anchor = link.split(')').next().unwrap();
            assert!(
                text.contains(&format!("<a id=\"{anchor}\"></a>")),
                "no anchor {anchor}"
            );
            links += 1;
        }
        assert!(links > 20, "{links} links");
    }

    #[test]
    fn roles_share_a_table_and_defaults_have_a_column() {
        let text = markdown(&crds::v1().unwrap());
        assert!(text.contains("### PaddleJob `spec.heter`, `spec.ps`, `spec.worker`\n"));
        assert!(text.contains("| `replicas` | integer, 1 to 2000 | yes |  | "));
        assert!(text.contains("| `driver` | `juicefs` |  | `juicefs` | Name of the driver. |"));
        assert_eq!(
            split_default("Seconds in a.b. Default `x.y`. More."),
            ("Seconds in a.b. More.".to_owned(), "`x.y`".to_owned())
        );
        assert_eq!(
            split_default("No default here."),
            ("No default here.".to_owned(), String::new())
        );
    }
}
