//! `spec.suspend`: the pods go, and come again when it is unset.

use anyhow::{Result, ensure};
use api::Phase;
use serde_json::json;

use super::{running, same};
use crate::Env;
use crate::builders::job;

pub(super) async fn and_resume(env: &Env) -> Result<()> {
    for builder in [job("ps").ps(1).workers(2), job("coll").workers(2).service()] {
        let job = running(env, builder).await?;
        let old = job.uids();
        job.change(json!({"suspend": true})).await?;
        let status = job.reaches(Phase::Suspended).await?;
        same("startTime", status.start_time, None)?;
        job.has_condition("Suspended", true, "Suspended").await?;
        job.has_condition("Running", false, "Suspended").await?;
        job.has_pods(&[]).await?;
        env.let_pass().await?;
        same("pods", job.uids().len(), 0)?;
        job.change(json!({"suspend": false})).await?;
        let status = job.runs(1).await?;
        same("restarts", status.restarts, Some(0))?;
        ensure!(status.start_time.is_some(), "no startTime");
        job.has_condition("Suspended", false, "Resumed").await?;
        let new = job.has_pods(job.pods()).await?;
        ensure!(
            new.values().all(|uid| !old.values().any(|old| old == uid)),
            "an old pod"
        );
    }
    Ok(())
}

/// Nothing at all is made before it is resumed.
pub(super) async fn from_the_start(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let job = env
        .create(job("a").ps(1).workers(2).service().suspended())
        .await?;
    job.reaches(Phase::Suspended).await?;
    env.let_pass().await?;
    let made = env.look(|world| {
        let pods = job
            .pods()
            .iter()
            .filter(|pod| !world.pods.incarnations(pod).is_empty());
        (
            pods.count(),
            world.services.all.len(),
            world.config_maps.get("a").is_some(),
        )
    });
    same("pods, Services, ConfigMap", made, (0, 0, false))?;
    job.change(json!({"suspend": null})).await?;
    job.runs(0).await?;
    Ok(())
}

/// It resumes as its spec is then.
pub(super) async fn and_scale(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    job.change(json!({"suspend": true})).await?;
    job.reaches(Phase::Suspended).await?;
    job.scale(3).await?;
    job.has_pods(&[]).await?;
    job.change(json!({"suspend": false})).await?;
    let status = job
        .until("runs again", |status| status.phase == Some(Phase::Running))
        .await?;
    same("restarts", status.restarts, Some(0))?;
    job.has_pods(&[job.worker(0), job.worker(1), job.worker(2)])
        .await?;
    job.lists("PADDLE_TRAINERS_NUM", "3").await
}

/// No pod of the new attempt meets one of the old.
pub(super) async fn waits_for_the_last_pod(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    let slow = job.worker(1);
    env.kubelet.refuse_to_delete(&slow);
    job.change(json!({"suspend": true})).await?;
    job.has_pods(std::slice::from_ref(&slow)).await?;
    job.change(json!({"suspend": false})).await?;
    job.until("is no longer suspended", |status| {
        status.phase != Some(Phase::Suspended)
    })
    .await?;
    env.let_pass().await?;
    same("pods", job.uids().into_keys().collect(), vec![slow.clone()])?;
    env.kubelet.allow_to_delete(&slow);
    job.runs(1).await?;
    Ok(())
}
