//! Kinds: how they are called, where they live and what can be done with them.

/// A kind in one version.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Kind {
    /// The group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, as in `kind:`.
    pub kind: String,
    /// The resource, as in paths.
    pub plural: String,
    /// The resource in the singular.
    pub singular: String,
    /// What users type instead.
    pub short_names: Vec<String>,
    /// Groups of kinds to which it belongs, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
    /// Whether `/status` is written apart from the rest.
    pub has_status: bool,
    /// Whether `metadata.generation` counts the changes of its spec.
    pub has_generation: bool,
}

impl Kind {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The options of a request, which are refused like objects.
    pub(crate) fn of_options(kind: &str) -> Kind {
        Kind {
            group: "meta.k8s.io".to_owned(),
            kind: kind.to_owned(),
            ..Kind::default()
        }
    }

    /// Whether lists can be narrowed by this field.
    pub(crate) fn is_selected_by(&self, path: &str) -> bool {
        let own: &[&str] = match (self.group.as_str(), self.kind.as_str()) {
            ("", "Pod") => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ],
            ("", "Node") => &["spec.unschedulable"],
            ("", "Namespace") => &["status.phase"],
            ("", "Secret") => &["type"],
            ("", "Service") => &["spec.clusterIP", "spec.type"],
            ("", "Event") => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            ("events.k8s.io", "Event") => &[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ],
            _ => &[],
        };
        ["metadata.name", "metadata.namespace"].contains(&path) || own.contains(&path)
    }

    /// Its resource with the group: the name of the kind among all, in whatever
    /// version.
    pub fn resource(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// The resource under which its objects are kept: events are the same in both
    /// their groups.
    pub(crate) fn kept_as(&self) -> String {
        match self.resource() {
            events if events == "events.events.k8s.io" => "events".to_owned(),
            resource => resource,
        }
    }

    /// The kind with the group, as messages have it.
    pub fn qualified_kind(&self) -> String {
        match crate::events::is_other_form(self) {
            true => self.kind.clone(),
            false => qualified(&self.kind, &self.group),
        }
    }
}

fn qualified(name: &str, group: &str) -> String {
    match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}

/// The kinds that are there without a definition: those that a cluster for
/// training needs.
pub fn built_in() -> Vec<Kind> {
    vec![
        core("ConfigMap", "configmaps", &["cm"]),
        core("Event", "events", &["ev"]),
        core("Namespace", "namespaces", &["ns"])
            .with_status()
            .of_the_cluster(),
        core("Node", "nodes", &["no"])
            .with_status()
            .of_the_cluster(),
        core("PersistentVolume", "persistentvolumes", &["pv"])
            .with_status()
            .of_the_cluster(),
        core("PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]).with_status(),
        core("Pod", "pods", &["po"])
            .with_status()
            .with_generation()
            .in_all(),
        core("Secret", "secrets", &[]),
        core("Service", "services", &["svc"]).with_status().in_all(),
        core("ServiceAccount", "serviceaccounts", &["sa"]),
        core("StatefulSet", "statefulsets", &["sts"])
            .in_group("apps")
            .with_status()
            .with_generation()
            .in_all(),
        core("Lease", "leases", &[]).in_group("coordination.k8s.io"),
        core("Event", "events", &["ev"]).in_group("events.k8s.io"),
        core("CSIDriver", "csidrivers", &[])
            .in_group("storage.k8s.io")
            .of_the_cluster(),
        core("StorageClass", "storageclasses", &["sc"])
            .in_group("storage.k8s.io")
            .of_the_cluster(),
        core(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            &["crd", "crds"],
        )
        .in_group("apiextensions.k8s.io")
        .with_status()
        .with_generation()
        .of_the_cluster()
        .in_category("api-extensions"),
    ]
}

fn core(kind: &str, plural: &str, short_names: &[&str]) -> Kind {
    Kind {
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
        is_namespaced: true,
        ..Kind::default()
    }
}

impl Kind {
    fn in_group(self, group: &str) -> Kind {
        Kind {
            group: group.to_owned(),
            ..self
        }
    }

    fn with_status(self) -> Kind {
        Kind {
            has_status: true,
            ..self
        }
    }

    fn with_generation(self) -> Kind {
        Kind {
            has_generation: true,
            ..self
        }
    }

    fn of_the_cluster(self) -> Kind {
        Kind {
            is_namespaced: false,
            ..self
        }
    }

    fn in_all(self) -> Kind {
        self.in_category("all")
    }

    fn in_category(self, category: &str) -> Kind {
        Kind {
            categories: vec![category.to_owned()],
            ..self
        }
    }
}
