//! A job in a scenario: what users do to it, and what they wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::{Condition, PaddleJob, PaddleJobStatus, Phase, Role};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use crate::Env;
use crate::world::World;

/// A job, told from others of its name by its uid.
pub struct Job<'e> {
    env: &'e Env,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    pods: Vec<String>,
}

impl<'e> Job<'e> {
    pub(crate) fn new(env: &'e Env, job: &PaddleJob) -> Job<'e> {
        let name = job.name_any();
        let roles = Role::ALL.into_iter();
        let pods = roles.flat_map(|role| {
            let replicas = job.spec.role(role).map_or(0, |role| role.replicas);
            (0..replicas).map(move |rank| (role, rank))
        });
        Job {
            env,
            pods: pods
                .map(|(role, rank)| plan::names::pod(&name, role, rank))
                .collect(),
            name,
            uid: job.uid().unwrap_or_default(),
        }
    }

    /// The name of a pod.
    pub fn pod(&self, role: Role, rank: i32) -> String {
        plan::names::pod(&self.name, role, rank)
    }

    /// The name of a worker pod.
    pub fn worker(&self, rank: i32) -> String {
        self.pod(Role::Worker, rank)
    }

    /// The name of a parameter server's pod.
    pub fn ps(&self, rank: i32) -> String {
        self.pod(Role::Ps, rank)
    }

    /// The name of a heter trainer's pod.
    pub fn heter(&self, rank: i32) -> String {
        self.pod(Role::Heter, rank)
    }

    /// The names of the pods that its first spec asked for.
    pub fn pods(&self) -> &[String] {
        &self.pods
    }

    /// The uids of its pods, by name.
    pub fn uids(&self) -> BTreeMap<String, String> {
        self.env.look(|world| self.uids_in(world))
    }

    fn uids_in(&self, world: &World) -> BTreeMap<String, String> {
        let ours = world.pods.now.iter().filter(|(_, pod)| {
            let owners = pod.metadata.owner_references.iter().flatten();
            owners.clone().any(|owner| owner.uid == self.uid)
        });
        ours.map(|(name, pod)| (name.clone(), pod.uid().unwrap_or_default()))
            .collect()
    }

    /// The addresses of its pods in the order of the given names.
    pub fn addresses(&self, pods: &[String]) -> Result<Vec<String>> {
        self.env.look(|world| {
            let address = |name: &String| {
                let pod = world.pods.get(name);
                pod.and_then(|pod| pod.status.as_ref()?.pod_ip.clone())
                    .with_context(|| format!("pod {name} has no address"))
            };
            pods.iter().map(address).collect()
        })
    }

    /// The job as the watch last showed it.
    pub fn seen(&self) -> Result<Arc<PaddleJob>> {
        self.env
            .look(|world| self.find(world))
            .with_context(|| format!("job {} is gone", self.name))
    }

    /// Its status as the watch last showed it.
    pub fn status(&self) -> Result<PaddleJobStatus> {
        Ok(self.seen()?.status.clone().unwrap_or_default())
    }

    fn find(&self, world: &World) -> Option<Arc<PaddleJob>> {
        let job = world.jobs.get(&self.name)?;
        (job.uid().as_deref() == Some(&self.uid)).then(|| Arc::clone(job))
    }

    /// Waits until `judge` is content with its status.
    pub async fn until(
        &self,
        what: &str,
        judge: impl Fn(&PaddleJobStatus) -> bool,
    ) -> Result<PaddleJobStatus> {
        self.env
            .until(&format!("job {} {what}", self.name), |world| {
                let status = self.find(world)?.status.clone()?;
                judge(&status).then_some(status)
            })
            .await
    }

    /// Waits until it is in a phase.
    pub async fn reaches(&self, phase: Phase) -> Result<PaddleJobStatus> {
        self.until(&format!("is {phase}"), |status| status.phase == Some(phase))
            .await
    }

    /// Waits until it runs in a given attempt.
    pub async fn runs(&self, attempt: i32) -> Result<PaddleJobStatus> {
        self.until(&format!("runs in attempt {attempt}"), |status| {
            status.phase == Some(Phase::Running) && status.attempt == Some(attempt)
        })
        .await
    }

    /// Waits for a condition with a status and a reason.
    pub async fn has_condition(&self, type_: &str, holds: bool, reason: &str) -> Result<Condition> {
        let status = self
            .until(&format!("has {type_}={holds} ({reason})"), |status| {
                condition(status, type_).is_some_and(|condition| {
                    condition.status == holds.into() && condition.reason == reason
                })
            })
            .await?;
        condition(&status, type_)
            .cloned()
            .context("it was there a moment ago")
    }

    /// Waits until an event about it has been told.
    pub async fn tells(&self, reason: &str) -> Result<String> {
        self.env
            .until(&format!("job {} tells {reason}", self.name), |world| {
                let told = world.told(&self.name, reason);
                told.first().map(|message| (*message).to_owned())
            })
            .await
    }

    /// Waits until its pods are exactly these.
    pub async fn has_pods(&self, names: &[String]) -> Result<BTreeMap<String, String>> {
        self.env
            .until(
                &format!("job {} has the pods {names:?}", self.name),
                |world| {
                    let uids = self.uids_in(world);
                    uids.keys().eq(names).then_some(uids)
                },
            )
            .await
    }

    /// The data of its ConfigMap, if it exists.
    pub fn config_map(&self) -> Option<BTreeMap<String, String>> {
        self.env
            .look(|world| world.config_maps.get(&self.name)?.data.clone())
    }

    /// Waits until a key of its ConfigMap has a value.
    pub async fn lists(&self, key: &str, value: &str) -> Result<()> {
        self.env
            .until(
                &format!("config map {}: {key}={value}", self.name),
                |world| {
                    let data = world.config_maps.get(&self.name)?.data.as_ref()?;
                    (data.get(key).map(String::as_str) == Some(value)).then_some(())
                },
            )
            .await
    }

    /// Changes the spec, as a user does.
    pub async fn change(&self, spec: Value) -> Result<()> {
        self.patch(json!({"spec": spec})).await
    }

    /// Changes an annotation, or takes it away.
    pub async fn annotate(&self, key: &str, value: Option<&str>) -> Result<()> {
        self.patch(json!({"metadata": {"annotations": {key: value}}}))
            .await
    }

    /// Changes the number of workers, as `kubectl scale` does.
    pub async fn scale(&self, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.env
            .api::<PaddleJob>()
            .patch_scale(&self.name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("scale job {}", self.name))?;
        Ok(())
    }

    /// Makes the manager look at it again.
    pub async fn touch(&self) -> Result<()> {
        let now = jiff::Timestamp::now().to_string();
        self.patch(json!({"metadata": {"annotations": {"touched": now}}}))
            .await
    }

    async fn patch(&self, patch: Value) -> Result<()> {
        self.env
            .api::<PaddleJob>()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("patch job {} with {patch}", self.name))?;
        Ok(())
    }

    /// Deletes it, as a user does.
    pub async fn delete(&self) -> Result<()> {
        self.delete_with(PropagationPolicy::Background).await
    }

    /// Deletes it with a given propagation.
    pub async fn delete_with(&self, propagation: PropagationPolicy) -> Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.env
            .api::<PaddleJob>()
            .delete(&self.name, &params)
            .await
            .with_context(|| format!("delete job {}", self.name))?;
        Ok(())
    }

    /// Waits until it is gone.
    pub async fn gone(&self) -> Result<()> {
        self.env
            .until(&format!("job {} is gone", self.name), |world| {
                self.find(world).is_none().then_some(())
            })
            .await
    }
}

/// A condition of a status.
pub(crate) fn condition<'s>(status: &'s PaddleJobStatus, type_: &str) -> Option<&'s Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
}
