//! What is made from the manifests in `deploy/` that are written by hand.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{crds, schema};

const OPERATOR: &str = include_str!("../../../deploy/v1/operator.yaml");
const CONTROLLERS: &str = include_str!("../../../deploy/extensions/controllers.yaml");

/// The objects that these manifests install.
fn objects() -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (path, text) in [
        ("operator.yaml", OPERATOR),
        ("controllers.yaml", CONTROLLERS),
    ] {
        let more: Vec<Value> = serde_saphyr::from_multiple(text).context(path)?;
        objects.extend(more);
    }
    Ok(objects)
}

/// The roles, in order.
fn roles(objects: &[Value]) -> impl Iterator<Item = &Value> {
    let is_role = |object: &&Value| schema::text(object, "/kind").ends_with("Role");
    objects.iter().filter(is_role)
}

/// The rules of every role by its name, which the chart begins in its own way.
pub fn rules() -> Result<String> {
    let objects = objects()?;
    let named = |role: &Value| {
        let name = schema::text(role, "/metadata/name");
        let name = name.strip_prefix("paddle-").unwrap_or(name);
        let rules = role.get("rules").cloned().unwrap_or_default();
        (name.to_owned(), crds::canonical(rules))
    };
    let rules: BTreeMap<_, _> = roles(&objects).map(named).collect();
    let header = "\
# The rules of the roles in deploy/v1/operator.yaml and deploy/extensions/controllers.yaml, which
# say why. Made from them by `cargo xtask generate`; changes here are overwritten.
";
    Ok(format!("{header}{}\n", crds::document(&rules)?.trim_end()))
}

/// How the manager is replaced where it can take no lease.
const RECREATE: &str = "  replicas: 1
  # The lease of --leader-elect is taken by server-side apply, which came with Kubernetes 1.16. So
  # at an upgrade the old manager ends before the new one starts.
  strategy:
    type: Recreate
";

/// The manifest of the operator for Kubernetes before 1.16, which knows no seccomp profiles and
/// no server-side apply.
pub fn v1beta1_operator() -> String {
    let header = "# Made from deploy/v1/operator.yaml by `cargo xtask generate`.\n";
    let text = OPERATOR.replace("deploy/v1/", "deploy/v1beta1/");
    let documents = text.split("---\n");
    let without_lease = documents.filter(|document| !document.contains("leader-election"));
    let text = Vec::from_iter(without_lease).join("---\n");
    let text = text.replace("  replicas: 1\n", RECREATE);
    let unknown = [
        "seccompProfile:",
        "type: RuntimeDefault",
        "- --leader-elect",
    ];
    let lines = text.lines().filter(|line| !unknown.contains(&line.trim()));
    let lines = lines.map(|line| format!("{line}\n"));
    std::iter::once(header.to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests;
