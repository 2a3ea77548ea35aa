//! The names of Services. Each pod has them in its own `/etc/hosts`; there is no
//! DNS server, and no address in front of pods: a name is the address of the pods
//! that are behind it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use tokio::sync::Notify;

const DOMAIN: &str = "cluster.local";

/// Tells when names may have changed.
#[derive(Debug, Default)]
pub(super) struct Names {
    changed: Notify,
}

impl Names {
    /// Something has changed.
    pub(super) fn refresh(&self) {
        self.changed.notify_one();
    }

    /// Until something has.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// The addresses behind a Service: each with the host name of its pod, if that is
/// part of the Service's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    namespace: String,
    service: String,
    addresses: Vec<(Ipv4Addr, Option<String>)>,
}

/// What stands behind Services.
pub(super) fn entries<'a>(
    services: impl Iterator<Item = &'a Service>,
    pods: &[&Pod],
) -> Vec<Entry> {
    let entries = services.filter_map(|service| {
        let spec = service.spec.as_ref()?;
        let selector = spec
            .selector
            .as_ref()
            .filter(|selector| !selector.is_empty())?;
        let namespace = service.namespace()?;
        let behind = pods.iter().filter(|pod| {
            pod.namespace().as_deref() == Some(&namespace)
                && selector
                    .iter()
                    .all(|(key, value)| pod.labels().get(key) == Some(value))
                && (spec.publish_not_ready_addresses == Some(true) || is_ready(pod))
        });
        let addresses = behind.filter_map(|pod| {
            let status = pod.status.as_ref()?;
            if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
                return None;
            }
            let address = status.pod_ip.as_ref()?.parse().ok()?;
            let pod = pod.spec.as_ref()?;
            let is_part = pod.subdomain.as_deref() == service.metadata.name.as_deref();
            Some((address, pod.hostname.clone().filter(|_| is_part)))
        });
        Some(Entry {
            addresses: addresses.collect(),
            service: service.name_any(),
            namespace,
        })
    });
    entries.collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A `hosts` file as a pod sees it.
pub(super) fn hosts(pod: &Pod, hostname: &str, own: Ipv4Addr, entries: &[Entry]) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    let mut text = String::from(
        "# Written by the node agent; names of Services follow.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    let spec = pod.spec.as_ref();
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref());
    let whole =
        subdomain.map(|subdomain| format!("{hostname}.{subdomain}.{namespace}.svc.{DOMAIN}\t"));
    let _ = writeln!(text, "{own}\t{}{hostname}", whole.unwrap_or_default());
    let aliases = spec
        .iter()
        .flat_map(|spec| spec.host_aliases.iter().flatten());
    for alias in aliases {
        let names = alias.hostnames.iter().flatten();
        let names: Vec<&str> = names.map(String::as_str).collect();
        let _ = writeln!(text, "{}\t{}", alias.ip, names.join("\t"));
    }
    // One line for each address: what reads the file stops at the first.
    let mut lines: BTreeMap<Ipv4Addr, Vec<String>> = BTreeMap::new();
    for entry in entries {
        for (address, host) in &entry.addresses {
            let names = lines.entry(*address).or_default();
            names.extend(forms(&entry.service, &entry.namespace, &namespace));
            if let Some(host) = host {
                let name = format!("{host}.{}", entry.service);
                names.extend(forms(&name, &entry.namespace, &namespace));
            }
        }
    }
    for (address, names) in lines {
        let _ = writeln!(text, "{address}\t{}", names.join(" "));
    }
    text
}

/// All ways to write a name.
fn forms(name: &str, namespace: &str, own: &str) -> Vec<String> {
    let whole = format!("{name}.{namespace}.svc.{DOMAIN}");
    let long = [
        whole,
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}"),
    ];
    let short = (namespace == own).then(|| name.to_owned());
    long.into_iter().chain(short).collect()
}

/// Writes the file where it is: containers have this very file, by no other name.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    // A pod may write it too, and as much as it likes.
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let is_as_long = u64::try_from(text.len()) == Ok(length);
    if is_as_long && std::fs::read_to_string(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(u64::try_from(text.len()).unwrap_or(u64::MAX))
}
