//! The kinds that are served: the built-in ones and those of
//! CustomResourceDefinitions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::events;
use crate::kind::{Kind, built_in};
use crate::object::meta;
use crate::path::{at, text};
use crate::schema::Schema;
use crate::store::Event;

/// A kind as it is served.
#[derive(Debug)]
pub struct Served {
    /// How it is called.
    pub kind: Kind,
    /// What its objects look like; `None`: anything goes.
    pub schema: Option<Schema>,
    /// What `kubectl get` prints beside the name.
    pub columns: Vec<Column>,
    /// Where its size is, if it can be scaled.
    pub scale: Option<Scale>,
}

impl Served {
    /// An object as it is kept, as this kind and version shows it.
    pub(crate) fn shown<'v>(&self, kept: &'v Value) -> Cow<'v, Value> {
        let version = self.kind.api_version();
        if text(kept, "apiVersion") == version {
            return Cow::Borrowed(kept);
        }
        let mut shown = match events::is_other_form(&self.kind) {
            true => events::to_other(kept),
            false => kept.clone(),
        };
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("apiVersion".to_owned(), version.into());
        }
        Cow::Owned(shown)
    }

    /// As `shown`, of what is shared.
    pub(crate) fn show(&self, kept: &Arc<Value>) -> Arc<Value> {
        match self.shown(kept) {
            Cow::Borrowed(_) => Arc::clone(kept),
            Cow::Owned(shown) => Arc::new(shown),
        }
    }

    /// An event as this kind and version shows it.
    pub(crate) fn show_event(&self, event: &Arc<Event>) -> Arc<Event> {
        let before = event.before.as_ref();
        let all = before.into_iter().chain([&event.object]);
        if all
            .into_iter()
            .all(|kept| matches!(self.shown(kept), Cow::Borrowed(_)))
        {
            return Arc::clone(event);
        }
        Arc::new(Event {
            object: self.show(&event.object),
            before: before.map(|kept| self.show(kept)),
            ..Event::clone(event)
        })
    }

    /// An object of this kind and version, as it is kept.
    pub(crate) fn kept(&self, shown: Value) -> Value {
        match events::is_other_form(&self.kind) {
            true => events::to_core(&shown),
            false => shown,
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// `string`, `integer`, `date` …
    pub type_: String,
    /// Where the value is, as a JSON path.
    pub path: String,
    /// 0, or more for those that only a wide table has.
    pub priority: i64,
}

/// Where the size of an object is, as JSON paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many are wanted.
    pub spec: String,
    /// How many there are.
    pub status: String,
    /// Which these are: a text, or a selector of labels.
    pub selector: Option<String>,
}

/// All kinds, by group, version and plural.
#[derive(Debug, Default)]
pub struct Kinds(BTreeMap<(String, String, String), Arc<Served>>);

impl Kinds {
    /// The built-in kinds, and those that these definitions describe.
    pub fn new<'v>(definitions: impl Iterator<Item = &'v Value>) -> Kinds {
        let plain = |kind: Kind| Served {
            scale: (kind.kind == "StatefulSet").then(|| Scale {
                spec: ".spec.replicas".to_owned(),
                status: ".status.replicas".to_owned(),
                selector: Some(".spec.selector".to_owned()),
            }),
            kind,
            schema: None,
            columns: Vec::new(),
        };
        let custom = definitions.flat_map(of_definition);
        let all = built_in().into_iter().map(plain).chain(custom);
        Kinds(
            all.map(|served| {
                let Kind {
                    group,
                    version,
                    plural,
                    ..
                } = served.kind.clone();
                ((group, version, plural), Arc::new(served))
            })
            .collect(),
        )
    }

    /// A kind by its place in paths.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.0.get(&key).cloned()
    }

    /// All kinds, by group and version.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.0.values()
    }
}

/// The kinds of a definition, one for each version that is served.
fn of_definition(definition: &Value) -> Vec<Served> {
    let text = |value: &Value, path: &str| text(value, path).to_owned();
    let texts = |path: &str| -> Vec<String> {
        let found = at(definition, path).and_then(Value::as_array);
        let found = found.into_iter().flatten().filter_map(Value::as_str);
        found.map(str::to_owned).collect()
    };
    if !meta(definition, "deletionTimestamp").is_empty() {
        return Vec::new();
    }
    let kind = Kind {
        group: text(definition, "spec.group"),
        kind: text(definition, "spec.names.kind"),
        plural: text(definition, "spec.names.plural"),
        singular: text(definition, "spec.names.singular"),
        short_names: texts("spec.names.shortNames"),
        categories: texts("spec.names.categories"),
        is_namespaced: text(definition, "spec.scope") == "Namespaced",
        has_generation: true,
        ..Kind::default()
    };
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let versions = versions.into_iter().flatten();
    versions
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .map(|version| {
            let status = version.pointer("/subresources/status");
            let scale = version.pointer("/subresources/scale").map(|scale| Scale {
                spec: text(scale, "specReplicasPath"),
                status: text(scale, "statusReplicasPath"),
                selector: Some(text(scale, "labelSelectorPath")).filter(|path| !path.is_empty()),
            });
            let columns = version
                .get("additionalPrinterColumns")
                .and_then(Value::as_array);
            let columns = columns.into_iter().flatten().map(|column| Column {
                name: text(column, "name"),
                type_: text(column, "type"),
                path: text(column, "jsonPath"),
                priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            });
            Served {
                kind: Kind {
                    version: text(version, "name"),
                    has_status: status.is_some(),
                    ..kind.clone()
                },
                schema: version
                    .pointer("/schema/openAPIV3Schema")
                    .cloned()
                    .map(Schema::new),
                columns: columns.collect(),
                scale,
            }
        })
        .collect()
}
