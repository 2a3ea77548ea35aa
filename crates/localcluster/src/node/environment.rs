//! The variables of a container, from wherever they come.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvVarSource, ObjectFieldSelector, Pod, ResourceFieldSelector,
};
use kube::Client;

use super::given::Given;
use super::lifecycle::{Trouble, containers};
use quantity::Quantity;

/// Where programs are looked for, if the image does not say.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// What a variable may refer to.
pub struct Sources<'a> {
    /// Where ConfigMaps and Secrets are.
    pub client: &'a Client,
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
}

impl Sources<'_> {
    /// The variables, those of the image first.
    ///
    /// # Errors
    /// When something is missing, in the words of a kubelet.
    pub async fn variables(&self, image: &Variables, hostname: &str) -> Result<Variables, Trouble> {
        let mut variables = Variables::from([
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOSTNAME".to_owned(), hostname.to_owned()),
        ]);
        variables.extend(image.clone());
        for source in self.container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let found = if let Some(from) = &source.config_map_ref {
                self.config_map(&from.name, from.optional).await?
            } else if let Some(from) = &source.secret_ref {
                self.secret(&from.name, from.optional).await?
            } else {
                Variables::new()
            };
            let found = found.into_iter();
            variables.extend(found.map(|(name, value)| (format!("{prefix}{name}"), value)));
        }
        // Only what comes before a variable can be part of it.
        let mut own = Variables::new();
        for variable in self.container.env.iter().flatten() {
            let value = match &variable.value_from {
                None => {
                    let text = variable.value.as_deref().unwrap_or_default();
                    Some(expand(text, &[&own, &variables]))
                }
                Some(source) => self.value(source).await?,
            };
            if let Some(value) = value {
                own.insert(variable.name.clone(), value);
            }
        }
        variables.extend(own);
        Ok(variables)
    }

    async fn value(&self, source: &EnvVarSource) -> Result<Option<String>, Trouble> {
        if let Some(field) = &source.field_ref {
            return Ok(Some(field_of(self.pod, field)?));
        }
        if let Some(field) = &source.resource_field_ref {
            return Ok(Some(resource_of(self.pod, self.container, field)?));
        }
        let (kind, name, key, optional, found) = if let Some(from) = &source.config_map_key_ref {
            let found = self.config_map(&from.name, from.optional).await?;
            ("ConfigMap", &from.name, &from.key, from.optional, found)
        } else if let Some(from) = &source.secret_key_ref {
            let found = self.secret(&from.name, from.optional).await?;
            ("Secret", &from.name, &from.key, from.optional, found)
        } else {
            return Ok(None);
        };
        match found.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None if optional == Some(true) => Ok(None),
            None => {
                let namespace = self.namespace();
                let message = format!("couldn't find key {key} in {kind} {namespace}/{name}");
                Err(unfit(message))
            }
        }
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn given(&self) -> Given<'_> {
        Given {
            client: self.client,
            pod: self.pod,
        }
    }

    async fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Variables, Trouble> {
        let map = self.given().config_map(name, optional).await;
        Ok(map.map_err(unfit)?.data.unwrap_or_default())
    }

    async fn secret(&self, name: &str, optional: Option<bool>) -> Result<Variables, Trouble> {
        let secret = self.given().secret(name, optional).await.map_err(unfit)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(secret
            .into_iter()
            .map(|(key, bytes)| (key, text(bytes)))
            .collect())
    }
}

/// The container can't be as it is asked for.
fn unfit(message: impl Into<String>) -> Trouble {
    Trouble::new("CreateContainerConfigError", message)
}

/// A field of the pod.
///
/// # Errors
/// When there is no such field.
pub fn field_of(pod: &Pod, field: &ObjectFieldSelector) -> Result<String, Trouble> {
    let path = field.field_path.as_str();
    let meta = &pod.metadata;
    let status = pod.status.as_ref();
    let spec = pod.spec.as_ref();
    let entry = |map: Option<&BTreeMap<String, String>>, name: &str| {
        let key = path
            .strip_prefix(name)?
            .strip_prefix("['")?
            .strip_suffix("']")?;
        Some(
            map.and_then(|map| map.get(key))
                .cloned()
                .unwrap_or_default(),
        )
    };
    if let Some(value) = entry(meta.labels.as_ref(), "metadata.labels")
        .or_else(|| entry(meta.annotations.as_ref(), "metadata.annotations"))
    {
        return Ok(value);
    }
    let value = match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "metadata.labels" => Some(lines(meta.labels.as_ref())),
        "metadata.annotations" => Some(lines(meta.annotations.as_ref())),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" | "status.hostIPs" => status.and_then(|status| status.host_ip.clone()),
        "status.podIP" | "status.podIPs" => status.and_then(|status| status.pod_ip.clone()),
        _ => {
            let message = format!("unsupported fieldPath: {path}");
            return Err(unfit(message));
        }
    };
    Ok(value.unwrap_or_default())
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten();
    let lines = lines.map(|(key, value)| format!("{key}={value:?}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What a container asks for or is limited to.
fn resource_of(
    pod: &Pod,
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, Trouble> {
    let container = match &field.container_name {
        Some(name) => containers(pod).find(|container| container.name == *name),
        None => Some(container),
    };
    let resources = container.and_then(|container| container.resources.as_ref());
    let (kind, name) = field.resource.split_once('.').unwrap_or_default();
    let amounts = resources.and_then(|resources| match kind {
        "limits" => resources.limits.as_ref(),
        _ => resources.requests.as_ref(),
    });
    let amount = amounts.and_then(|amounts| amounts.get(name));
    let read =
        |text: &str| Quantity::parse(text).ok_or_else(|| unfit(format!("{text:?} is no quantity")));
    let amount = read(amount.map_or("0", |amount| amount.0.as_str()))?;
    let divisor = field.divisor.as_ref().map(|divisor| divisor.0.as_str());
    let divisor = read(divisor.filter(|divisor| *divisor != "0").unwrap_or("1"))?;
    Ok(amount.divided_up(divisor).to_string())
}

/// Replaces `$(NAME)`; `$$` is a dollar.
pub fn expand(text: &str, variables: &[&Variables]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let name = behind
            .strip_prefix('(')
            .and_then(|name| name.split_once(')'));
        if let Some(after) = behind.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = name {
            let value = variables.iter().find_map(|variables| variables.get(name));
            match value {
                Some(value) => out.push_str(value),
                // One that is not known stays as it is written.
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
            rest = behind;
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced() {
        let known = Variables::from([("A".to_owned(), "1".to_owned())]);
        for (text, want) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &[&known]), want, "{text}");
        }
    }
}
