//! Containers: what they run, with what, and how it is seen that they live.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{named, security};
use super::{names, volume};
use crate::fault::{At, Faults};
use crate::quantity::Quantity;

const FIELDS: [&str; 13] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn check(
    container: &At<'_, '_>,
    volumes: &BTreeSet<&str>,
    host: bool,
    faults: &mut Faults,
) {
    let (name, image) = (container.get("name"), container.get("image"));
    match name.is_empty() {
        true => faults.required(&name),
        false => named(&name, names::label, faults),
    }
    if image.is_empty() {
        faults.required(&image);
    } else if image.text().trim() != image.text() {
        faults.invalid(&image, "must not have leading or trailing whitespace");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    faults.one_of(&container.get("terminationMessagePolicy"), &policies);
    ports(&container.get("ports"), host, faults);
    variables(&container.get("env"), faults);
    sources(&container.get("envFrom"), faults);
    mounts(&container.get("volumeMounts"), volumes, faults);
    let policies = ["Always", "IfNotPresent", "Never"];
    faults.one_of(&container.get("imagePullPolicy"), &policies);
    resources(&container.get("resources"), faults);
    let context = container.get("securityContext");
    security(&context, faults);
    if context.get("privileged").is_true()
        && context.get("allowPrivilegeEscalation").value == &Value::Bool(false)
    {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        faults.invalid(&context, why);
    }
    let lifecycle = container.get("lifecycle");
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.get(hook);
        if hook.is_set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], faults);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if probe.is_set() {
            self::probe(&probe, name == "readinessProbe", faults);
        }
    }
}

fn ports(ports: &At<'_, '_>, host: bool, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.get("name");
        named(&name, names::port, faults);
        if !name.is_empty() && !seen.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
        let number = port.get("containerPort");
        match number.number() {
            None | Some(0) => faults.required(&number),
            _ => faults.between(&number, 1, 65_535),
        }
        let on_host = port.get("hostPort");
        if on_host.number().is_some_and(|port| port != 0) {
            faults.between(&on_host, 1, 65_535);
            if host && on_host.value != number.value {
                let why = "must match `containerPort` when `hostNetwork` is true";
                faults.invalid(&on_host, why);
            }
        }
        faults.one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn variables(variables: &At<'_, '_>, faults: &mut Faults) {
    for variable in variables.items() {
        let name = variable.get("name");
        match name.is_empty() {
            true => faults.required(&name),
            false => named(&name, names::variable, faults),
        }
        let from = variable.get("valueFrom");
        if from.is_set() {
            value_from(&from, &variable.get("value"), faults);
        }
    }
}

fn value_from(from: &At<'_, '_>, value: &At<'_, '_>, faults: &mut Faults) {
    let mut found = 0;
    let mut seen = |source: &At<'_, '_>| {
        found += usize::from(source.is_set());
        source.is_set()
    };
    let field = from.get("fieldRef");
    if seen(&field) {
        field_path(&field.get("fieldPath"), faults);
    }
    let amount = from.get("resourceFieldRef");
    if seen(&amount) {
        let resource = amount.get("resource");
        let is_pages = |text: &str| {
            text.starts_with("limits.hugepages-") || text.starts_with("requests.hugepages-")
        };
        if resource.is_empty() {
            faults.required(&resource);
        } else if !AMOUNTS.contains(&resource.text()) && !is_pages(resource.text()) {
            faults.unsupported(&resource, &AMOUNTS);
        }
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        let source = from.get(source);
        if !seen(&source) {
            continue;
        }
        // An empty name is one that can't be, rather than one that is missing.
        let name = At {
            value: &Value::from(source.get("name").text()),
            ..source.get("name")
        };
        for what in names::subdomain(name.text()) {
            faults.invalid(&name, &what);
        }
        let key = source.get("key");
        match key.is_empty() {
            true => faults.required(&key),
            false => named(&key, names::config_key, faults),
        }
    }
    found += usize::from(from.get("fileKeyRef").is_set());
    let nothing = Value::from("");
    if found == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                   `secretKeyRef` or `fileKeyRef`";
        faults.invalid_value(&from.path, &nothing, why);
    } else if !value.is_empty() {
        let why = "may not be specified when `value` is not empty";
        faults.invalid_value(&from.path, &nothing, why);
    } else if found > 1 {
        let why = "may not have more than one field specified at a time";
        faults.invalid_value(&from.path, &nothing, why);
    }
}

/// A field of the pod itself, or a label of it.
pub(super) fn field_path(path: &At<'_, '_>, faults: &mut Faults) {
    let text = path.text();
    let is_entry = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .any(|start| text.starts_with(start) && text.ends_with("']"));
    if text.is_empty() {
        faults.required(path);
    } else if !is_entry && !FIELDS.contains(&text) {
        let why = format!("error converting fieldPath: field label not supported: {text}");
        faults.invalid(path, &why);
    }
}

fn sources(sources: &At<'_, '_>, faults: &mut Faults) {
    for source in sources.items() {
        named(&source.get("prefix"), names::variable, faults);
        let set: Vec<&str> = ["configMapRef", "secretRef"]
            .into_iter()
            .filter(|kind| source.get(kind).is_set())
            .collect();
        for kind in &set {
            let reference = source.get(kind);
            let name = reference.get("name");
            match name.is_empty() {
                true => faults.required(&name),
                false => named(&name, names::subdomain, faults),
            }
        }
        let why = match set.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        faults.invalid_value(&sources.path, &Value::from(""), why);
    }
}

fn mounts(mounts: &At<'_, '_>, volumes: &BTreeSet<&str>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        if name.is_empty() {
            faults.required(&name);
        }
        if !volumes.contains(name.text()) || name.is_empty() {
            faults.not_found(&name);
        }
        if path.is_empty() {
            faults.required(&path);
        } else if !seen.insert(path.text()) {
            faults.invalid(&path, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let path = mount.get(field);
            // The real one leaves the index out of this one.
            let told = At {
                path: mounts.get(field).path,
                ..path
            };
            if !path.is_empty() {
                volume::relative(&told, faults);
            }
        }
        let expression = mount.get("subPathExpr");
        if !expression.is_empty() && !mount.get("subPath").is_empty() {
            faults.invalid(
                &expression,
                "subPathExpr and subPath are mutually exclusive",
            );
        }
    }
}

fn resources(resources: &At<'_, '_>, faults: &mut Faults) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for amounts in [&limits, &requests] {
        for (what, amount) in amounts.entries() {
            resource(what, &amount, faults);
        }
    }
    for (what, asked) in requests.entries() {
        let limit = limits.value.get(what).and_then(Quantity::read);
        let Some(amount) = Quantity::read(asked.value) else {
            continue;
        };
        let can_overcommit = !what.contains('/') && !what.starts_with("hugepages-");
        match limit {
            Some(limit) if !can_overcommit && amount.nano() != limit.nano() => {
                let why = format!("must be equal to {what} limit of {limit}");
                faults.invalid_value(&requests.path, asked.value, &why);
            }
            Some(limit) if amount.nano() > limit.nano() => {
                let why = format!("must be less than or equal to {what} limit of {limit}");
                faults.invalid_value(&requests.path, asked.value, &why);
            }
            None if !can_overcommit => {
                let why = "Limit must be set for non overcommitable resources";
                faults.required_so(&limits, why);
            }
            _ => {}
        }
    }
}

fn resource(what: &str, amount: &At<'_, '_>, faults: &mut Faults) {
    let name = Value::from(what);
    let is_standard =
        ["cpu", "memory", "ephemeral-storage"].contains(&what) || what.starts_with("hugepages-");
    for wrong in names::qualified(what) {
        faults.invalid_value(&amount.path, &name, &wrong);
    }
    if !what.contains('/') && !is_standard {
        for why in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            faults.invalid_value(&amount.path, &name, why);
        }
    }
    let Some(quantity) = Quantity::read(amount.value) else {
        return;
    };
    if quantity.is_negative() {
        faults.invalid(amount, "must be greater than or equal to 0");
    }
    if what.contains('/') && !quantity.is_whole() {
        faults.invalid(amount, "must be an integer");
    }
}

fn probe(probe: &At<'_, '_>, of_readiness: bool, faults: &mut Faults) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], faults);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        faults.at_least(&probe.get(field), 0);
    }
    let threshold = probe.get("successThreshold");
    if !of_readiness && threshold.number().is_some_and(|number| number > 1) {
        faults.invalid(&threshold, "must be 1");
    }
}

/// How something is done to a container: in one way, and in one only.
fn handler(at: &At<'_, '_>, ways: &[&str], faults: &mut Faults) {
    let mut first = true;
    for way in ways {
        let handler = at.get(way);
        if !handler.is_set() {
            continue;
        }
        if !std::mem::take(&mut first) {
            faults.forbidden(handler.path, "may not specify more than 1 handler type");
            continue;
        }
        let (command, port) = (handler.get("command"), handler.get("port"));
        if *way == "exec" && command.is_empty() {
            faults.required(&command);
        }
        if ["httpGet", "tcpSocket"].contains(way) {
            volume::port_or_name(&port, faults);
        }
        if *way == "httpGet" {
            faults.one_of(&handler.get("scheme"), &["HTTP", "HTTPS"]);
        }
    }
    if first {
        faults.required_so(at, "must specify a handler type");
    }
}
