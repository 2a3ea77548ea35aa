//! Names: taken by others, equal in two namespaces, and free again after a job.

use anyhow::{Context as _, Result, ensure};
use api::Phase;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::Resource;
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{finish, running, same};
use crate::builders::{job, template};
use crate::{Env, Job, Stage};

pub(super) async fn pod_taken(env: &Env) -> Result<()> {
    // Somebody else's pod, not even with our kubelets.
    env.kubelet.hold("a-worker-1", Stage::Created);
    let object = json!({"metadata": {"name": "a-worker-1"}, "spec": template().get("spec")});
    let job = taken::<Pod>(env, object, job("a").workers(2)).await?;
    env.kubelet.release("a-worker-1");
    job.reaches(Phase::Running).await?;
    Ok(())
}

pub(super) async fn config_map_taken(env: &Env) -> Result<()> {
    let object = json!({"metadata": {"name": "a"}, "data": {"PADDLE_PORT": "1"}});
    let job = taken::<ConfigMap>(env, object, job("a").workers(2)).await?;
    job.reaches(Phase::Running).await?;
    let found = env.kubelet.environment(&job.worker(0), "paddle")?;
    same(
        "port",
        found.get("PADDLE_PORT").map(String::as_str),
        Some("36000"),
    )
}

pub(super) async fn service_taken(env: &Env) -> Result<()> {
    let object = json!({
        "metadata": {"name": "a-worker-0", "labels": {"paddle-res-name": "a-worker-0"}},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    });
    let job = taken::<Service>(env, object, job("a").workers(2).service()).await?;
    job.reaches(Phase::Running).await?;
    Ok(())
}

/// A name that is taken is a condition; what has it is not touched; the job
/// goes on when the name is free.
async fn taken<'e, K>(
    env: &'e Env,
    object: Value,
    builder: crate::builders::JobBuilder,
) -> Result<Job<'e>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    env.kubelet.run_all();
    let api = env.api::<K>();
    let theirs: K = serde_json::from_value(object)?;
    let theirs = api.create(&PostParams::default(), &theirs).await?;
    let name = theirs.meta().name.clone().context("a name")?;
    let job = env.create(builder).await?;
    let told = job
        .has_condition("Scheduled", false, "NameTaken")
        .await?
        .message;
    ensure!(
        told.contains(&name) && told.contains(&*K::kind(&())),
        "{told}"
    );
    job.tells("NameTaken").await?;
    env.let_pass().await?;
    let told = env.look(|world| world.told(&job.name, "NameTaken").len());
    same("times that it was told", told, 1)?;
    let found = serde_json::to_value(api.get(&name).await?)?;
    same("what has the name", found, serde_json::to_value(&theirs)?)?;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(job)
}

/// One manager, two namespaces, one name: two jobs that have nothing in common.
pub(super) async fn same_name_in_two_namespaces(env: &Env) -> Result<()> {
    let beside = env.beside().await?;
    let played = two_namespaces(env, &beside).await;
    let told = played.map_err(|error| error.context(beside.describe()));
    let checked = told.and_then(|()| beside.check());
    beside.stop().await?;
    checked
}

async fn two_namespaces(env: &Env, beside: &Env) -> Result<()> {
    let here = running(env, job("a").ps(1).workers(2)).await?;
    let there = running(beside, job("a").ps(1).workers(2)).await?;
    ensure!(
        here.config_map() != there.config_map(),
        "one ConfigMap for two jobs"
    );
    let (ours, theirs) = (here.uids(), there.uids());
    env.delete_pod(&here.ps(0)).await?;
    here.runs(1).await?;
    ensure!(
        here.uids()
            .values()
            .all(|uid| !ours.values().any(|old| old == uid))
    );
    same("the other pods", there.uids(), theirs)?;
    same("the other attempt", there.status()?.attempt, Some(0))?;
    finish(beside, &[there.worker(0), there.worker(1)]).await?;
    there.reaches(Phase::Completed).await?;
    there.has_pods(&[]).await?;
    same("this phase", here.status()?.phase, Some(Phase::Running))?;
    same("these pods", here.uids().len(), 3)
}

/// A job that is deleted takes everything with it.
pub(super) async fn deletion_takes_everything(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2).service()).await?;
    job.delete().await?;
    everything_is_gone(env, &job).await
}

/// The same when the user waits for it: the job says Terminating, and makes no
/// pod again that goes.
pub(super) async fn deletion_in_the_foreground(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2).service()).await?;
    env.kubelet.refuse_to_delete(&job.worker(1));
    job.delete_with(PropagationPolicy::Foreground).await?;
    job.reaches(Phase::Terminating).await?;
    env.pod_gone(&job.worker(0)).await?;
    env.let_pass().await?;
    env.kubelet.allow_to_delete(&job.worker(1));
    everything_is_gone(env, &job).await
}

async fn everything_is_gone(env: &Env, job: &Job<'_>) -> Result<()> {
    job.gone().await?;
    env.until("everything is gone", |world| {
        let gone = world.pods.now.is_empty()
            && world.services.now.is_empty()
            && world.config_maps.get(&job.name).is_none();
        gone.then_some(())
    })
    .await?;
    for pod in job.pods() {
        let born = env.look(|world| world.pods.incarnations(pod).len());
        same(&format!("{pod} was made"), born, 1)?;
    }
    Ok(())
}
