//! What can be done with objects, whoever asks and however.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admit::{self, prepared, rewritten};
use crate::events::Sweep;
use crate::object::{self, Deletion, Part, meta, meta_mut};
use crate::patch;
use crate::selector::{Fields, Labels};
use crate::served::{Kinds, Served};
use crate::status::Status;
use crate::store::{Change, Event, EventKind, Key, Scope, Store, Watch};
use crate::weight;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Namespaces that are there from the beginning.
const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// A Kubernetes API over a store. Clones share everything.
#[derive(Clone, Debug)]
pub struct Api {
    store: Store,
    kinds: Arc<RwLock<Arc<Kinds>>>,
    sweep: Arc<Sweep>,
}

/// What a request is about.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind.
    pub served: Arc<Served>,
    /// The namespace; empty: all of them, or none.
    pub namespace: String,
    /// The name; empty: all of them.
    pub name: String,
}

impl Target {
    fn key(&self) -> Key {
        Key {
            resource: self.served.kind.kept_as(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    fn scope(&self) -> Scope {
        Scope {
            resource: self.served.kind.kept_as(),
            namespace: Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        }
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.served.kind, &self.name)
    }
}

/// How much is made of fields that nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// They go without a word.
    #[default]
    Dropped,
    /// The request is refused.
    Refused,
}

/// How an object is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Nothing is stored; the answer is as if it were.
    pub is_dry: bool,
    /// What becomes of unknown fields.
    pub unknown: Unknown,
}

/// A change of a part of an object.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// With the lists of the built-in kinds.
    Strategic(Value),
    /// What somebody wants an object to be; it is made if it is not there. Less
    /// than the server-side apply of Kubernetes: it is not kept who set what.
    Apply(Value),
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Arc<Value>>,
    /// The last of them, behind which a next list would go on; `None` when nothing
    /// is left.
    pub last: Option<Key>,
    /// How many are left.
    pub rest: usize,
    /// The revision at which it was so.
    pub revision: u64,
}

/// Which objects are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By labels.
    pub labels: Labels,
    /// By fields.
    pub fields: Fields,
}

impl Selection {
    /// Whether an object is meant.
    pub fn holds(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// An event as it looks to somebody who sees only what is meant: an object
    /// that comes to be meant is new to him, and one that is no more is gone.
    pub fn of_event(&self, event: &Event) -> Option<(EventKind, Arc<Value>)> {
        let before = event
            .before
            .as_ref()
            .is_some_and(|before| self.holds(before));
        let after = event.kind != EventKind::Deleted && self.holds(&event.object);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        if let (EventKind::Deleted, true, Some(before)) =
            (kind, event.kind != EventKind::Deleted, &event.before)
        {
            // As it was when it was last meant, at the version at which it no longer is.
            let mut last = Value::clone(before);
            let version = meta(&event.object, "resourceVersion");
            meta_mut(&mut last).insert("resourceVersion".to_owned(), json!(version));
            return Some((kind, Arc::new(last)));
        }
        Some((kind, Arc::clone(&event.object)))
    }
}

impl Api {
    /// Opens the API over a store in a file.
    ///
    /// # Errors
    /// When the store can't be opened or written.
    pub async fn open(path: &Path) -> Result<Api, Status> {
        let store = Store::open(path)?;
        let api = Api {
            store,
            kinds: Arc::default(),
            sweep: Arc::default(),
        };
        api.learn_kinds();
        for name in NAMESPACES {
            api.make_namespace(name).await?;
        }
        Ok(api)
    }

    /// Makes a namespace unless it is there.
    ///
    /// # Errors
    /// When it can't be written.
    pub async fn make_namespace(&self, name: &str) -> Result<(), Status> {
        let target = Target {
            served: self
                .kind("", "v1", "namespaces")
                .ok_or_else(Status::no_such_path)?,
            namespace: String::new(),
            name: name.to_owned(),
        };
        let body = json!({"metadata": {"name": name}});
        match self.create(&target, body, Writing::default()).await {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }

    /// The kinds that are served now.
    pub fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A kind by its place in paths.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        self.kinds().get(group, version, plural)
    }

    /// Learns the kinds that the definitions describe by now.
    fn learn_kinds(&self) {
        let scope = Scope {
            resource: DEFINITIONS.to_owned(),
            namespace: None,
        };
        let (definitions, _) = self.store.list(&scope, None, usize::MAX);
        let kinds = Kinds::new(definitions.iter().map(|(_, definition)| &**definition));
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds);
    }

    pub(crate) fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// The revision that is in force.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// An object.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub fn get(&self, target: &Target) -> Result<Arc<Value>, Status> {
        let kept = self.store.get(&target.key());
        let kept = kept.ok_or_else(|| target.not_found())?;
        Ok(target.served.show(&kept))
    }

    /// Objects that are meant, behind one of them and at most so many.
    pub fn list(
        &self,
        target: &Target,
        selection: &Selection,
        after: Option<&Key>,
        limit: usize,
    ) -> Page {
        let (found, revision) = self.store.list(&target.scope(), after, usize::MAX);
        let mut found = found
            .into_iter()
            .map(|(key, kept)| (key, target.served.show(&kept)))
            .filter(|(_, object)| selection.holds(object));
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let last = page.last().map(|(key, _)| key.clone());
        let rest = found.count();
        Page {
            objects: page.into_iter().map(|(_, object)| object).collect(),
            last: last.filter(|_| rest > 0),
            rest,
            revision,
        }
    }

    /// Watches objects from behind a revision.
    ///
    /// # Errors
    /// 410 when the history does not reach back so far.
    pub fn watch(&self, target: &Target, after: u64) -> Result<Watch, Status> {
        Ok(self.store.watch(target.scope(), after)?)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// When it can't be, or is there already.
    pub async fn create(
        &self,
        target: &Target,
        body: Value,
        writing: Writing,
    ) -> Result<Arc<Value>, Status> {
        let kind = &target.served.kind;
        let body = object::checked(kind, &target.namespace, body)?;
        self.takes_objects(target, meta(&body, "name"))?;
        let made = admit::created(&target.served, body, writing.unknown)?;
        let target = Target {
            name: meta(&made, "name").to_owned(),
            ..target.clone()
        };
        if kind.kept_as() == "events" {
            self.forget_old_events().await;
        }
        self.change(&target, writing, move |served, old| match old {
            Some(old) => Err(Status::already_exists(&served.kind, old)),
            None => Ok(Change::Put(made)),
        })
        .await
    }

    /// Objects are made only in namespaces that are there and stay.
    pub(crate) fn takes_objects(&self, target: &Target, name: &str) -> Result<(), Status> {
        let kind = &target.served.kind;
        if !kind.is_namespaced {
            return Ok(());
        }
        let namespaces = self
            .kind("", "v1", "namespaces")
            .ok_or_else(Status::no_such_path)?;
        let namespace = self.get(&Target {
            served: namespaces,
            namespace: String::new(),
            name: target.namespace.clone(),
        })?;
        if !meta(&namespace, "deletionTimestamp").is_empty() {
            return Err(Status::namespace_ends(kind, name, &target.namespace));
        }
        Ok(())
    }

    /// Writes an object anew.
    ///
    /// # Errors
    /// 404 when it is not there; when it can't be, or is another.
    pub async fn replace(
        &self,
        target: &Target,
        part: Part,
        body: Value,
        writing: Writing,
    ) -> Result<Arc<Value>, Status> {
        let body = object::checked(&target.served.kind, &target.namespace, body)?;
        let missing = target.not_found();
        self.change(target, writing, move |served, old| {
            let old = old.ok_or(missing)?;
            // Who writes a custom object anew has to say which version he has seen.
            if served.schema.is_some() && meta(&body, "resourceVersion").is_empty() {
                return Err(Status::no_version(&served.kind, meta(old, "name")));
            }
            let new = prepared(served, body, writing.unknown)?;
            rewritten(served, old, new, part)
        })
        .await
    }

    /// Changes a part of an object.
    ///
    /// # Errors
    /// 404 when it is not there; when the patch, or what it makes, can't be.
    pub async fn patch(
        &self,
        target: &Target,
        part: Part,
        patch: Patch,
        writing: Writing,
    ) -> Result<Arc<Value>, Status> {
        if let Patch::Apply(wanted) = patch {
            return self.apply(target, part, wanted, writing).await;
        }
        let missing = target.not_found();
        let namespace = target.namespace.clone();
        self.change(target, writing, move |served, old| {
            let old = old.ok_or(missing)?;
            let mut new = old.clone();
            let name = meta(old, "name");
            let refuse = |error: patch::Inapplicable| {
                let message = format!("can't patch {name}: {error}");
                Status::bad_request(message).of_patch()
            };
            match patch {
                Patch::Json(steps) => patch::json(&mut new, steps).map_err(refuse)?,
                Patch::Merge(change) => patch::merge(&mut new, &change),
                Patch::Strategic(change) | Patch::Apply(change) => {
                    patch::strategic(&mut new, &change).map_err(refuse)?;
                }
            }
            let new = object::checked(&served.kind, &namespace, new)?;
            object::is_same(&served.kind, old, &new)?;
            let new = prepared(served, new, writing.unknown).map_err(Status::of_patch)?;
            rewritten(served, old, new, part)
        })
        .await
    }

    /// Deletes an object, at once or when nothing holds it any more.
    ///
    /// # Errors
    /// 404 when it is not there, 409 when it is another.
    pub async fn delete(
        &self,
        target: &Target,
        deletion: Deletion,
        writing: Writing,
    ) -> Result<Arc<Value>, Status> {
        let missing = target.not_found();
        self.change(target, writing, move |served, old| {
            object::delete(
                &served.kind,
                old.ok_or(missing)?,
                &deletion,
                Timestamp::now(),
            )
        })
        .await
    }

    pub(crate) async fn change(
        &self,
        target: &Target,
        writing: Writing,
        decide: impl FnOnce(&Served, Option<&Value>) -> Result<Change, Status> + Send + 'static,
    ) -> Result<Arc<Value>, Status> {
        let served = Arc::clone(&target.served);
        let key = target.key();
        let is_definition = key.resource == DEFINITIONS;
        let decide = move |served: &Served, old: Option<&Value>| {
            let change = decide(served, old)?;
            if let Change::Put(object) = &change {
                weight::check(object)?;
            }
            Ok::<_, Status>(change)
        };
        if writing.is_dry {
            let old = self.store.get(&key).map(|kept| served.show(&kept));
            return match decide(&served, old.as_deref())? {
                Change::Put(object) | Change::Delete(object) => Ok(Arc::new(object)),
                Change::Keep => old.ok_or_else(|| target.not_found()),
            };
        }
        let decide = move |kept: Option<&Value>| {
            let old = kept.map(|kept| served.shown(kept));
            Ok::<_, Status>(match decide(&served, old.as_deref())? {
                Change::Put(object) => Change::Put(served.kept(object)),
                Change::Delete(object) => Change::Delete(served.kept(object)),
                Change::Keep => Change::Keep,
            })
        };
        let written = self.store.write(key, decide).await?;
        if is_definition {
            self.learn_kinds();
        }
        let written = written.ok_or_else(|| target.not_found())?;
        Ok(target.served.show(&written))
    }
}
