//! What a process may do beyond what its user may.

use std::io;

use caps::{CapSet, Capability, CapsHashSet};

/// What container runtimes give by default, without that to make devices: it is
/// the runtime's device filter that makes it harmless there.
pub const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// A capability by the name that Kubernetes has for it.
pub fn parse(name: &str) -> Option<Capability> {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("CAP_").unwrap_or(&name);
    format!("CAP_{name}").parse().ok()
}

/// All that there are.
pub fn all() -> Vec<String> {
    caps::all().iter().map(ToString::to_string).collect()
}

/// Those of `names` that the machine has, and no other, whatever is run.
pub(super) fn bound(names: &[String]) -> io::Result<CapsHashSet> {
    let there = caps::read(None, CapSet::Bounding).map_err(io::Error::other)?;
    let wanted: CapsHashSet = names
        .iter()
        .filter_map(|name| parse(name))
        .filter(|capability| there.contains(capability))
        .collect();
    for capability in there.difference(&wanted) {
        caps::drop(None, CapSet::Bounding, *capability).map_err(io::Error::other)?;
    }
    Ok(wanted)
}

/// Has these and no others, from now on.
pub(super) fn keep(wanted: &CapsHashSet) -> io::Result<()> {
    // Less is always allowed, but only downwards: what is in force is part of what
    // is permitted.
    for set in [CapSet::Inheritable, CapSet::Ambient] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, wanted).map_err(io::Error::other)?;
    }
    Ok(())
}
