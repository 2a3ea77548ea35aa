//! All objects of all kinds that the API serves, by their metadata.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use futures::future::select_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PartialObjectMeta;
use kube::core::DynamicObject;
use kube::discovery::{ApiResource, Discovery, Scope, verbs};
use kube::{Api, Client};

use super::mirror::{Key, Mirror, Retry};

/// A kind in the version in which it is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) version: String,
    pub(crate) is_namespaced: bool,
}

impl Kind {
    /// The API of its objects in a namespace, or of those that have none.
    pub(crate) fn api(&self, client: Client, namespace: &str) -> Api<DynamicObject> {
        match self.is_namespaced {
            true => Api::namespaced_with(client, namespace, &self.resource()),
            false => Api::all_with(client, &self.resource()),
        }
    }

    /// As in messages: the plural and the group.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: match self.group.as_str() {
                "" => self.version.clone(),
                group => format!("{group}/{}", self.version),
            },
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

/// What is known of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    pub(crate) uid: String,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) finalizers: Vec<String>,
    /// Whether its deletion has begun.
    pub(crate) is_going: bool,
}

impl Known {
    fn of(meta: ObjectMeta) -> Option<Known> {
        Some(Known {
            uid: meta.uid?,
            owners: meta.owner_references.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            is_going: meta.deletion_timestamp.is_some(),
        })
    }
}

/// Follows all objects of all kinds, in one namespace or everywhere. Events are
/// left out: they own nothing and are owned by nobody.
pub(crate) struct Census {
    client: Client,
    namespace: Option<String>,
    /// Kinds that are there without a definition.
    built_in: BTreeSet<Kind>,
    definitions: Mirror<Option<Kind>>,
    kinds: BTreeMap<Kind, Mirror<Known>>,
    /// Uids of objects whose kind has gone, and they with it.
    lost: BTreeSet<String>,
}

impl Census {
    /// Begins; it asks until the API says what it serves.
    pub(crate) async fn begin(client: Client, namespace: Option<String>) -> Census {
        let mut retry = Retry::default();
        let discovery = loop {
            match Discovery::new(client.clone()).run().await {
                Ok(discovery) => break discovery,
                Err(error) => retry.note("discovery", Err(error)),
            }
            retry.due().await;
        };
        Census {
            built_in: discovered(&discovery),
            definitions: Mirror::new(Api::all(client.clone()), |definition| {
                Some(defined(&definition))
            }),
            kinds: BTreeMap::new(),
            lost: BTreeSet::new(),
            client,
            namespace,
        }
    }

    /// Whether all that was there at the beginning has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.definitions.is_complete() && self.kinds.values().all(Mirror::is_complete)
    }

    /// Waits until something has changed. It may be dropped at any time.
    pub(crate) async fn changed(&mut self) {
        let kinds = self.kinds.values_mut().map(|kind| kind.changed().boxed());
        let definitions = self.definitions.changed().boxed();
        select_all(kinds.chain([definitions])).await;
        // Kinds are watched apart: what led to this change was shown before it,
        // but perhaps not looked at yet.
        self.definitions.catch_up();
        for kind in self.kinds.values_mut() {
            kind.catch_up();
        }
        self.follow_definitions();
    }

    /// Begins to follow new kinds, and leaves those that have gone.
    fn follow_definitions(&mut self) {
        if !self.definitions.is_complete() {
            return;
        }
        let defined: BTreeSet<Kind> = { self.definitions.objects().values() }
            .flatten()
            .cloned()
            .collect();
        // Discovery shows kinds of definitions too; these come and go.
        let is_defined = |kind: &Kind| {
            { defined.iter() }.any(|other| (&other.group, &other.kind) == (&kind.group, &kind.kind))
        };
        self.built_in.retain(|kind| !is_defined(kind));
        let wanted: BTreeSet<&Kind> = { self.built_in.iter().chain(&defined) }
            .filter(|kind| self.namespace.is_none() || kind.is_namespaced)
            .collect();
        for kind in &wanted {
            if !self.kinds.contains_key(kind) {
                let mirror = self.mirror(kind);
                self.kinds.insert((*kind).clone(), mirror);
            }
        }
        let gone: Vec<Kind> = { self.kinds.keys() }
            .filter(|kind| !wanted.contains(kind))
            .cloned()
            .collect();
        for kind in gone {
            let mirror = self.kinds.remove(&kind);
            let objects = mirror.iter().flat_map(|mirror| mirror.objects().values());
            self.lost.extend(objects.map(|known| known.uid.clone()));
        }
    }

    fn mirror(&self, kind: &Kind) -> Mirror<Known> {
        let (client, resource) = (self.client.clone(), kind.resource());
        let api: Api<PartialObjectMeta<DynamicObject>> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Mirror::new(api, |object| Known::of(object.metadata))
    }

    /// The kinds, and their objects.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&Kind, &BTreeMap<Key, Known>)> {
        self.kinds
            .iter()
            .map(|(kind, mirror)| (kind, mirror.objects()))
    }

    /// The uids of those who went with their kind, as long as somebody asks.
    pub(crate) fn lost(&self) -> &BTreeSet<String> {
        &self.lost
    }

    /// Remembers of those who went with their kind only some.
    pub(crate) fn retain_lost(&mut self, is_needed: impl Fn(&str) -> bool) {
        self.lost.retain(|uid| is_needed(uid));
    }
}

fn discovered(discovery: &Discovery) -> BTreeSet<Kind> {
    let resources = discovery
        .groups()
        .flat_map(|group| group.recommended_resources());
    let kinds = resources.filter(|(resource, can)| {
        resource.plural != "events"
            && [verbs::LIST, verbs::WATCH, verbs::DELETE]
                .iter()
                .all(|verb| can.supports_operation(verb))
    });
    let kinds = kinds.map(|(resource, can)| Kind {
        group: resource.group,
        kind: resource.kind,
        plural: resource.plural,
        version: resource.version,
        is_namespaced: can.scope == Scope::Namespaced,
    });
    kinds.collect()
}

/// The kind of a definition that is in force. Taken from the definition itself,
/// since discovery may lag behind it.
fn defined(definition: &CustomResourceDefinition) -> Option<Kind> {
    let spec = &definition.spec;
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    let is_established = conditions
        .iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True");
    let served = spec.versions.iter().filter(|version| version.served);
    let version = served.max_by_key(|version| version.storage)?;
    is_established.then(|| Kind {
        group: spec.group.clone(),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
        version: version.name.clone(),
        is_namespaced: spec.scope == "Namespaced",
    })
}
