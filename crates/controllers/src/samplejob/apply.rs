//! Applying: writing what the plan says. Every step may be repeated.

use api::{SampleJob, SampleSet, SampleSetStatus};
use cache_api::NewJob;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use plan::operation::Post;
use plan::samplejob::{Lock, Named, Plan, Seen};
use serde_json::json;

use super::context::Context;
use crate::error::code;
use crate::runtime::{self, credentials};
use crate::{Error, identity, status};

/// Writes what the plan says, in the order of its fields. True when the job itself
/// was changed: the status waits for the next pass.
pub(super) async fn apply(
    context: &Context,
    job: &SampleJob,
    seen: &Seen,
    plan: &Plan,
) -> Result<bool, Error> {
    // Named one by one, so that a new kind of step can't be forgotten here.
    let Plan {
        finalizers,
        lock,
        cancelled,
        posted,
        runs_created,
        runs_deleted,
        deletes_job,
        status: _,
        events: _,
        wake_at: _,
    } = plan;
    let on = Target {
        context,
        job,
        namespace: identity(&job.metadata.namespace),
        name: identity(&job.metadata.name),
        uid: identity(&job.metadata.uid),
    };
    if let Some(finalizers) = finalizers {
        on.set_finalizers(finalizers).await?;
        return Ok(true);
    }
    for cancel in cancelled {
        let servers = &context.servers;
        servers.cancel(on.uid, cancel.partition, &cancel.id).await;
    }
    for post in posted {
        on.post(post).await?;
    }
    for run in runs_created {
        on.create_run(run).await?;
    }
    for run in runs_deleted {
        on.delete(run).await?;
    }
    if *deletes_job {
        let own = Named {
            name: on.name.to_owned(),
            uid: on.uid.to_owned(),
        };
        on.delete(&own).await?;
        return Ok(true);
    }
    if let (Some(lock), Some(set)) = (lock, &seen.set) {
        on.lock(lock, set).await?;
    }
    Ok(false)
}

/// The job that is worked on.
struct Target<'a> {
    context: &'a Context,
    job: &'a SampleJob,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl Target<'_> {
    fn jobs(&self) -> Api<SampleJob> {
        Api::namespaced(self.context.client.clone(), self.namespace)
    }

    async fn set_finalizers(&self, finalizers: &[String]) -> Result<(), Error> {
        let meta = &self.job.metadata;
        let patch = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let patched = self
            .jobs()
            .patch_metadata(self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Err(source) if code(&source) != Some(404) => {
                Err(self.failed("patch", self.name, source))
            }
            _ => Ok(()),
        }
    }

    /// Takes or gives back the set, provided that nobody else did meanwhile.
    async fn lock(&self, lock: &Lock, set: &SampleSet) -> Result<(), Error> {
        let new = SampleSetStatus {
            operation: lock.operation.clone(),
            ..set.status.clone().unwrap_or_default()
        };
        let (client, memories) = (&self.context.client, &self.context.memories);
        status::replace::<SampleSet>(client, memories, &set.metadata, &new).await
    }

    async fn post(&self, post: &Post) -> Result<(), Error> {
        let client = &self.context.client;
        let keys = match &post.credentials {
            Some(wanted) => Some(credentials(client, self.namespace, wanted).await?),
            None => None,
        };
        let job = NewJob {
            id: post.id.clone(),
            owner: post.owner.clone(),
            task: runtime::task(&post.task),
            credentials: keys,
        };
        let servers = &self.context.servers;
        servers.post(self.uid, post.partition, &job).await;
        Ok(())
    }

    async fn create_run(&self, run: &serde_json::Value) -> Result<(), Error> {
        let name = run.pointer("/metadata/name").and_then(|name| name.as_str());
        let name = name.unwrap_or_default();
        let run: SampleJob = serde_json::from_value(run.clone())
            .map_err(|error| self.failed("create", name, kube::Error::SerdeError(error)))?;
        match self.jobs().create(&PostParams::default(), &run).await {
            Err(source) if code(&source) != Some(409) => Err(self.failed("create", name, source)),
            _ => Ok(()),
        }
    }

    async fn delete(&self, job: &Named) -> Result<(), Error> {
        let how = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(job.uid.clone()),
                resource_version: None,
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.jobs().delete(&job.name, &how).await {
            Err(source) if !matches!(code(&source), Some(404 | 409)) => {
                Err(self.failed("delete", &job.name, source))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, action: &'static str, name: &str, source: kube::Error) -> Error {
        Error::Apply {
            action,
            kind: "SampleJob",
            name: name.to_owned(),
            source,
        }
    }
}
