//! The service accounts of the managers: what the manifests in `deploy/` let them do, and
//! what they did by the audit log of a kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use kube::Config;
use serde_json::Value;

/// The account of the manager of PaddleJobs.
pub const PADDLEJOB: &str = "paddle-manager-sa";
/// The account of the manager of SampleSets.
pub const SAMPLESET: &str = "paddle-sampleset-sa";
/// The account of the manager of SampleJobs.
pub const SAMPLEJOB: &str = "paddle-samplejob-sa";

/// How the users begin that service accounts are.
const PREFIX: &str = "system:serviceaccount:";

/// The manifests of all managers.
pub const MANIFESTS: [&str; 2] = ["v1/operator.yaml", "extensions/controllers.yaml"];

/// The user that an account is.
pub fn user(account: &str) -> String {
    format!("{PREFIX}paddle-system:{account}")
}

/// The account of a manager that a user is, in whatever namespace that is installed.
fn account(user: &str) -> Option<&str> {
    let (_, account) = user.strip_prefix(PREFIX)?.split_once(':')?;
    let is_ours = [PADDLEJOB, SAMPLESET, SAMPLEJOB].contains(&account);
    is_ours.then_some(account)
}

/// How an account reaches an API; one without roles takes it for whoever asks.
pub(crate) fn config_of(account: &str, config: &Config) -> Config {
    let mut config = config.clone();
    config.auth_info.impersonate = Some(user(account));
    config
}

/// The objects in a file of `deploy/`.
///
/// # Errors
/// When it can't be read.
pub fn manifest(path: &str) -> Result<Vec<Value>> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let text = std::fs::read_to_string(deploy.join(path)).context(path.to_owned())?;
    serde_saphyr::from_multiple(&text).context(path.to_owned())
}

/// What accounts did, or may do: `patch pods`, `update paddlejobs.batch.paddlepaddle.org/status`.
pub type Deeds = BTreeMap<String, BTreeSet<String>>;

/// What the manifests let accounts do. Roles that are bound to nobody are for users, and do not
/// count.
///
/// # Errors
/// When a manifest can't be read.
pub fn allowed() -> Result<Deeds> {
    let mut objects = Vec::new();
    for path in MANIFESTS {
        objects.extend(manifest(path)?);
    }
    let mut allowed = Deeds::new();
    for binding in &objects {
        let bound = text(binding, "/roleRef/name");
        let kind = text(binding, "/roleRef/kind");
        let is_bound =
            |role: &&Value| text(role, "/kind") == kind && text(role, "/metadata/name") == bound;
        let role = objects.iter().find(is_bound);
        let rules = role.and_then(|role| role.get("rules")?.as_array());
        let account = text(binding, "/subjects/0/name").to_owned();
        for rule in rules.into_iter().flatten() {
            allowed.entry(account.clone()).or_default().extend(of(rule));
        }
    }
    Ok(allowed)
}

fn of(rule: &Value) -> Vec<String> {
    let list = |of: &str| {
        let list = rule.get(of).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let mut deeds = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
            let verbs = list("verbs").into_iter();
            deeds.extend(verbs.map(|verb| deed(verb, group, resource, part)));
        }
    }
    deeds
}

fn deed(verb: &str, group: &str, resource: &str, part: &str) -> String {
    let group = if group.is_empty() {
        ""
    } else {
        &format!(".{group}")
    };
    let part = if part.is_empty() {
        ""
    } else {
        &format!("/{part}")
    };
    format!("{verb} {resource}{group}{part}")
}

/// What an audit log tells of the accounts.
#[derive(Debug, Default)]
pub struct Audit {
    /// What they did.
    pub done: Deeds,
    /// What they were not allowed to do.
    pub refused: BTreeSet<String>,
}

impl Audit {
    /// Reads the log, without so many lines that were there before.
    ///
    /// # Errors
    /// When it can't be read, or is none.
    pub fn read(path: &Path, skipped: usize) -> Result<Audit> {
        let log = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut audit = Audit::default();
        // A line without an end is still being written.
        let (written, _) = log.rsplit_once('\n').unwrap_or_default();
        for line in written.lines().skip(skipped) {
            let event: Value = serde_json::from_str(line)?;
            audit.note(&event);
        }
        Ok(audit)
    }

    fn note(&mut self, event: &Value) {
        let impersonated = text(event, "/impersonatedUser/username");
        let user = text(event, "/user/username");
        let Some(account) = [impersonated, user].into_iter().find_map(account) else {
            return;
        };
        let deed = deed(
            text(event, "/verb"),
            text(event, "/objectRef/apiGroup"),
            text(event, "/objectRef/resource"),
            text(event, "/objectRef/subresource"),
        );
        let decision = event.pointer("/annotations/authorization.k8s.io~1decision");
        if decision.is_some_and(|decision| decision == "forbid") {
            self.refused.insert(format!("{account}: {deed}"));
        }
        let done = self.done.entry(account.to_owned()).or_default();
        done.insert(deed);
    }

    /// What accounts may do and did not. Finalizers are asked for without a request.
    pub fn unused(&self, allowed: &Deeds) -> Deeds {
        let nothing = BTreeSet::new();
        let mut unused = allowed.clone();
        for (account, deeds) in &mut unused {
            let done = self.done.get(account).unwrap_or(&nothing);
            deeds.retain(|deed| !done.contains(deed) && !deed.ends_with("/finalizers"));
        }
        unused.retain(|_, deeds| !deeds.is_empty());
        unused
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_that_is_being_written_is_left_for_later() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "{}\n{\"verb\": \"ge").unwrap();
        assert!(Audit::read(log.path(), 0).is_ok());
        std::fs::write(log.path(), "{\"verb\": \"ge\n").unwrap();
        assert!(Audit::read(log.path(), 0).is_err());
    }

    #[test]
    fn what_is_allowed_refused_and_unused_is_told() {
        let allowed = allowed().unwrap();
        assert_eq!(allowed.len(), 3);
        assert!(!allowed.get(SAMPLEJOB).unwrap().contains("create secrets"));
        let mut audit = Audit::default();
        let event = |verb: &str, resource: &str, decision: &str| {
            json!({
                "verb": verb,
                "impersonatedUser": {"username": user(SAMPLESET)},
                "objectRef": {"resource": resource},
                "annotations": {"authorization.k8s.io/decision": decision},
            })
        };
        audit.note(&event("get", "secrets", "allow"));
        audit.note(&event("list", "secrets", "forbid"));
        let refused: Vec<&String> = audit.refused.iter().collect();
        assert_eq!(refused, ["paddle-sampleset-sa: list secrets"]);
        let unused = audit.unused(&allowed);
        let unused = unused.get(SAMPLESET).unwrap();
        assert!(unused.contains("create secrets") && !unused.contains("get secrets"));
    }
}
