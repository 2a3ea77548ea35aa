//! A bridge on which every pod has an address of its own, and a way out through
//! the machine.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::rootless;
use crate::shim::{Plug, read, write};
use crate::tools::{ip, nft};

/// So many bits of an address are the network's: room for 4,093 pods.
const PREFIX: u32 = 20;
/// The networks that are tried lie in 10.64.0.0/10, which few use.
const FIRST_NETWORK: u32 = 0x0A40_0000;
const NETWORKS: u32 = 1 << (PREFIX - 10);

/// The network of the pods of one state directory.
#[derive(Debug)]
pub struct Network {
    record: Record,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<Ipv4Addr>,
    last: u32,
}

/// What stays the same over restarts.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Record {
    bridge: String,
    /// The first address of the network.
    network: Ipv4Addr,
}

impl Network {
    /// Makes the bridge, unless it is there.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn up(dir: &Path) -> io::Result<Network> {
        let file = dir.join("network.json");
        let record = match read(&file)? {
            Some(record) => record,
            None => choose(dir)?,
        };
        write(&file, &record)?;
        let network = Network {
            record,
            taken: Mutex::default(),
        };
        let bridge = &network.record.bridge;
        if !is_there(bridge) {
            ip(&format!("link add {bridge} type bridge\n"))?;
        }
        let gateway = network.gateway();
        ip(&format!(
            "address replace {gateway}/{PREFIX} dev {bridge}\n\
             link set {bridge} up\n"
        ))?;
        if !rootless::has_user(1) {
            tracing::info!("for an ordinary user, pods reach only each other");
        } else if let Err(error) = network.open_way_out() {
            tracing::warn!(%error, "pods reach only each other and this machine");
        }
        Ok(network)
    }

    /// The address of the machine.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.record.network) + 1)
    }

    /// Lets pods reach whatever the machine reaches.
    fn open_way_out(&self) -> io::Result<()> {
        const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
        if fs::read_to_string(FORWARD)?.trim() != "1" {
            fs::write(FORWARD, "1")?;
        }
        let Record { bridge, network } = &self.record;
        // A table of its own goes as a whole, and leaves others alone.
        nft(&format!(
            "add table ip {bridge}\n\
             delete table ip {bridge}\n\
             table ip {bridge} {{\n\
             chain out {{\n\
             type nat hook postrouting priority srcnat;\n\
             ip saddr {network}/{PREFIX} oifname != \"{bridge}\" masquerade\n\
             }}\n}}\n"
        ))
    }

    /// Takes all of it away.
    pub fn down(&self) {
        let bridge = &self.record.bridge;
        if let Err(error) = ip(&format!("link delete {bridge}\n")) {
            tracing::warn!(%error, "the bridge stays");
        }
        if let Err(error) = nft(&format!("delete table ip {bridge}\n")) {
            tracing::debug!(%error, "there is no table");
        }
    }

    /// An address that no pod has. It is a while before one is used again, so that
    /// nobody who knew the pod before takes the next for it.
    ///
    /// # Errors
    /// When there are none left.
    pub fn take(&self) -> io::Result<Ipv4Addr> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let network = u32::from(self.record.network);
        let hosts = (1_u32 << (32 - PREFIX)) - 3;
        for n in 1..=hosts {
            let host = 2 + (taken.last + n) % hosts;
            let address = Ipv4Addr::from(network + host);
            if taken.addresses.insert(address) {
                taken.last = host - 2;
                return Ok(address);
            }
        }
        Err(io::Error::other(
            "every address of the pod network is taken",
        ))
    }

    /// This pod has this address.
    pub fn mark(&self, address: Ipv4Addr) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.addresses.insert(address);
    }

    /// No pod has this address any more.
    pub fn release(&self, address: Ipv4Addr) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.addresses.remove(&address);
    }

    /// The place of an address.
    pub fn plug(&self, address: Ipv4Addr) -> Plug {
        Plug {
            address: format!("{address}/{PREFIX}"),
            gateway: self.gateway().to_string(),
        }
    }

    /// Puts a cable from the bridge to the sandbox of a pod.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn connect(&self, sandbox: u32, address: Ipv4Addr) -> io::Result<()> {
        let cable = self.cable(address);
        // One may be left of a pod that had the address before.
        self.disconnect(address);
        ip(&format!(
            "link add {cable} type veth peer name eth0 netns {sandbox}\n\
             link set {cable} master {}\n\
             link set {cable} up\n",
            self.record.bridge
        ))
    }

    /// Takes the cable away, if it is there. The kernel would do it too, but later.
    pub fn disconnect(&self, address: Ipv4Addr) {
        let cable = self.cable(address);
        if is_there(&cable)
            && let Err(error) = ip(&format!("link delete {cable}\n"))
        {
            tracing::debug!(%error, "the cable is gone");
        }
    }

    /// A link has a name of 15 letters at most.
    fn cable(&self, address: Ipv4Addr) -> String {
        let host = u32::from(address) - u32::from(self.record.network);
        format!("{}-{host:x}", self.record.bridge)
    }
}

/// Whether there is a link. Not by a file: `/sys` may be that of another network.
fn is_there(link: &str) -> bool {
    ip(&format!("link show dev {link}\n")).is_ok()
}

/// Chooses a network that the machine does not use yet.
fn choose(dir: &Path) -> io::Result<Record> {
    let mut hasher = DefaultHasher::new();
    fs::canonicalize(dir)?.hash(&mut hasher);
    let hash = hasher.finish();
    let used = Command::new("ip")
        .args(["-4", "-o", "route", "show", "table", "all"])
        .output()
        .map_err(|error| io::Error::other(format!("ip (of iproute2) can't be run: {error}")))?;
    let used = String::from_utf8_lossy(&used.stdout).into_owned();
    let used: Vec<(u32, u32)> = used.split_whitespace().filter_map(range).collect();
    let start = u32::try_from(hash % u64::from(NETWORKS)).unwrap_or_default();
    let size = 1_u32 << (32 - PREFIX);
    let free = (0..NETWORKS)
        .map(|n| FIRST_NETWORK + ((start + n) % NETWORKS) * size)
        .find(|first| {
            used.iter()
                .all(|(from, to)| first + (size - 1) < *from || to < first)
        });
    let network = free.ok_or_else(|| io::Error::other("no network is free in 10.64.0.0/10"))?;
    Ok(Record {
        bridge: format!("pod{:06x}", hash & 0xff_ffff),
        network: Ipv4Addr::from(network),
    })
}

/// The first and the last address of a route; of the default route, none.
fn range(route: &str) -> Option<(u32, u32)> {
    let (address, prefix) = route.split_once('/').unwrap_or((route, "32"));
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    let prefix: u32 = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..=32).contains(prefix))?;
    let size = u32::try_from((1_u64 << (32 - prefix)) - 1).ok()?;
    Some((address & !size, address | size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network {
            record: Record {
                bridge: "pod0".to_owned(),
                network: Ipv4Addr::new(10, 64, 16, 0),
            },
            taken: Mutex::default(),
        }
    }

    #[test]
    fn addresses_are_given_once_and_come_back_late() {
        let network = network();
        let mut seen = BTreeSet::new();
        while let Ok(address) = network.take() {
            assert!(seen.insert(address), "{address} twice");
            assert_ne!(address, network.gateway());
        }
        assert_eq!(seen.len(), 4093);
        assert_eq!(seen.last(), Some(&Ipv4Addr::new(10, 64, 31, 254)));
        let some = Ipv4Addr::new(10, 64, 20, 7);
        network.release(some);
        assert_eq!(network.take().ok(), Some(some));
    }

    #[test]
    fn routes_are_ranges() {
        let low = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        assert_eq!(range("10.1.2.3/8"), Some((low, low + 0x00ff_ffff)));
        assert_eq!(range("default"), None);
        assert_eq!(range("0.0.0.0/0"), None);
    }
}
