//! What the Go operator v0.3.5 made of a job, as it left it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The port that it drew by lot for the job.
pub const PORT: &str = "43210";

/// A job of the Go operator.
#[derive(Clone, Debug)]
pub struct GoJob {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its pods address each other by Services.
    pub by_service: bool,
}

impl GoJob {
    fn owner(&self) -> Value {
        json!({
            "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// One of its pods. The template says all but what its containers are.
    ///
    /// # Errors
    /// When no pod of a job has this name.
    pub fn pod(&self, name: &str, template: &Value, image: &str) -> Result<Value> {
        let (rest, rank) = name.rsplit_once('-').context("a pod's name")?;
        let (_, role) = rest.rsplit_once('-').context("a pod's name")?;
        let training = if role == "ps" { "PSERVER" } else { "TRAINER" };
        let pod_ip = if self.by_service {
            json!({"name": "POD_IP", "value": name})
        } else {
            json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
        };
        let mut spec = template.get("spec").cloned().unwrap_or_default();
        let ours = json!({
            "hostname": name,
            "subdomain": name,
            "restartPolicy": "Never",
            "initContainers": [{"name": "coord-paddle", "image": image, "command": ["true"]}],
            "containers": [{
                "name": "paddle",
                "image": image,
                "env": [
                    pod_ip,
                    {"name": "PADDLE_TRAINER_ID", "value": rank},
                    {"name": "TRAINING_ROLE", "value": training},
                    {"name": "PADDLE_TRAINING_ROLE", "value": training},
                ],
                "envFrom": [{"configMapRef": {"name": self.name}}],
            }],
        });
        if let (Some(spec), Value::Object(ours)) = (spec.as_object_mut(), ours) {
            spec.extend(ours);
        }
        Ok(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"paddle-res-name": name, "paddle-res-type": role},
                "annotations": {"paddle-resource": role},
                "ownerReferences": [self.owner()],
            },
            "spec": spec,
        }))
    }

    /// The Service of a pod. It made them for every job, without labels.
    pub fn service(&self, pod: &str) -> Value {
        let ports: Vec<Value> = (0..20)
            .map(|i| json!({"name": format!("p-{i}"), "port": 36000 + i}))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": pod, "ownerReferences": [self.owner()]},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": {"paddle-res-name": pod},
                "ports": ports,
            },
        })
    }

    /// The ConfigMap that its pods wait for.
    pub fn config_map(&self, servers: &[String], workers: &[String]) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "labels": {"paddle-res-name": self.name},
                "ownerReferences": [self.owner()],
            },
            "data": self.data(servers, workers),
        })
    }

    fn data(&self, servers: &[String], workers: &[String]) -> BTreeMap<&'static str, String> {
        // Its bug: names go with 36000 whatever PADDLE_PORT says.
        let port = if self.by_service { "36000" } else { PORT };
        let endpoints = |hosts: &[String]| {
            let all: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
            all.join(",")
        };
        let mut data = BTreeMap::from([
            ("TRAINER_PORTS_NUM", "20".to_owned()),
            ("PADDLE_PORT", PORT.to_owned()),
            ("PADDLE_TRAINER_ENDPOINTS", endpoints(workers)),
            ("PADDLE_TRAINERS", workers.join(",")),
            ("PADDLE_TRAINERS_NUM", workers.len().to_string()),
        ]);
        if !servers.is_empty() {
            data.insert("PADDLE_PSERVERS_IP_PORT_LIST", endpoints(servers));
        }
        data
    }

    /// Its status, with the uids of the pods by name.
    pub fn status(&self, phase: &str, pods: &BTreeMap<String, String>, namespace: &str) -> Value {
        let mut status =
            json!({"phase": phase, "mode": "Collective", "startTime": "2023-05-05T05:05:05Z"});
        for role in ["ps", "worker"] {
            let prefix = format!("{}-{role}-", self.name);
            let of_role = pods.iter().filter(|(pod, _)| pod.starts_with(&prefix));
            let refs: Vec<Value> = of_role
                .map(|(pod, uid)| {
                    json!({
                        "apiVersion": "v1", "kind": "Pod", "namespace": namespace,
                        "name": pod, "uid": uid, "resourceVersion": "7",
                    })
                })
                .collect();
            if let (false, Some(status)) = (refs.is_empty(), status.as_object_mut()) {
                let counts = json!({"running": refs.len(), "refs": refs});
                status.insert(role.to_owned(), counts);
                if role == "ps" {
                    status.insert("mode".to_owned(), json!("PS"));
                }
            }
        }
        json!({"status": status})
    }
}
