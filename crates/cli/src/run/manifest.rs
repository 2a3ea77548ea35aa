//! Files with objects: what is to be applied, and where it was said.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use api::{PaddleJob, SampleJob, SampleSet};
use kube::api::ApiResource;
use serde_json::{Value, json};

/// The standard input.
const STDIN: &str = "-";

/// The kinds of objects that are followed to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PaddleJob,
    SampleSet,
    SampleJob,
}

impl Kind {
    /// Where the API has them.
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Kind::PaddleJob => ApiResource::erase::<PaddleJob>(&()),
            Kind::SampleSet => ApiResource::erase::<SampleSet>(&()),
            Kind::SampleJob => ApiResource::erase::<SampleJob>(&()),
        }
    }
}

/// An object as somebody wrote it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// For errors: the file, and which of its documents.
    pub(crate) place: String,
    pub(crate) object: Value,
}

impl Manifest {
    /// All objects of the files, in the order given.
    pub(crate) fn read(files: &[String], namespace: Option<&str>) -> anyhow::Result<Vec<Manifest>> {
        let mut all = Vec::new();
        for file in files {
            let text = match file.as_str() {
                STDIN => {
                    let mut text = String::new();
                    let read = std::io::stdin().read_to_string(&mut text);
                    read.map(|_| text).context("the standard input")?
                }
                file => std::fs::read_to_string(Path::new(file)).context(file.to_owned())?,
            };
            all.extend(Manifest::parse(file, &text)?);
        }
        if all.is_empty() {
            bail!("{}: there is no object in it", files.join(", "));
        }
        for manifest in &mut all {
            manifest.check(namespace)?;
        }
        Ok(all)
    }

    fn parse(file: &str, text: &str) -> anyhow::Result<Vec<Manifest>> {
        let file = if file == STDIN { "stdin" } else { file };
        let options = serde_saphyr::options! {
            // As kubectl: `defaultMode: 0644` is a number of base 8.
            legacy_octal_numbers: true,
        };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|error| anyhow::anyhow!("{file}: {}", error.without_snippet()))?;
        let is_one = documents.len() == 1;
        let mut manifests = Vec::new();
        for (n, document) in documents.into_iter().enumerate() {
            let place = match is_one {
                true => file.to_owned(),
                false => format!("{file}, document {}", n + 1),
            };
            match document {
                Value::Object(mut list) if list.get("kind") == Some(&json!("List")) => {
                    let items = list.remove("items");
                    let items = items.as_ref().and_then(Value::as_array);
                    for (n, item) in items.into_iter().flatten().enumerate() {
                        manifests.push(Manifest {
                            place: format!("{place}, items[{n}]"),
                            object: item.clone(),
                        });
                    }
                }
                object => manifests.push(Manifest { place, object }),
            }
        }
        Ok(manifests)
    }

    /// What no server could make sense of is refused here.
    fn check(&mut self, namespace: Option<&str>) -> anyhow::Result<()> {
        let place = &self.place;
        if !self.object.is_object() {
            bail!("{place}: an object is expected, with apiVersion, kind and metadata");
        }
        for path in ["/apiVersion", "/kind"] {
            if self.text(path).is_empty() {
                bail!("{place}: {} is missing", path.trim_start_matches('/'));
            }
        }
        if self.name().is_empty() && self.text("/metadata/generateName").is_empty() {
            bail!("{place}: {}: metadata.name is missing", self.kind());
        }
        let own = self.text("/metadata/namespace");
        if let Some(namespace) = namespace
            && !own.is_empty()
            && own != namespace
        {
            bail!(
                "{place}: {} {}: metadata.namespace is {own}, but --namespace {namespace} was given",
                self.kind(),
                self.name(),
            );
        }
        Ok(())
    }

    fn text(&self, path: &str) -> &str {
        let found = self.object.pointer(path);
        found.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub(crate) fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// Its name; empty when the server is to make one up.
    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The namespace that it names itself.
    pub(crate) fn namespace(&self) -> Option<&str> {
        Some(self.text("/metadata/namespace")).filter(|namespace| !namespace.is_empty())
    }

    /// None: there is nothing to wait for.
    pub(crate) fn followed(&self) -> Option<Kind> {
        let all = [Kind::PaddleJob, Kind::SampleSet, Kind::SampleJob];
        let is_it = |kind: &Kind| {
            let resource = kind.resource();
            let group = self.api_version().split('/').next();
            self.kind() == resource.kind && group == Some(&resource.group)
        };
        all.into_iter().find(is_it)
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail"
)]
mod tests {
    use super::*;

    fn error(text: &str, namespace: Option<&str>) -> String {
        let read = Manifest::parse("job.yaml", text).and_then(|mut manifests| {
            let mut checked = manifests.iter_mut().map(|m| m.check(namespace));
            checked.find(Result::is_err).unwrap()
        });
        format!("{:#}", read.unwrap_err())
    }

    #[test]
    fn documents_lists_and_comments() {
        let text = "# first\n---\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let found = Manifest::parse("-", text).unwrap();
        let found: Vec<_> = found.iter().map(|m| (&*m.place, m.kind())).collect();
        let want = [
            ("stdin, document 1", "A"),
            ("stdin, document 2, items[0]", "B"),
            ("stdin, document 2, items[1]", "C"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn numbers_are_read_as_kubectl_does() {
        let found = Manifest::parse("m", "kind: A\nmode: 0644\n").unwrap();
        assert_eq!(found[0].object["mode"], 0o644);
    }

    #[test]
    fn errors_name_file_document_object_and_field() {
        assert_eq!(error("kind: A\n", None), "job.yaml: apiVersion is missing");
        assert_eq!(
            error(
                "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n[]\n",
                None
            ),
            "job.yaml, document 2: an object is expected, with apiVersion, kind and metadata"
        );
        assert_eq!(
            error("apiVersion: v1\nkind: A\n", None),
            "job.yaml: A: metadata.name is missing"
        );
        assert_eq!(
            error(
                "apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: b}\n",
                Some("c")
            ),
            "job.yaml: A a: metadata.namespace is b, but --namespace c was given"
        );
        assert_eq!(
            error("kind: A\nspec: [\n", None),
            "job.yaml: unclosed bracket '[' at line 2, column 7"
        );
    }
}
