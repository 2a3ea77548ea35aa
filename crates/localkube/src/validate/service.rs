//! Services.

use std::collections::BTreeSet;

use serde_json::json;

use super::pod::{IP_RULE, named};
use super::{metadata, names, volume};
use crate::fault::{At, Faults};

pub(super) fn spec(spec: &At<'_, '_>, faults: &mut Faults) {
    let (type_, ports) = (spec.get("type"), spec.get("ports"));
    let is_headless = spec.get("clusterIP").text() == "None";
    let is_external = type_.text() == "ExternalName";
    if ports.is_empty() && !is_headless && !is_external {
        faults.required(&ports);
    }
    let external = spec.get("externalName");
    if is_external && external.is_empty() {
        faults.required(&external);
    } else if is_external {
        named(&external, names::subdomain, faults);
    }
    self::ports(&ports, type_.text(), faults);
    metadata::labels(&spec.get("selector"), faults);
    faults.one_of(&spec.get("sessionAffinity"), &["ClientIP", "None"]);
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    faults.one_of(&type_, &types);
    for address in spec.get("clusterIPs").items() {
        let text = address.text();
        if text != "None" && text.parse::<std::net::IpAddr>().is_err() {
            faults.invalid(&address, IP_RULE);
        }
    }
    let policies = ["Cluster", "Local"];
    faults.one_of(&spec.get("internalTrafficPolicy"), &policies);
}

fn ports(ports: &At<'_, '_>, type_: &str, faults: &mut Faults) {
    let several = ports.items().count() > 1;
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for port in ports.items() {
        let (name, number) = (port.get("name"), port.get("port"));
        let protocol = port.get("protocol");
        if name.is_empty() && several {
            faults.required(&name);
        } else if !name.is_empty() {
            named(&name, names::label, faults);
            if !seen.insert(name.text()) {
                faults.duplicate(&name, name.text());
            }
        }
        match number.is_set() {
            true => faults.between(&number, 1, 65_535),
            false => faults.invalid_value(
                &number.path,
                &json!(0),
                "must be between 1 and 65535, inclusive",
            ),
        }
        faults.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        let target = port.get("targetPort");
        if target.is_set() {
            volume::port_or_name(&target, faults);
        }
        let on_node = port.get("nodePort");
        if on_node.number().is_some_and(|port| port != 0) && ["", "ClusterIP"].contains(&type_) {
            let why = "may not be used when `type` is 'ClusterIP'";
            faults.forbidden(on_node.path, why);
        }
        let id = (number.number(), protocol.text());
        if !taken.insert(id) {
            let what = json!({
                "Name": "", "Protocol": protocol.value, "AppProtocol": null,
                "Port": number.value, "TargetPort": 0, "NodePort": 0,
            });
            faults.duplicate_value(&port, &what);
        }
    }
}
