//! A pod as the cluster holds it, and what a kubelet does with it. Containers
//! start as real ones do: when every key that they require is there.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::{Role, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use plan::paddlejob::{PodView, WAIT_CONTAINER, wire};
use serde_json::{Value, json};

/// A container: the paddle container, or the init container that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    Waiting,
    Running,
    Ended(i32),
}

/// A pod in the cluster.
#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// The uid of its job.
    pub owner: String,
    pub job: String,
    pub role: Role,
    pub rank: i32,
    pub attempt: i32,
    pub manifest: Value,
    pub node: Option<String>,
    pub created: Timestamp,
    pub ip: Option<Ipv4Addr>,
    pub woken: Option<String>,
    /// `None`: it has no init container.
    pub init: Option<Container>,
    pub main: Container,
    pub ready: bool,
    pub restarts: u32,
    pub deleted_at: Option<Timestamp>,
    pub active_deadline: Option<i64>,
    /// Why the pod was ended from outside, such as `Evicted`.
    pub ended_by: Option<&'static str>,
    /// Its kubelet looks at it: it was just placed, changed, or one of its
    /// containers ended. Without that a container that could not start is tried
    /// again after a back-off, which a lazy kubelet never does.
    pub is_poked: bool,
}

impl Pod {
    /// A pod, just created.
    pub fn new(manifest: &Value, uid: String, created: Timestamp) -> Pod {
        let text = |pointer: &str| {
            let found = manifest.pointer(pointer).and_then(Value::as_str);
            found
                .unwrap_or_else(|| panic!("no {pointer} in {manifest}"))
                .to_owned()
        };
        let label = |label: &str| text(&format!("/metadata/labels/{}", label.replace('/', "~1")));
        let annotation = |key: &str| {
            let pointer = format!("/metadata/annotations/{}", key.replace('/', "~1"));
            manifest.pointer(&pointer).and_then(Value::as_str)
        };
        let init = containers(manifest, "initContainers")
            .any(|container| container["name"] == WAIT_CONTAINER);
        Pod {
            name: text("/metadata/name"),
            uid,
            owner: text("/metadata/ownerReferences/0/uid"),
            job: text("/metadata/ownerReferences/0/name"),
            role: Role::parse(&label(labels::RES_TYPE)).unwrap(),
            rank: label(labels::RANK).parse().unwrap(),
            attempt: annotation(labels::ATTEMPT).unwrap().parse().unwrap(),
            manifest: manifest.clone(),
            node: None,
            created,
            ip: None,
            woken: None,
            init: init.then_some(Container::Waiting),
            main: Container::Waiting,
            ready: false,
            restarts: 0,
            deleted_at: None,
            active_deadline: None,
            ended_by: None,
            is_poked: false,
        }
    }

    /// Whether a container of it runs or may still run.
    pub fn is_active(&self) -> bool {
        self.ended_by.is_none() && !matches!(self.main, Container::Ended(_))
    }

    pub fn is_training(&self) -> bool {
        self.ended_by.is_none() && self.main == Container::Running
    }

    fn phase(&self) -> &'static str {
        match (self.ended_by, self.main) {
            (Some(_), _) => "Failed",
            (None, Container::Ended(0)) => "Succeeded",
            (None, Container::Ended(_)) => "Failed",
            (None, Container::Running) => "Running",
            // A container that is started again keeps its pod running.
            (None, Container::Waiting) if self.restarts > 0 => "Running",
            (None, Container::Waiting) => "Pending",
        }
    }

    /// Whether its containers are started again when they fail.
    pub fn is_restarted(&self) -> bool {
        self.manifest["spec"]["restartPolicy"] == "OnFailure"
    }

    /// The keys that the paddle container requires.
    pub fn main_keys(&self) -> Vec<String> {
        let all = containers(&self.manifest, "containers");
        self.keys(all.filter(|container| container["name"] == "paddle"))
    }

    /// The keys that the init container requires.
    pub fn init_keys(&self) -> Vec<String> {
        self.keys(containers(&self.manifest, "initContainers"))
    }

    fn keys<'a>(&'a self, containers: impl Iterator<Item = &'a Value>) -> Vec<String> {
        let env =
            containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let refs = env.filter_map(|variable| variable.pointer("/valueFrom/configMapKeyRef"));
        refs.filter(|key| key["name"] == self.job.as_str() && key["optional"] != true)
            .map(|key| key["key"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The pod as the watch shows it, read through the code that reads real pods.
    pub fn view(&self) -> Arc<PodView> {
        let mut meta: ObjectMeta =
            serde_json::from_value(self.manifest["metadata"].clone()).unwrap();
        meta.uid = Some(self.uid.clone());
        meta.creation_timestamp = Some(Time(self.created));
        meta.deletion_timestamp = self.deleted_at.map(Time);
        if let Some(woken) = &self.woken {
            meta.annotations
                .get_or_insert_default()
                .insert(labels::WOKEN.to_owned(), woken.clone());
        }
        let spec = json!({
            "nodeName": self.node,
            "activeDeadlineSeconds": self.active_deadline,
            "containers": self.manifest["spec"]["containers"],
        });
        let spec: wire::PodSpec = serde_json::from_value(spec).unwrap();
        let ready = if self.ready { "True" } else { "False" };
        let init: Vec<Value> = self
            .init
            .iter()
            .map(|state| json!({"name": WAIT_CONTAINER, "state": state_json(*state)}))
            .collect();
        let status = json!({
            "phase": self.phase(),
            "reason": self.ended_by.unwrap_or_default(),
            "podIP": self.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            "conditions": [{"type": "Ready", "status": ready}],
            "initContainerStatuses": init,
            "containerStatuses": [{
                "name": "paddle",
                "restartCount": self.restarts,
                "state": state_json(self.main),
            }],
        });
        let status: wire::PodStatus = serde_json::from_value(status).unwrap();
        Arc::new(PodView::new(&self.job, &meta, &spec, &status).unwrap())
    }
}

fn state_json(state: Container) -> Value {
    match state {
        Container::Waiting => json!({"waiting": {
            "reason": "CreateContainerConfigError",
            "message": "couldn't find key PADDLE_OPERATOR_0a1b2c3d_0_1 in ConfigMap default/a",
        }}),
        Container::Running => json!({"running": {"startedAt": "2027-01-15T08:00:00Z"}}),
        Container::Ended(code) => json!({"terminated": {"exitCode": code, "reason": "Error"}}),
    }
}

fn containers<'a>(manifest: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    manifest["spec"][list].as_array().into_iter().flatten()
}

/// The host of a pod in the lists of a ConfigMap.
pub fn listed(data: &BTreeMap<String, String>, role: Role, rank: i32) -> Option<&str> {
    let list = match role {
        Role::Ps => "PADDLE_PSERVERS_IP_PORT_LIST",
        Role::Worker => "PADDLE_TRAINER_ENDPOINTS",
        Role::Heter => return None,
    };
    let endpoint = data
        .get(list)?
        .split(',')
        .nth(usize::try_from(rank).ok()?)?;
    Some(endpoint.rsplit_once(':')?.0)
}
