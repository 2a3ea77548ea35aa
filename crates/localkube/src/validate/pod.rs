//! Pods and their templates.

use std::collections::BTreeSet;

use super::{container, metadata, names, scheduling, volume};
use crate::fault::{At, Faults};

/// The largest number of seconds, of users and of groups.
pub(super) const MAX_ID: i64 = i32::MAX as i64;

/// A pod's spec; `claims` are volumes that are not among its own.
pub(super) fn spec(spec: &At<'_, '_>, claims: &[&str], faults: &mut Faults) {
    let volumes = spec.get("volumes");
    volume::all(&volumes, faults);
    let mut known: BTreeSet<&str> = claims.iter().copied().collect();
    known.extend(volumes.items().map(|volume| volume.get("name").text()));
    containers(spec, &known, faults);
    let restart = spec.get("restartPolicy");
    faults.one_of(&restart, &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.one_of(&spec.get("dnsPolicy"), &policies);
    metadata::labels(&spec.get("nodeSelector"), faults);
    security(&spec.get("securityContext"), faults);
    scheduling::affinity(&spec.get("affinity"), faults);
    scheduling::spread(&spec.get("topologySpreadConstraints"), faults);
    for (field, rule) in [
        (
            "serviceAccountName",
            names::subdomain as fn(&str) -> Vec<String>,
        ),
        ("nodeName", names::subdomain),
    ] {
        named(&spec.get(field), rule, faults);
    }
    faults.between(&spec.get("activeDeadlineSeconds"), 1, MAX_ID);
    for field in ["hostname", "subdomain"] {
        named(&spec.get(field), names::label, faults);
    }
    scheduling::tolerations(&spec.get("tolerations"), faults);
    for alias in spec.get("hostAliases").items() {
        let ip = alias.get("ip");
        if ip.text().parse::<std::net::IpAddr>().is_err() {
            faults.invalid(&ip, IP_RULE);
        }
        for name in alias.get("hostnames").items() {
            for what in names::subdomain(name.text()) {
                faults.invalid(&name, &what);
            }
        }
    }
    named(&spec.get("priorityClassName"), names::subdomain, faults);
    named(&spec.get("runtimeClassName"), names::subdomain, faults);
    let policies = ["Never", "PreemptLowerPriority"];
    faults.one_of(&spec.get("preemptionPolicy"), &policies);
}

pub(super) const IP_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// A name, where it is set.
pub(super) fn named(at: &At<'_, '_>, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    if at.is_empty() {
        return;
    }
    for what in rule(at.text()) {
        faults.invalid(at, &what);
    }
}

fn containers(spec: &At<'_, '_>, volumes: &BTreeSet<&str>, faults: &mut Faults) {
    let host = spec.get("hostNetwork").is_true();
    let containers = spec.get("containers");
    if containers.is_empty() {
        faults.required(&containers);
    }
    let mut seen = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        let list = spec.get(list);
        for one in list.items() {
            container::check(&one, volumes, host, faults);
            let name = one.get("name");
            if !seen.insert(name.text()) && !name.is_empty() {
                faults.duplicate(&name, name.text());
            }
        }
    }
    // Two processes can't have one port of the machine.
    for one in containers.items() {
        for port in one.get("ports").items() {
            let number = port.get("hostPort").number().unwrap_or(0);
            let ip = port.get("hostIP").text().to_owned();
            let id = format!("{}/{ip}/{number}", port.get("protocol").text());
            if number != 0 && !ports.insert(id.clone()) {
                faults.duplicate(&port.get("hostPort"), &id);
            }
        }
    }
}

/// What is the same for a pod and for a container.
pub(super) fn security(context: &At<'_, '_>, faults: &mut Faults) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        faults.between(&context.get(field), 0, MAX_ID);
    }
    for group in context.get("supplementalGroups").items() {
        faults.between(&group, 0, MAX_ID);
    }
}
