//! The cluster of a stage: it makes what plans ask for, and runs pods.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use api::labels;
use plan::names;
use plan::operation::{CacheFigures, Total};
use plan::sampleset::{
    self, Child, Kind, Object, RuntimePod, ServiceView, StatefulSetView, VolumeSecret, VolumeView,
};
use serde_json::Value;

use super::*;

impl Stage {
    pub fn label(&mut self, labels: Vec<sampleset::NodeLabel>) {
        for label in labels {
            match label.value {
                Some(value) => self.seen.labelled_nodes.insert(label.node, value),
                None => self.seen.labelled_nodes.remove(&label.node),
            };
        }
    }

    pub fn carry_out(&mut self, created: Vec<Object>, patched: Vec<Object>, deleted: Vec<Kind>) {
        let text = |value: &Value, key: &str| {
            let found = value
                .pointer("/metadata/annotations")
                .and_then(|all| all.get(key));
            found.and_then(Value::as_str).map(str::to_owned)
        };
        for Object { kind, value } in created.into_iter().chain(patched) {
            let volume = VolumeView {
                is_bound: self.works,
                ..Default::default()
            };
            let applied = text(&value, labels::APPLIED);
            match kind {
                Kind::VolumeSecret => {
                    let data = value["stringData"].as_object().unwrap().iter();
                    let data =
                        data.map(|(key, value)| (key.as_str(), value.as_str().unwrap().as_bytes()));
                    let name = value
                        .pointer("/metadata/name")
                        .and_then(Value::as_str)
                        .unwrap();
                    self.secrets
                        .insert(name.to_owned(), VolumeSecret::read(data));
                }
                Kind::PersistentVolume => self.seen.volume = Child::Ours(volume),
                Kind::PersistentVolumeClaim => self.seen.claim = Child::Ours(volume),
                Kind::Service => {
                    self.seen.service = Child::Ours(ServiceView {
                        applied,
                        is_going: false,
                    });
                }
                Kind::StatefulSet => {
                    let old = self.seen.stateful_set.ours().cloned().unwrap_or_default();
                    let replicas = value.pointer("/spec/replicas").and_then(Value::as_i64);
                    self.seen.stateful_set = Child::Ours(StatefulSetView {
                        applied: applied.or(old.applied),
                        local_paths: text(&value, labels::LOCAL_PATHS).or(old.local_paths),
                        replicas: replicas.map_or(old.replicas, |replicas| replicas as i32),
                        is_going: false,
                    });
                }
            }
        }
        for kind in deleted {
            match kind {
                Kind::VolumeSecret => {}
                Kind::PersistentVolume => self.seen.volume = Child::Missing,
                Kind::PersistentVolumeClaim => self.seen.claim = Child::Missing,
                Kind::Service => self.seen.service = Child::Missing,
                Kind::StatefulSet => {
                    self.seen.stateful_set = Child::Missing;
                    self.seen.pods.clear();
                    self.servers.clear();
                }
            }
        }
    }

    /// The StatefulSet controller, the scheduler and the kubelets.
    pub fn run_pods(&mut self) {
        let wanted = self
            .seen
            .stateful_set
            .ours()
            .map_or(0, |there| there.replicas);
        self.seen.pods.retain(|pod| pod.partition < wanted);
        for partition in 0..wanted {
            if self.seen.pod(partition).is_none() && self.works {
                self.seen.pods.push(runtime_pod(partition));
            }
        }
        let ready = |partition: &i32| self.seen.pod(*partition).is_some_and(|pod| pod.is_ready);
        let ready: BTreeSet<i32> = (0..wanted).filter(ready).collect();
        self.servers
            .retain(|partition, _| ready.contains(partition));
        for partition in ready {
            self.servers.entry(partition).or_insert_with(|| Server {
                figures: figures(),
                ..Server::default()
            });
        }
    }
}

/// A pod that is ready on a node of its own.
pub fn runtime_pod(partition: i32) -> RuntimePod {
    RuntimePod {
        name: names::runtime_pod("imagenet", partition),
        uid: format!("pod-{partition}"),
        partition,
        node: Some(format!("node-{partition}")),
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        is_ready: true,
        trouble: None,
        deleted_at: None,
        is_running: false,
        is_node_lost: false,
    }
}

/// The tutorial's data, all of it cached.
pub fn figures() -> CacheFigures {
    CacheFigures {
        total: Some(Total {
            bytes: 58 << 20,
            files: 1284,
        }),
        cached_bytes: 58 << 20,
        disk_size: 20 << 30,
        disk_used: 8 << 30,
        disk_avail: 12 << 30,
        share_bytes: Some(58 << 20),
        error: None,
    }
}
