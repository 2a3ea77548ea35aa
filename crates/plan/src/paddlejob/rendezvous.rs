//! How the pods of a job find each other: the ConfigMap, the keys that keep
//! containers from starting with an old list, and the wake-ups.
//!
//! A paddle container requires a key of the ConfigMap that only its own birth
//! has (job, attempt, generation of the spec, and for a replacement the pod
//! that it replaces). The key is added in the write whose lists hold the
//! addresses of all the pods. Because an address is published only when the
//! status has the pod on record, a pod that is gone is always known to be gone,
//! and its successor gets a key that no ConfigMap has had.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use api::{PaddleJob, Role, labels};
use serde_json::{Value, json};

use super::environment::{self, BASE_PORT, PORT_KEY};
use super::mode::Intranet;
use super::pods::{common_labels, owner, waits_for_servers};
use super::restart::is_replaced_alone;
use super::roster::{Member, Roster, State};
use super::world::{Address, PodView, Seen};
use super::{Settings, Wake, elastic, host};
use crate::names;

/// What a key holds. Nobody reads it.
const PRESENT: &str = "1";

/// The key that a pod born now requires; `replaced` is the uid of its predecessor.
pub fn pod_key(job: &PaddleJob, attempt: i32, replaced: Option<&str>) -> String {
    let generation = job.metadata.generation.unwrap_or(0);
    let mut key = format!("{}_{generation}", attempt_key(job, attempt));
    if let Some(replaced) = replaced {
        key.push('_');
        key.push_str(names::short_uid(replaced));
    }
    key
}

fn attempt_key(job: &PaddleJob, attempt: i32) -> String {
    format!("PADDLE_OPERATOR_{}_{attempt}", environment::short_uid(job))
}

/// The key that says that every parameter server has started.
pub fn servers_key(job: &PaddleJob, attempt: i32) -> String {
    let uid = environment::short_uid(job);
    format!("PADDLE_OPERATOR_SERVERS_{uid}_{attempt}")
}

/// The first port of the job's pods: on the network of their nodes, that of the job's
/// own block. Pods that a Go operator made listen on a port that it drew by lot and wrote
/// into the ConfigMap.
pub fn port(job: &PaddleJob, roster: &Roster<'_>, seen: &Seen) -> u16 {
    let legacy = roster.present().any(PodView::is_legacy);
    let written = seen
        .config_map
        .as_ref()
        .and_then(|map| map.data.get(PORT_KEY)?.parse().ok());
    let held =
        || host::held_port(&job.metadata).filter(|_| Intranet::of(&job.spec) == Intranet::Host);
    { written.filter(|_| legacy) }
        .or_else(held)
        .unwrap_or(BASE_PORT)
}

/// The data that the ConfigMap should have now; `None` while not every address
/// is known (unless names do, because somebody waits until they resolve), while
/// a pod that it does not list may start, and when the map belongs to pods of a
/// Go operator, which would meet other values in it after a restart of a
/// container.
pub fn data(
    job: &PaddleJob,
    roster: &Roster<'_>,
    seen: &Seen,
    newborn: &[String],
    names_do: bool,
) -> Option<BTreeMap<String, String>> {
    // Elastic workers find each other through etcd.
    if elastic::is_elastic(&job.spec) {
        return None;
    }
    let service = Intranet::of(&job.spec) == Intranet::Service;
    let old = seen.config_map.as_ref();
    if old.is_some() && newborn.is_empty() && roster.present().all(PodView::is_legacy) {
        return None;
    }
    // Wanted again, such a pod must not have started with lists without it.
    if roster.has_superfluous() {
        return None;
    }
    let mut hosts: BTreeMap<(Role, i32), String> = BTreeMap::new();
    for member in &roster.members {
        let (role, rank) = (member.role, member.rank);
        let is_done = member.state() == State::Done;
        let host = if service {
            // A name is in DNS soon after its pod has an address.
            if !(names_do || is_done || published_address(member).is_some()) {
                return None;
            }
            environment::service_host(job, role, rank)
        } else {
            match published_address(member) {
                Some(Address::V4(ip)) => ip.to_string(),
                Some(Address::V6Only) => return None,
                None => environment::listed_host(&old?.data, role, rank).filter(|_| is_done)?,
            }
        };
        hosts.insert((role, rank), host);
    }
    let host = |role, rank| hosts.get(&(role, rank)).cloned().unwrap_or_default();
    let mut data = environment::lists(job, port(job, roster, seen), host);
    if let Some(old) = old.filter(|_| roster.present().any(PodView::is_legacy)) {
        // The Go operator took an unset withGloo for 0, and peers must agree.
        data.retain(|key, _| !environment::is_gloo(key) || old.data.contains_key(key));
    }
    let keys = roster
        .present()
        .filter_map(|pod| pod.key.as_ref())
        .chain(newborn);
    data.extend(keys.map(|key| (key.clone(), PRESENT.to_owned())));
    let servers = servers_key(job, roster.attempt);
    if servers_started(roster) {
        data.insert(servers.clone(), PRESENT.to_owned());
    }
    // Keys of this attempt stay: a pod that is not seen yet may need one, and
    // none is ever given to a second pod.
    let prefix = format!("{}_", attempt_key(job, roster.attempt));
    let kept = old.iter().flat_map(|old| &old.data);
    let kept = kept.filter(|(key, _)| key.starts_with(&prefix) || **key == servers);
    data.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
    Some(data)
}

/// The ConfigMap, ready to be created.
pub fn config_map(job: &PaddleJob, data: &BTreeMap<String, String>) -> Value {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let mut set = common_labels(name);
    set.insert(labels::RES_NAME.to_owned(), name.into());
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": set,
            "ownerReferences": [owner(job)],
        },
        "data": data,
    })
}

/// How many pods of a role the ConfigMap lists, if it was written for this attempt.
pub fn published_size(job: &PaddleJob, attempt: i32, seen: &Seen, role: Role) -> Option<i32> {
    let data = &seen.config_map.as_ref()?.data;
    let prefix = format!("{}_", attempt_key(job, attempt));
    let is_ours = data.keys().any(|key| key.starts_with(&prefix));
    is_ours.then(|| environment::listed_size(data, role))?
}

/// Whether pods are all that the status still has to record before the
/// ConfigMap can be written: such a status is not put off. Where names do
/// nothing waits for it, but a pod that is lost before it is on record would be
/// made again behind the back of peers that have met it.
pub fn awaits_record(roster: &Roster<'_>, names_do: bool) -> bool {
    let is_known = |pod: &PodView| names_do || pod.address.is_some();
    roster.members.iter().any(|member| !member.is_recorded())
        && roster
            .members
            .iter()
            .all(|member| member.state() == State::Done || member.pod.is_some_and(is_known))
}

/// The pods that wait for what the ConfigMap holds by now. A kubelet tries a
/// container again after ten seconds and more, unless its pod changes.
pub fn wakes(
    job: &PaddleJob,
    roster: &Roster<'_>,
    data: &BTreeMap<String, String>,
    names_do: bool,
    settings: &Settings,
) -> Vec<Wake> {
    let has_init = settings.init_image.is_some();
    let servers = data.contains_key(&servers_key(job, roster.attempt));
    let waits = |pod: &PodView| {
        let key = pod.key.as_ref().filter(|key| data.contains_key(*key))?;
        let ready = !(has_init && waits_for_servers(job, pod.role)) || servers;
        // Lists of names were there before the pod.
        let needed = !names_do || waits_for_servers(job, pod.role) && has_init;
        let asleep =
            !pod.started && pod.is_scheduled() && pod.is_active() && pod.deleted_at.is_none();
        (ready && needed && asleep && pod.woken.as_ref() != Some(key)).then(|| Wake {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            key: key.clone(),
        })
    };
    roster.present().filter_map(waits).collect()
}

/// The addresses that peers were told, of pods that can't change theirs: a node
/// that boots anew gives its pods other ones. The lists simply follow a worker
/// of a PS job, which may be replaced alone too, and by name a pod is found
/// wherever it is.
pub fn told_addresses(job: &PaddleJob, seen: &Seen) -> HashMap<(Role, i32), Ipv4Addr> {
    let map = seen.config_map.as_ref();
    let map = map.filter(|_| Intranet::of(&job.spec) != Intranet::Service);
    let roles = Role::ALL.into_iter();
    let roles = roles.filter(|role| !is_replaced_alone(job, *role));
    roles
        .filter_map(|role| Some((role, environment::listed_hosts(&map?.data, role)?)))
        .flat_map(|(role, hosts)| {
            (0..)
                .zip(hosts)
                .map(move |(rank, host)| ((role, rank), host))
        })
        .filter_map(|(whose, host)| Some((whose, host?.parse().ok()?)))
        .collect()
}

/// Whether a pod is no longer where its peers were told. Lists that have the key
/// of a pod were written with its address.
pub fn has_moved(seen: &Seen, pod: &PodView, told: Option<&Ipv4Addr>) -> bool {
    let has_key = |key| { seen.config_map.as_ref() }.is_some_and(|map| map.data.contains_key(key));
    match (pod.address, told) {
        (Some(Address::V4(ip)), Some(told)) => {
            ip != *told && pod.is_active() && pod.key.as_ref().is_some_and(has_key)
        }
        _ => false,
    }
}

fn published_address(member: &Member<'_>) -> Option<Address> {
    let pod = member
        .pod
        .filter(|_| member.is_recorded() && member.state() != State::Disrupted);
    pod?.address
}

fn servers_started(roster: &Roster<'_>) -> bool {
    let mut servers = roster.role(Role::Ps).peekable();
    // One that is done has run, and its pod may be gone.
    let has_started = |member: &Member<'_>| {
        member.state() == State::Done || member.pod.is_some_and(|pod| pod.started)
    };
    servers.peek().is_some() && servers.all(has_started)
}
