//! PaddleJob: a distributed training job.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core_schema::core;
use crate::{Condition, PodReference, PodTemplate, Role};

/// The most replicas that one role may have.
pub const MAX_REPLICAS: i32 = 2000;

/// A PaddlePaddle training job: the roles of its pods and how they find each other.
///
/// The job runs in mode PS when `ps` is set, else Collective when there is more
/// than one worker, else Single.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::duplicated_attributes,
    reason = "each printcolumn has a type of its own"
)]
#[kube(
    group = "batch.paddlepaddle.org",
    version = "v1",
    kind = "PaddleJob",
    plural = "paddlejobs",
    shortname = "pdj",
    namespaced,
    status = "PaddleJobStatus",
    derive = "PartialEq",
    doc = "PaddleJob is a PaddlePaddle distributed training job.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".status.mode"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    scale(
        spec_replicas_path = ".spec.worker.replicas",
        status_replicas_path = ".status.worker.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[x_kube(validation = Rule::new("has(self.ps) || has(self.worker) || has(self.heter)")
    .message("the job has no role: set spec.worker, or spec.ps and spec.worker")
    .reason(Reason::FieldValueRequired))]
#[serde(rename_all = "camelCase")]
pub struct PaddleJobSpec {
    /// When pods are deleted after the job has ended: `Always`, `Never`,
    /// `OnFailure` or `OnCompletion`. Unset: when it completed. Any other value
    /// acts as `Never`, and an event names the right ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,

    /// How pods address each other: `PodIP`, `Service` (a headless Service for
    /// each pod) or `Host` (the network of the node). Default `PodIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intranet: Option<String>,

    /// Gloo in a PS job: 0 off, 1 for workers, 2 for workers and servers.
    /// Unset: 1 when `ps` is set and `heter` is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_gloo: Option<i32>,

    /// Parameter servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ps: Option<RoleSpec>,

    /// Workers (trainers).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<RoleSpec>,

    /// Workers on other hardware, for heterogeneous parameter server training.
    /// They need `ps` and `worker` beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heter: Option<RoleSpec>,

    /// Any value makes the job elastic: the number of workers may change while
    /// it trains. It needs an etcd server, see `--etcd-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<i32>,

    /// Gang scheduling with Volcano. It has an effect when the manager runs with
    /// `--scheduling=volcano`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<SchedulingPolicy>,

    /// The SampleSet whose data the workers read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_set_ref: Option<SampleSetReference>,

    /// Stops the job and deletes its pods while true; the job starts again,
    /// with new pods, when it is set to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// How often the whole job is started again after a pod failed, before the
    /// job is Failed. Default 0. A pod that was deleted, evicted, preempted or
    /// lost with its node does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backoff_limit: Option<i32>,

    /// The job is Failed when it has run for so many seconds; the count begins
    /// anew when it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_deadline_seconds: Option<i64>,

    /// The job is deleted so many seconds after it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// The pods of one role.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.template) && has(self.template.spec)")
    .message("template.spec is missing: a role needs a pod template with at least one container")
    .field_path(".template")
    .reason(Reason::FieldValueRequired))]
#[x_kube(validation = Rule::new(
    "!has(self.template) || !has(self.template.spec) || (has(self.template.spec.containers) && size(self.template.spec.containers) > 0)")
    .message("template.spec.containers is empty: a role needs at least one container")
    .field_path(".template.spec.containers")
    .reason(Reason::FieldValueRequired))]
#[serde(rename_all = "camelCase")]
pub struct RoleSpec {
    /// Number of pods, 1 to 2000.
    #[schemars(range(min = 1, max = 2000))]
    pub replicas: i32,

    /// The fewest workers that an elastic job may train with. Default: `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<i32>,

    /// The most workers that an elastic job may train with. Default: `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<i32>,

    /// The pod template. It is kept whole; the operator adds to the container
    /// named `paddle`, or else to the first one, what Paddle needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
}

/// How Volcano schedules the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// The fewest pods that must be schedulable at once. Default: all of them; of
    /// an elastic job as many as `worker.requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The Volcano queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The priority class of the PodGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// The fewest resources that must be free. Default: what the first
    /// `minAvailable` pods request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "core::<BTreeMap<String, Quantity>>")]
    pub min_resources: Option<BTreeMap<String, Quantity>>,
}

/// A SampleSet in the namespace of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleSetReference {
    /// Name of the SampleSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the SampleSet; only the namespace of the job is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where the workers find the data.
    pub mount_path: String,
    /// Whether worker *i* must run where partition *i* is cached (`Required`) or
    /// should if it can (`Preferred`). Default `Required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// Start when so many percent of the data are cached. Default: when the
    /// SampleSet is Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub min_cached_percent: Option<i32>,
}

/// What became of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaddleJobStatus {
    /// Pending, Starting, Running, Restarting, Scaling, Suspended, Completed,
    /// Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// PS, Collective or Single.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The parameter servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ps: Option<RoleStatus>,
    /// The workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<RoleStatus>,
    /// The workers on other hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heter: Option<RoleStatus>,
    /// Label selector of the worker pods, for `kubectl scale` and autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// When the job was started, or started again after it was suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How often the whole job was started again because a pod failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i32>,
    /// How often the whole job was started again for any reason. Pods carry the
    /// attempt that they were made for, and never mix with those of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// Why the job is in its phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The pods of one role, counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleStatus {
    /// Pods that are wanted.
    pub replicas: i32,
    /// Pods that have no node yet.
    pub pending: i32,
    /// Pods that have a node and are not ready yet.
    pub starting: i32,
    /// Pods whose containers are all ready.
    pub running: i32,
    /// Pods that failed.
    pub failed: i32,
    /// Pods that succeeded.
    pub succeeded: i32,
    /// Pods whose node does not answer.
    pub unknown: i32,
    /// The pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<PodReference>,
}

/// The phase of a job, printed as STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum Phase {
    /// Not every pod is scheduled.
    Pending,
    /// Every pod is scheduled.
    Starting,
    /// Every container is, or was, ready.
    Running,
    /// The whole job is being started again.
    Restarting,
    /// The number of pods is being changed.
    Scaling,
    /// `spec.suspend` is true.
    Suspended,
    /// The workers succeeded.
    Completed,
    /// The job failed; the condition Failed says why.
    Failed,
    /// The job is being deleted.
    Terminating,
    /// A phase that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Phase {
    /// Whether the job has ended. Such a phase never changes back.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Phase::Completed | Phase::Failed)
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

impl PaddleJobSpec {
    /// What the spec says of a role.
    pub const fn role(&self, role: Role) -> Option<&RoleSpec> {
        match role {
            Role::Ps => self.ps.as_ref(),
            Role::Worker => self.worker.as_ref(),
            Role::Heter => self.heter.as_ref(),
        }
    }
}

impl PaddleJobStatus {
    /// What the status says of a role.
    pub const fn role(&self, role: Role) -> Option<&RoleStatus> {
        match role {
            Role::Ps => self.ps.as_ref(),
            Role::Worker => self.worker.as_ref(),
            Role::Heter => self.heter.as_ref(),
        }
    }

    /// Where the status speaks of a role.
    pub const fn role_mut(&mut self, role: Role) -> &mut Option<RoleStatus> {
        match role {
            Role::Ps => &mut self.ps,
            Role::Worker => &mut self.worker,
            Role::Heter => &mut self.heter,
        }
    }
}
