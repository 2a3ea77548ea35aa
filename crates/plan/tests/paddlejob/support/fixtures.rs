//! Fluent builders: `job("a").ps(1).workers(2).running()`, and of what the
//! controller sees of it: `seen(&job, Pod::ready).pod("worker-1", |p| p.failed(1))`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;

use api::{
    PaddleJob, PaddleJobSpec, PaddleJobStatus, Phase, PodReference, Role, RoleSpec, RoleStatus,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::names;
use plan::paddlejob::{Address, ConfigMapView, Plan, PodPhase, PodView, Seen, Settings, Trouble};
use serde_json::{Value, json};

/// The uid of every job here; eight characters of it are in keys.
pub const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";
/// The key of the pods of a first attempt at generation 1.
pub const FIRST_KEY: &str = "PADDLE_OPERATOR_0a1b2c3d_0_1";
/// The key that says that the parameter servers of a first attempt have started.
pub const FIRST_SERVERS_KEY: &str = "PADDLE_OPERATOR_SERVERS_0a1b2c3d_0";
/// The image of the init container.
pub const INIT_IMAGE: &str = "paddle-operator:test";

/// The time of every test that has only one.
pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// As the operator runs by default: with an init image.
pub fn settings() -> Settings {
    Settings {
        init_image: Some(INIT_IMAGE.to_owned()),
        ..Settings::default()
    }
}

/// The smallest template that works.
pub fn template() -> Value {
    json!({"spec": {"containers": [{"name": "paddle", "image": "paddle:3"}]}})
}

/// A PaddleJob under construction.
#[derive(Clone, Debug)]
pub struct Job(pub PaddleJob);

impl Deref for Job {
    type Target = PaddleJob;
    fn deref(&self) -> &PaddleJob {
        &self.0
    }
}

/// The template of pods that stay as they end.
pub fn never_restarted() -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    template
}

/// A job without roles, just created.
pub fn job(name: &str) -> Job {
    let mut job = PaddleJob::new(name, PaddleJobSpec::default());
    job.metadata.namespace = Some("default".to_owned());
    job.metadata.uid = Some(UID.to_owned());
    job.metadata.generation = Some(1);
    job.metadata.resource_version = Some("1".to_owned());
    Job(job)
}

impl Job {
    pub fn edit(mut self, edit: impl FnOnce(&mut PaddleJob)) -> Job {
        edit(&mut self.0);
        self
    }

    pub fn spec(self, edit: impl FnOnce(&mut PaddleJobSpec)) -> Job {
        self.edit(|job| edit(&mut job.spec))
    }

    pub fn status(self, edit: impl FnOnce(&mut PaddleJobStatus)) -> Job {
        self.edit(|job| edit(job.status.get_or_insert_default()))
    }

    pub fn role(self, role: Role, replicas: i32, template: Value) -> Job {
        let wanted = Some(RoleSpec {
            replicas,
            requests: None,
            limits: None,
            template: Some(template.into()),
        });
        self.spec(|spec| match role {
            Role::Ps => spec.ps = wanted,
            Role::Worker => spec.worker = wanted,
            Role::Heter => spec.heter = wanted,
        })
    }

    pub fn ps(self, replicas: i32) -> Job {
        self.role(Role::Ps, replicas, template())
    }

    pub fn workers(self, replicas: i32) -> Job {
        self.role(Role::Worker, replicas, template())
    }

    /// The spec asks for another number of workers, as after `kubectl scale`.
    pub fn scaled(self, role: Role, replicas: i32) -> Job {
        self.edit(|job| {
            let spec = match role {
                Role::Ps => &mut job.spec.ps,
                Role::Worker => &mut job.spec.worker,
                Role::Heter => &mut job.spec.heter,
            };
            spec.as_mut().unwrap().replicas = replicas;
            job.metadata.generation = job.metadata.generation.map(|g| g + 1);
        })
    }

    pub fn service(self) -> Job {
        self.spec(|spec| spec.intranet = Some("Service".to_owned()))
    }

    pub fn cleans(self, policy: &str) -> Job {
        self.spec(|spec| spec.clean_pod_policy = Some(policy.to_owned()))
    }

    pub fn backoff_limit(self, limit: i32) -> Job {
        self.spec(|spec| spec.backoff_limit = Some(limit))
    }

    pub fn suspend(self, suspend: bool) -> Job {
        self.spec(|spec| spec.suspend = Some(suspend))
    }

    pub fn deadline(self, seconds: i64) -> Job {
        self.spec(|spec| spec.active_deadline_seconds = Some(seconds))
    }

    pub fn ttl(self, seconds: i32) -> Job {
        self.spec(|spec| spec.ttl_seconds_after_finished = Some(seconds))
    }

    pub fn attempt(self, attempt: i32) -> Job {
        self.status(|status| status.attempt = Some(attempt))
    }

    pub fn restarts(self, restarts: i32) -> Job {
        self.status(|status| status.restarts = Some(restarts))
    }

    pub fn phase(self, phase: Phase) -> Job {
        self.status(|status| status.phase = Some(phase))
    }

    /// Started at `now()`, with every wanted pod on record.
    pub fn recorded(self) -> Job {
        let wanted = self.wanted();
        let name = self.name();
        let spec = self.0.spec.clone();
        self.status(|status| {
            status.start_time.get_or_insert(Time(now()));
            for role in Role::ALL {
                *status.role_mut(role) = spec.role(role).map(|spec| RoleStatus {
                    replicas: spec.replicas,
                    refs: wanted
                        .iter()
                        .filter(|(of, _)| *of == role)
                        .map(|(role, rank)| reference(&name, *role, *rank))
                        .collect(),
                    ..RoleStatus::default()
                });
            }
        })
    }

    /// The pod on record is called succeeded.
    pub fn succeeded(self, pod: &str) -> Job {
        let full = format!("{}-{pod}", self.name());
        self.status(|status| {
            for role in Role::ALL {
                let refs = status.role_mut(role).iter_mut().flat_map(|r| &mut r.refs);
                refs.filter(|r| r.name == full)
                    .for_each(|r| r.succeeded = true);
            }
        })
    }

    pub fn running(self) -> Job {
        self.recorded().phase(Phase::Running)
    }

    pub fn ended(self, phase: Phase, at: Timestamp) -> Job {
        self.recorded()
            .phase(phase)
            .status(|status| status.completion_time = Some(Time(at)))
    }

    pub fn name(&self) -> String {
        self.metadata.name.clone().unwrap()
    }

    /// Every pod that the spec asks for.
    pub fn wanted(&self) -> Vec<(Role, i32)> {
        let replicas = |role| self.spec.role(role).map_or(0, |spec| spec.replicas);
        Role::ALL
            .into_iter()
            .flat_map(|role| (0..replicas(role)).map(move |rank| (role, rank)))
            .collect()
    }

    pub fn plan(&self, seen: &Seen) -> Plan {
        self.plan_at(seen, now())
    }

    pub fn plan_at(&self, seen: &Seen, now: Timestamp) -> Plan {
        plan::paddlejob::plan(self, seen, &settings(), now)
    }
}

/// What a status has on record of a pod.
pub fn reference(job: &str, role: Role, rank: i32) -> PodReference {
    let name = names::pod(job, role, rank);
    PodReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        uid: uid(&name),
        name,
        succeeded: false,
    }
}

/// The uid of the first pod of a name.
pub fn uid(pod: &str) -> String {
    format!("uid-of-{pod}")
}

/// The address of a pod in a test with one cluster: 10.0.1.x for servers,
/// 10.0.2.x for workers.
pub fn ip(role: Role, rank: i32) -> Ipv4Addr {
    let net = match role {
        Role::Ps => 1,
        Role::Worker => 2,
        Role::Heter => 3,
    };
    Ipv4Addr::new(10, 0, net, u8::try_from(rank).unwrap() + 1)
}

/// A pod as it is seen, under construction.
#[derive(Clone, Debug)]
pub struct Pod(pub PodView);

/// A pod that was just created for the attempt that the job is in.
pub fn pod(job: &Job, role: Role, rank: i32) -> Pod {
    let name = names::pod(&job.name(), role, rank);
    let attempt = job.0.status.as_ref().and_then(|s| s.attempt).unwrap_or(0);
    Pod(PodView {
        uid: uid(&name),
        name,
        role,
        rank,
        attempt: Some(attempt),
        key: Some(format!("PADDLE_OPERATOR_0a1b2c3d_{attempt}_1")),
        is_in_gang: false,
        elastic_range: None,
        host_port: None,
        woken: None,
        phase: PodPhase::Pending,
        node: None,
        address: None,
        ready: false,
        started: false,
        waits: false,
        created: Some(now() - seconds(3600)),
        deleted_at: None,
        active_deadline: None,
        trouble: None,
    })
}

impl Pod {
    pub fn edit(mut self, edit: impl FnOnce(&mut PodView)) -> Pod {
        edit(&mut self.0);
        self
    }

    pub fn created(self) -> Pod {
        self
    }

    pub fn scheduled(self) -> Pod {
        self.edit(|pod| pod.node = Some("node-0".to_owned()))
    }

    pub fn addressed(self) -> Pod {
        self.scheduled()
            .edit(|pod| pod.address = Some(Address::V4(ip(pod.role, pod.rank))))
    }

    pub fn started(self) -> Pod {
        self.addressed().edit(|pod| {
            pod.phase = PodPhase::Running;
            pod.started = true;
        })
    }

    pub fn ready(self) -> Pod {
        self.started().edit(|pod| {
            pod.ready = true;
            pod.woken = pod.key.clone();
        })
    }

    pub fn succeeded(self) -> Pod {
        self.started().edit(|pod| pod.phase = PodPhase::Succeeded)
    }

    pub fn failed(self, code: i32) -> Pod {
        self.started().edit(|pod| {
            pod.phase = PodPhase::Failed;
            pod.trouble = Some(Box::new(Trouble::Exited {
                container: "paddle".to_owned(),
                code,
                reason: "Error".to_owned(),
                message: "ValueError: no such file".to_owned(),
            }));
        })
    }

    pub fn evicted(self) -> Pod {
        self.started().edit(|pod| {
            pod.phase = PodPhase::Failed;
            pod.trouble = Some(Box::new(Trouble::Disrupted(
                "Evicted: the node was low on memory".to_owned(),
            )));
        })
    }

    pub fn terminating(self, at: Timestamp) -> Pod {
        self.edit(|pod| {
            pod.deleted_at = Some(at);
            pod.ready = false;
        })
    }

    /// Made so many seconds ago.
    pub fn aged(self, age: i64) -> Pod {
        self.edit(|pod| pod.created = Some(now() - seconds(age)))
    }

    /// As the Go operator made it: no attempt, no key.
    pub fn legacy(self) -> Pod {
        self.edit(|pod| (pod.attempt, pod.key, pod.woken) = (None, None, None))
    }

    pub fn attempt(self, attempt: i32) -> Pod {
        self.edit(|pod| {
            pod.attempt = Some(attempt);
            pod.key = Some(format!("PADDLE_OPERATOR_0a1b2c3d_{attempt}_1"));
        })
    }
}

/// Nothing is seen yet.
pub fn nothing() -> Seen {
    Seen::default()
}

/// What is seen when every wanted pod of the job is in the same state.
pub fn seen(job: &Job, state: impl Fn(Pod) -> Pod) -> Seen {
    let pods = job.wanted().into_iter();
    Seen {
        pods: pods
            .map(|(role, rank)| Arc::new(state(pod(job, role, rank)).0))
            .collect(),
        ..Seen::default()
    }
}

/// Refinements of what is seen. Pods are named without the job: `worker-1`.
pub trait SeenExt: Sized {
    fn pod(self, name: &str, edit: impl FnOnce(Pod) -> Pod) -> Self;
    fn without(self, name: &str) -> Self;
    fn with(self, pod: Pod) -> Self;
    fn creating(self, name: &str) -> Self;
    fn config_map(self, data: BTreeMap<String, String>) -> Self;
    fn services(self, names: &[&str]) -> Self;
    fn lost_node(self, name: &str) -> Self;
}

impl SeenExt for Seen {
    fn pod(mut self, name: &str, edit: impl FnOnce(Pod) -> Pod) -> Seen {
        let slot = self
            .pods
            .iter_mut()
            .find(|pod| pod.name.ends_with(&format!("-{name}")))
            .unwrap();
        *slot = Arc::new(edit(Pod(slot.as_ref().clone())).0);
        self
    }

    fn without(mut self, name: &str) -> Seen {
        let before = self.pods.len();
        self.pods
            .retain(|pod| !pod.name.ends_with(&format!("-{name}")));
        assert!(self.pods.len() < before, "there is no pod {name}");
        self
    }

    fn with(mut self, pod: Pod) -> Seen {
        self.pods.push(Arc::new(pod.0));
        self
    }

    fn creating(mut self, name: &str) -> Seen {
        self.creating.insert(name.to_owned());
        self
    }

    fn config_map(mut self, data: BTreeMap<String, String>) -> Seen {
        self.config_map = Some(Arc::new(ConfigMapView { data }));
        self
    }

    fn services(mut self, names: &[&str]) -> Seen {
        self.services = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn lost_node(mut self, name: &str) -> Seen {
        self.lost_nodes.insert(name.to_owned());
        self
    }
}

/// A map from literals.
pub fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
