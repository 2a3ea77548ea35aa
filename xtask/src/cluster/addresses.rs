//! Where the components of a cluster listen.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::ops::Range;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::nodes::Network;

/// Where components listen. Controller-manager and scheduler serve nothing.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Addresses {
    /// The port of etcd for kube-apiserver, on 127.0.0.1.
    pub etcd: u16,
    /// etcd insists on a port for other members.
    pub etcd_peer: u16,
    /// The port of kube-apiserver.
    pub api_port: u16,
    /// That of the real nodes, if there are to be any: they cannot reach 127.0.0.1.
    pub network: Option<Network>,
}

impl Addresses {
    /// Where kube-apiserver listens.
    pub fn api(&self) -> SocketAddrV4 {
        let address = self.network.map_or(Ipv4Addr::LOCALHOST, Network::gateway);
        SocketAddrV4::new(address, self.api_port)
    }
}

/// Below the range from which Linux takes ports for outgoing connections: kube-apiserver
/// makes dozens of these while others are still starting.
const PORTS: Range<u16> = 20_000..32_000;

/// Free ports, without a network. The search starts at a place that `key` decides, so that a cluster mostly
/// keeps its address and two that start at the same moment do not meet.
pub fn free_ports(key: &str) -> Result<Addresses> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let span = u64::from(PORTS.end - PORTS.start);
    let offset = u16::try_from(hasher.finish() % span).unwrap_or_default();
    let first = PORTS.start + offset;
    let mut free = (first..PORTS.end)
        .chain(PORTS.start..first)
        .filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    match (free.next(), free.next(), free.next()) {
        (Some(etcd), Some(etcd_peer), Some(api_port)) => Ok(Addresses {
            etcd,
            etcd_peer,
            api_port,
            network: None,
        }),
        _ => bail!("no free port on 127.0.0.1 in {PORTS:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() -> Result<()> {
        let first = free_ports("some key")?;
        assert!(PORTS.contains(&first.etcd));
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first.etcd))?;
        let second = free_ports("some key")?;
        assert_ne!(first.etcd, second.etcd);
        assert!(second.etcd != second.api_port && second.etcd != second.etcd_peer);
        Ok(())
    }
}
