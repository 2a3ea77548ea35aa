//! The command line of each component, and the files that these name.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::addresses::Addresses;
use super::paths::{Cache, State};

/// One process of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API.
    ApiServer,
    /// Deployments, garbage collection, service accounts, node taints.
    ControllerManager,
    /// Binds pods to nodes.
    Scheduler,
    /// Plays the kubelet of the fake nodes.
    Kwok,
    /// Volcano's states of queues, and PodGroups for pods that have none.
    VolcanoControllers,
    /// Volcano's binds the pods that ask for it, a gang at a time.
    VolcanoScheduler,
}

impl Component {
    /// In the order in which they start.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::VolcanoControllers,
        Self::VolcanoScheduler,
    ];

    /// The program's name, also that of its log and pid file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::VolcanoControllers => "vc-controller-manager",
            Self::VolcanoScheduler => "vc-scheduler",
        }
    }
}

/// Every finished request becomes one line, because tests count requests; the
/// earlier stages would make it two or three.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
";

/// Far above what two cores can do: a benchmark must measure the operator, not a limit.
const CLIENT_QPS: u32 = 5_000;

/// Writes the files that flags name.
pub fn write_configs(state: &State) -> Result<()> {
    fs::write(state.file("audit-policy.yaml"), AUDIT_POLICY)?;
    let scheduler = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": state.kubeconfig("scheduler"),
            "qps": CLIENT_QPS,
            "burst": CLIENT_QPS,
        },
        "leaderElection": {"leaderElect": false},
    });
    fs::write(state.file("scheduler.json"), scheduler.to_string())?;
    Ok(())
}

/// Program and arguments.
pub fn command(
    cache: &Cache,
    state: &State,
    addresses: Addresses,
    component: Component,
) -> Vec<String> {
    let mut line = vec![text(cache.bin(component.name()))];
    line.extend(match component {
        Component::Etcd => etcd(state, addresses),
        Component::ApiServer => api_server(state, addresses),
        Component::ControllerManager => controller_manager(state, addresses),
        Component::Scheduler => vec![
            format!("--config={}", text(state.file("scheduler.json"))),
            "--secure-port=0".to_owned(),
        ],
        Component::Kwok => vec![
            format!("--config={}", text(state.file("kwok.yaml"))),
            format!("--kubeconfig={}", text(state.kubeconfig("kwok"))),
            // Leases are for several kwoks in one cluster. After a restart this one would
            // leave the nodes alone until those of the last one expire, and miss pods. A
            // zero in the file would mean the default.
            "--node-lease-duration-seconds=0".to_owned(),
        ],
        Component::VolcanoControllers => {
            let mut line = volcano(state, component);
            // Its own jobs have kinds of their own, which nobody here needs.
            line.push("--controllers=+pg-controller,+queue-controller".to_owned());
            line
        }
        Component::VolcanoScheduler => {
            let mut line = volcano(state, component);
            line.extend([
                format!("--scheduler-conf={}", text(state.volcano_scheduler())),
                // It looks at the cluster from time to time, not when something happens. A
                // test waits for several such looks; at rest one takes about 2 ms.
                "--schedule-period=200ms".to_owned(),
                // To /tmp, at a signal.
                "--cache-dumper=false".to_owned(),
            ]);
            line
        }
    });
    line
}

/// Neither of the two serves anything unless asked to.
fn volcano(state: &State, component: Component) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", text(state.kubeconfig(component.name()))),
        "--leader-elect=false".to_owned(),
        format!("--kube-api-qps={CLIENT_QPS}"),
        format!("--kube-api-burst={CLIENT_QPS}"),
    ]
}

fn etcd(state: &State, addresses: Addresses) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", addresses.etcd);
    let peer = format!("http://127.0.0.1:{}", addresses.etcd_peer);
    vec![
        format!("--data-dir={}", text(state.file("etcd"))),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The state may be lost with the machine; waiting for its disk would only
        // blur what benchmarks measure.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server(state: &State, addresses: Addresses) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", text(state.pki(file)));
    let mut line = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", addresses.etcd),
        format!("--bind-address={}", addresses.api().ip()),
        format!("--advertise-address={}", addresses.api().ip()),
        format!("--secure-port={}", addresses.api_port),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        pki("client-ca-file", "ca.crt"),
        pki("tls-cert-file", "apiserver.crt"),
        pki("tls-private-key-file", "apiserver.key"),
        pki("service-account-key-file", "sa.pub"),
        pki("service-account-signing-key-file", "sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        // A kubelet may only touch what concerns its own node.
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        pki("kubelet-client-certificate", "admin.crt"),
        pki("kubelet-client-key", "admin.key"),
        // Names of nodes are known to nobody else.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        // CSI drivers and cache runtimes ask for it.
        "--allow-privileged=true".to_owned(),
        // Fair queues would slow down whoever is not an administrator.
        "--enable-priority-and-fairness=false".to_owned(),
        "--max-requests-inflight=3000".to_owned(),
        "--max-mutating-requests-inflight=3000".to_owned(),
        format!(
            "--audit-policy-file={}",
            text(state.file("audit-policy.yaml"))
        ),
        format!("--audit-log-path={}", text(state.audit_log())),
        // Never rotated: a test that counts lines must find them in one file.
        "--audit-log-maxsize=0".to_owned(),
        // Written before the next request of the same client can arrive.
        "--audit-log-mode=blocking".to_owned(),
    ];
    if addresses.network.is_none() {
        // The others refuse a loopback address, and without nodes nothing calls the
        // `kubernetes` Service.
        line.push("--endpoint-reconciler-type=none".to_owned());
    }
    line
}

fn controller_manager(state: &State, addresses: Addresses) -> Vec<String> {
    let mut line = vec![
        format!(
            "--kubeconfig={}",
            text(state.kubeconfig("controller-manager"))
        ),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        // So that RBAC and the audit log see each controller under its own name.
        "--use-service-account-credentials=true".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            text(state.pki("sa.key"))
        ),
        format!("--root-ca-file={}", text(state.pki("ca.crt"))),
        "--allocate-node-cidrs=false".to_owned(),
        format!("--kube-api-qps={CLIENT_QPS}"),
        format!("--kube-api-burst={CLIENT_QPS}"),
    ];
    if addresses.network.is_none() {
        // A puppet node has no heartbeat, and a busy machine is no dead node. A test
        // that needs one sets the node's Ready condition to Unknown.
        line.push("--node-monitor-grace-period=24h".to_owned());
    }
    line
}

/// Paths are UTF-8: `Cache::from_env` has checked it.
fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cluster::nodes::Network;

    const ADDRESSES: Addresses = Addresses {
        etcd: 1,
        etcd_peer: 2,
        api_port: 3,
        network: None,
    };

    #[test]
    fn every_component_names_its_state_and_only_loopback() {
        let cache = Cache::at(Path::new("/cache"));
        let state = cache.cluster("a");
        for component in Component::ALL {
            let line = command(&cache, &state, ADDRESSES, component);
            // `process` recognises a component by these two.
            assert_eq!(
                line.first(),
                Some(&format!("/cache/bin/{}", component.name()))
            );
            assert!(
                line.iter().any(|arg| arg.contains("/cache/cluster/a/")),
                "{line:?}"
            );
            for arg in &line {
                assert!(!arg.contains("0.0.0.0"), "{arg}");
            }
        }
    }

    #[test]
    fn volcano_watches_no_directory_in_which_others_write() {
        let cache = Cache::at(Path::new("/cache"));
        let state = cache.cluster("a");
        let config = state.volcano_scheduler();
        for busy in [state.audit_log(), state.log("a"), state.pid("a")] {
            assert_ne!(config.parent(), busy.parent());
        }
        let line = command(&cache, &state, ADDRESSES, Component::VolcanoScheduler);
        assert!(line.contains(&format!("--scheduler-conf={}", config.display())));
    }

    #[test]
    fn the_api_server_listens_on_its_port_and_finds_etcd() {
        let cache = Cache::at(Path::new("/cache"));
        let line = command(&cache, &cache.cluster("a"), ADDRESSES, Component::ApiServer);
        assert!(line.contains(&"--secure-port=3".to_owned()));
        assert!(line.contains(&"--etcd-servers=http://127.0.0.1:1".to_owned()));
        assert!(line.contains(&"--audit-log-path=/cache/cluster/a/audit.log".to_owned()));
        assert!(line.contains(&"--bind-address=127.0.0.1".to_owned()));
    }

    #[test]
    fn real_nodes_reach_the_api_server_in_their_network() {
        let cache = Cache::at(Path::new("/cache"));
        let addresses = Addresses {
            network: Some(Network::numbered(200)),
            ..ADDRESSES
        };
        let line = command(&cache, &cache.cluster("a"), addresses, Component::ApiServer);
        assert!(line.contains(&"--bind-address=10.200.0.1".to_owned()));
        assert!(!line.iter().any(|arg| arg.contains("127.0.0.1:3")));
        let manager = Component::ControllerManager;
        let line = command(&cache, &cache.cluster("a"), addresses, manager);
        // Else a dead node would be taken for a living one.
        assert!(!line.iter().any(|arg| arg.contains("grace-period")));
    }
}
