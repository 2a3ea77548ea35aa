//! What containerd, the kubelet and the network plugins of a node are told.

use serde_json::{Value, json};

/// What every pod is held by; `crate::image` makes it.
pub const PAUSE: &str = "paddle-operator.test/pause:1";

/// The address of the cluster's DNS, also in `testbed/addons/coredns.yaml`.
const DNS: &str = "10.96.0.10";

/// containerd's configuration; `cni` is the directory of the network's.
pub fn containerd(cni: &str) -> String {
    let cni = Value::from(cni); // a JSON string is a TOML string
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Lowering the score takes a right that root in a container lacks.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = {cni}
"#
    )
}

/// The kubelet's configuration.
pub fn kubelet(address: &str, client_ca: &str, cgroup: &str, resolv_conf: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {"x509": {"clientCAFile": client_ca}},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        // Newer kubelets refuse machines that still have the old control groups.
        "failCgroupV1": false,
        "failSwapOn": false,
        // As in containerd's configuration.
        "oomScoreAdj": 0,
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": resolv_conf,
        // The disk is that of the developer's machine, and may well be 90 % full; what is
        // evicted or collected there cannot be pulled again.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

/// The pods' network: a link from each pod to its node, and ports of the node.
pub fn cni(pods: &str) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                // Not `bridge`: there a Service's answer on the same node goes astray.
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}
