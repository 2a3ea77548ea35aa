//! What a container starts with: the environment, as kubelets make it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::{Api, Client, ResourceExt};

/// The variables of a container, by name.
pub type Environment = BTreeMap<String, String>;

/// The data that environments are made of, by the names of what holds them. An
/// object that does not exist is not here.
#[derive(Debug, Default)]
pub(super) struct Sources {
    config_maps: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Sources {
    /// Reads what a container refers to, as it is now.
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        container: &Container,
    ) -> Result<Sources> {
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let mut sources = Sources::default();
        let (map_names, secret_names) = references(container);
        for name in map_names {
            if let Some(map) = config_maps.get_opt(&name).await? {
                sources
                    .config_maps
                    .insert(name, map.data.unwrap_or_default());
            }
        }
        for name in secret_names {
            if let Some(secret) = secrets.get_opt(&name).await? {
                let data = secret.data.unwrap_or_default().into_iter();
                let data = data
                    .map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned()))
                    .collect();
                sources.secrets.insert(name, data);
            }
        }
        Ok(sources)
    }
}

/// The ConfigMaps and Secrets that a container refers to.
fn references(container: &Container) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for from in container.env_from.iter().flatten() {
        maps.extend(from.config_map_ref.iter().map(|source| source.name.clone()));
        secrets.extend(from.secret_ref.iter().map(|source| source.name.clone()));
    }
    let variables = container.env.iter().flatten();
    for from in variables.filter_map(|variable| variable.value_from.as_ref()) {
        maps.extend(
            from.config_map_key_ref
                .iter()
                .map(|source| source.name.clone()),
        );
        secrets.extend(from.secret_key_ref.iter().map(|source| source.name.clone()));
    }
    (maps, secrets)
}

/// The environment of a container; `Err` says what is missing, in the words of
/// a kubelet's CreateContainerConfigError.
pub(super) fn environment(
    pod: &Pod,
    ip: &str,
    container: &Container,
    sources: &Sources,
) -> Result<Environment, String> {
    let mut result = Environment::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let mut take = |kind, name: &String, optional: Option<bool>, all: &BTreeMap<_, _>| {
            let data: Option<&BTreeMap<String, String>> = all.get(name);
            if data.is_none() && optional != Some(true) {
                return Err(format!("{kind} \"{name}\" not found"));
            }
            let named = data
                .into_iter()
                .flatten()
                .map(|(key, value)| (format!("{prefix}{key}"), value.clone()));
            result.extend(named);
            Ok(())
        };
        if let Some(source) = &from.config_map_ref {
            take(
                "configmap",
                &source.name,
                source.optional,
                &sources.config_maps,
            )?;
        }
        if let Some(source) = &from.secret_ref {
            take("secret", &source.name, source.optional, &sources.secrets)?;
        }
    }
    // What envFrom brings is not seen by $(…).
    let mut own = Environment::new();
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) if !value.is_empty() => Some(expand(value, &own)),
            (_, Some(from)) => source(pod, ip, from, sources)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            own.insert(variable.name.clone(), value);
        }
    }
    result.extend(own);
    Ok(result)
}

/// The value that a reference gives; `None` when it is optional and missing.
fn source(
    pod: &Pod,
    ip: &str,
    from: &EnvVarSource,
    sources: &Sources,
) -> Result<Option<String>, String> {
    let find = |kind, name: &String, key: &String, optional: Option<bool>, all: &BTreeMap<_, _>| {
        let data: Option<&BTreeMap<String, String>> = all.get(name);
        match data.map(|data| data.get(key)) {
            Some(Some(value)) => Ok(Some(value.clone())),
            _ if optional == Some(true) => Ok(None),
            Some(None) => Err(format!("couldn't find key {key} in {kind} {name}")),
            None => Err(format!("{kind} \"{name}\" not found")),
        }
    };
    if let Some(from) = &from.config_map_key_ref {
        return find(
            "configmap",
            &from.name,
            &from.key,
            from.optional,
            &sources.config_maps,
        );
    }
    if let Some(from) = &from.secret_key_ref {
        return find(
            "secret",
            &from.name,
            &from.key,
            from.optional,
            &sources.secrets,
        );
    }
    let path = from
        .field_ref
        .as_ref()
        .map(|field| field.field_path.as_str());
    let spec = pod.spec.as_ref();
    Ok(Some(match path {
        Some("status.podIP" | "status.podIPs") => ip.to_owned(),
        Some("metadata.name") => pod.name_any(),
        Some("metadata.namespace") => pod.namespace().unwrap_or_default(),
        Some("metadata.uid") => pod.uid().unwrap_or_default(),
        Some("spec.nodeName") => spec
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        other => return Err(format!("the puppet can't resolve {other:?}")),
    }))
}

/// `$(NAME)` becomes the variable, `$$` a dollar sign; a name that nobody knows
/// stays as it is.
fn expand(text: &str, known: &Environment) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        let named = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'));
        match named.and_then(|(name, after)| Some((known.get(name)?, after))) {
            Some((value, after)) => {
                result.push_str(value);
                rest = after;
            }
            None => {
                result.push('$');
                rest = after;
            }
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_expanded_as_kubelets_do() {
        let known = Environment::from([("A".to_owned(), "1".to_owned())]);
        for (text, wanted) in [
            ("$(A):2", "1:2"),
            ("$$(A)", "$(A)"),
            ("$(B)$(A)", "$(B)1"),
            ("$(A", "$(A"),
            ("5$", "5$"),
            ("$$$(A)", "$1"),
        ] {
            assert_eq!(expand(text, &known), wanted, "{text}");
        }
    }

    #[test]
    #[expect(clippy::unwrap_used, reason = "a test may fail")]
    fn a_required_key_keeps_a_container_from_starting() {
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c",
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "env": [
                {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                {"name": "P", "value": "p"},
            ],
        }))
        .unwrap();
        let pod = Pod::default();
        let mut sources = Sources::default();
        let error = environment(&pod, "", &container, &sources).unwrap_err();
        assert!(error.contains("not found"), "{error}");
        let data = BTreeMap::from([("P".to_owned(), "other".to_owned())]);
        sources.config_maps.insert("m".to_owned(), data);
        let error = environment(&pod, "", &container, &sources).unwrap_err();
        assert!(error.contains("key k"), "{error}");
        let data = sources.config_maps.get_mut("m").unwrap();
        data.insert("k".to_owned(), "1".to_owned());
        let env = environment(&pod, "", &container, &sources).unwrap();
        let pairs: Vec<_> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        // The container's own variables win over those of envFrom.
        assert_eq!(pairs, [("K", "1"), ("P", "p"), ("k", "1")]);
    }
}
