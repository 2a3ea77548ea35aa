//! Fluent builders: `job("a").ps(1).workers(2).service().build()`.

use std::collections::BTreeMap;

use api::{PaddleJob, PaddleJobSpec, Role, RoleSpec};
use serde_json::{Map, Value, json};

use crate::puppet::SCHEDULER;

/// A job called `name`, without any role yet.
pub fn job(name: &str) -> JobBuilder {
    JobBuilder {
        name: name.to_owned(),
        annotations: BTreeMap::new(),
        replicas: Vec::new(),
        template: template(),
        spec: PaddleJobSpec::default(),
    }
}

/// The pod template of every role unless a test says otherwise: one container,
/// and a scheduler that no cluster has, so that only the puppet places pods.
pub fn template() -> Value {
    json!({"spec": {
        "schedulerName": SCHEDULER,
        "automountServiceAccountToken": false,
        "containers": [{"name": "paddle", "image": "paddle:test"}],
    }})
}

/// Builds a PaddleJob.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    name: String,
    annotations: BTreeMap<String, String>,
    replicas: Vec<(Role, i32)>,
    template: Value,
    spec: PaddleJobSpec,
}

impl JobBuilder {
    /// An annotation of the job.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// So many workers.
    pub fn workers(self, replicas: i32) -> Self {
        self.role(Role::Worker, replicas)
    }

    /// So many parameter servers.
    pub fn ps(self, replicas: i32) -> Self {
        self.role(Role::Ps, replicas)
    }

    /// So many heter trainers.
    pub fn heters(self, replicas: i32) -> Self {
        self.role(Role::Heter, replicas)
    }

    /// So many pods of a role.
    pub fn role(mut self, role: Role, replicas: i32) -> Self {
        self.replicas.retain(|(known, _)| *known != role);
        self.replicas.push((role, replicas));
        self
    }

    /// Pods address each other by Services.
    pub fn service(self) -> Self {
        self.intranet("Service")
    }

    /// How pods address each other.
    pub fn intranet(mut self, intranet: &str) -> Self {
        self.spec.intranet = Some(intranet.to_owned());
        self
    }

    /// `withGloo`.
    pub fn gloo(mut self, gloo: i32) -> Self {
        self.spec.with_gloo = Some(gloo);
        self
    }

    /// `cleanPodPolicy`.
    pub fn clean(mut self, policy: &str) -> Self {
        self.spec.clean_pod_policy = Some(policy.to_owned());
        self
    }

    /// `backoffLimit`.
    pub fn backoff(mut self, limit: i32) -> Self {
        self.spec.backoff_limit = Some(limit);
        self
    }

    /// `activeDeadlineSeconds`.
    pub fn deadline(mut self, seconds: i64) -> Self {
        self.spec.active_deadline_seconds = Some(seconds);
        self
    }

    /// `ttlSecondsAfterFinished`.
    pub fn ttl(mut self, seconds: i32) -> Self {
        self.spec.ttl_seconds_after_finished = Some(seconds);
        self
    }

    /// Suspended from the start.
    pub fn suspended(mut self) -> Self {
        self.spec.suspend = Some(true);
        self
    }

    /// A variable that the user sets himself in the paddle container.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        let variable = json!({"name": name, "value": value});
        match self
            .template
            .pointer_mut("/spec/containers/0")
            .and_then(Value::as_object_mut)
            .map(|paddle| paddle.entry("env").or_insert_with(|| json!([])))
        {
            Some(Value::Array(env)) => env.push(variable),
            _ => unreachable_template(),
        }
        self
    }

    /// A field of the pod's spec, in every role.
    pub fn pod_field(mut self, field: &str, value: Value) -> Self {
        match self.template.pointer_mut("/spec") {
            Some(Value::Object(spec)) => drop(spec.insert(field.to_owned(), value)),
            _ => unreachable_template(),
        }
        self
    }

    /// Another template, for every role.
    pub fn template(mut self, template: Value) -> Self {
        self.template = template;
        self
    }

    /// The job.
    pub fn build(self) -> PaddleJob {
        let mut spec = self.spec;
        for (role, replicas) in self.replicas {
            let wanted = Some(RoleSpec {
                replicas,
                requests: None,
                limits: None,
                template: Some(self.template.clone().into()),
            });
            match role {
                Role::Ps => spec.ps = wanted,
                Role::Worker => spec.worker = wanted,
                Role::Heter => spec.heter = wanted,
            }
        }
        let mut job = PaddleJob::new(&self.name, spec);
        if !self.annotations.is_empty() {
            job.metadata.annotations = Some(self.annotations);
        }
        job
    }

    /// The job as JSON, for tests that write what the types do not allow.
    pub fn build_json(self) -> Map<String, Value> {
        match serde_json::to_value(self.build()) {
            Ok(Value::Object(job)) => job,
            _ => Map::new(),
        }
    }
}

#[expect(clippy::panic, reason = "the test itself is wrong")]
fn unreachable_template() {
    panic!("the template was replaced by one without this part; edit that one")
}
