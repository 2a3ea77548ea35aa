//! The number of pods changes while a job runs, through its spec or through
//! the scale subresource.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use api::{PaddleJob, Phase};
use kube::ResourceExt;
use serde_json::json;

use super::{finish, ready, running, same};
use crate::builders::{JobBuilder, job};
use crate::{Env, Job};

/// How a user changes the number of workers.
#[derive(Clone, Copy)]
enum By {
    Spec,
    Scale,
}

async fn resize(job: &Job<'_>, by: By, workers: i32) -> Result<()> {
    match by {
        By::Spec => job.change(json!({"worker": {"replicas": workers}})).await,
        By::Scale => job.scale(workers).await,
    }
}

pub(super) async fn ps_workers_by_spec(env: &Env) -> Result<()> {
    ps_workers(env, job("a").ps(1).workers(2), By::Spec).await
}

pub(super) async fn ps_workers_by_scale(env: &Env) -> Result<()> {
    ps_workers(env, job("a").ps(1).workers(2), By::Scale).await
}

/// By names: the Services follow too.
pub(super) async fn ps_workers_by_service(env: &Env) -> Result<()> {
    let job = ps_workers(env, job("a").ps(1).workers(2).service(), By::Spec);
    job.await?;
    env.until("the Services follow", |world| {
        let services: Vec<&String> = world.services.now.keys().collect();
        (services == ["a-ps-0", "a-worker-0"]).then_some(())
    })
    .await
}

/// Workers of a PS job come and go one by one, and the ConfigMap follows.
async fn ps_workers(env: &Env, builder: JobBuilder, by: By) -> Result<()> {
    let job = running(env, builder).await?;
    let old = job.uids();
    resize(&job, by, 3).await?;
    runs_at(&job, 2).await?;
    let mut pods = job.pods().to_vec();
    pods.push(job.worker(2));
    let new = job.has_pods(&pods).await?;
    are_kept(&old, &new)?;
    env.pod_until(&job.worker(2), "runs", ready).await?;
    job.lists("PADDLE_TRAINERS_NUM", "3").await?;
    let found = env.kubelet.environment(&job.worker(2), "paddle")?;
    same(
        "peers",
        found
            .get("PADDLE_TRAINERS")
            .map(|all| all.split(',').count()),
        Some(3),
    )?;
    scale_shows(env, 3).await?;

    resize(&job, by, 1).await?;
    runs_at(&job, 3).await?;
    let left = job.has_pods(&[job.ps(0), job.worker(0)]).await?;
    are_kept(&left, &old)?;
    job.lists("PADDLE_TRAINERS_NUM", "1").await?;
    scale_shows(env, 1).await?;
    let status = job.status()?;
    same("attempt", status.attempt, Some(0))?;
    same("restarts", status.restarts, Some(0))?;
    let phases = env.look(|world| world.phases("a"));
    ensure!(phases.contains(&Phase::Scaling), "{phases:?}");
    finish(env, &[job.worker(0)]).await?;
    job.reaches(Phase::Completed).await?;
    Ok(())
}

/// Waits until a job runs as a generation of its spec asks for.
async fn runs_at(job: &Job<'_>, generation: i64) -> Result<()> {
    job.until(&format!("runs at generation {generation}"), |status| {
        status.observed_generation == Some(generation) && status.phase == Some(Phase::Running)
    })
    .await?;
    Ok(())
}

/// Every pod of `some` is the same in `all`.
fn are_kept(some: &BTreeMap<String, String>, all: &BTreeMap<String, String>) -> Result<()> {
    for (pod, uid) in some {
        same(pod, all.get(pod), Some(uid))?;
    }
    Ok(())
}

async fn scale_shows(env: &Env, replicas: i32) -> Result<()> {
    let scale = env.api::<PaddleJob>().get_scale("a").await?;
    let status = scale.status.unwrap_or_default();
    same("scale", status.replicas, replicas)?;
    let selector = status.selector.unwrap_or_default();
    ensure!(selector.contains("role=worker"), "{selector}");
    Ok(())
}

pub(super) async fn collective_by_spec(env: &Env) -> Result<()> {
    collective(env, By::Spec).await
}

pub(super) async fn collective_by_scale(env: &Env) -> Result<()> {
    collective(env, By::Scale).await
}

/// The world of a Collective job has one size: it starts again whole.
async fn collective(env: &Env, by: By) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    let mut uids = job.uids();
    for (attempt, workers) in [(1, 3), (2, 2), (3, 1), (4, 2)] {
        resize(&job, by, workers).await?;
        let status = job.runs(attempt).await?;
        same("restarts", status.restarts, Some(0))?;
        let mode = if workers > 1 { "Collective" } else { "Single" };
        same("mode", status.mode.as_deref(), Some(mode))?;
        let pods: Vec<String> = (0..workers).map(|rank| job.worker(rank)).collect();
        let new = job.has_pods(&pods).await?;
        let kept = new.iter().find(|(pod, uid)| uids.get(*pod) == Some(uid));
        ensure!(kept.is_none(), "{kept:?} was not restarted");
        let wanted = job.addresses(&pods)?.join(",");
        for pod in &pods {
            let found = env.kubelet.environment(pod, "paddle")?;
            same(pod, found.get("PADDLE_TRAINERS"), Some(&wanted))?;
        }
        uids = new;
    }
    let phases = env.look(|world| world.phases("a"));
    ensure!(phases.contains(&Phase::Scaling), "{phases:?}");
    Ok(())
}

/// Parameters are spread over the servers, so that another number of them
/// starts the job again.
pub(super) async fn servers(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(1)).await?;
    let old = job.uids();
    job.change(json!({"ps": {"replicas": 2}})).await?;
    let status = job.runs(1).await?;
    same("restarts", status.restarts, Some(0))?;
    let new = job.has_pods(&[job.ps(0), job.ps(1), job.worker(0)]).await?;
    let kept = old.iter().find(|(pod, uid)| new.get(*pod) == Some(uid));
    ensure!(kept.is_none(), "{kept:?} was not restarted");
    let found = env.kubelet.environment(&job.worker(0), "paddle")?;
    let wanted = job.addresses(&[job.ps(0), job.ps(1)])?.join(":36000,") + ":36000";
    same(
        "servers",
        found.get("PADDLE_PSERVERS_IP_PORT_LIST"),
        Some(&wanted),
    )
}

/// Changed before it ever ran.
pub(super) async fn before_it_runs(env: &Env) -> Result<()> {
    let coll = env.create(job("coll").workers(2)).await?;
    let ps = env.create(job("ps").ps(1).workers(2)).await?;
    for job in [&coll, &ps] {
        job.reaches(Phase::Pending).await?;
        job.scale(3).await?;
        // The operator has seen it: before, it may publish the first size.
        env.pod_until(&job.worker(2), "is created", |_| true)
            .await?;
    }
    env.kubelet.run_all();
    for job in [&coll, &ps] {
        runs_at(job, 2).await?;
        let workers: Vec<String> = (0..3).map(|rank| job.worker(rank)).collect();
        let wanted = job.addresses(&workers)?.join(",");
        for worker in &workers {
            let found = env.kubelet.environment(worker, "paddle")?;
            same(worker, found.get("PADDLE_TRAINERS"), Some(&wanted))?;
        }
    }
    Ok(())
}

/// A pod that is still going is wanted again: another takes its place.
pub(super) async fn down_and_up_again(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(3)).await?;
    let old = job.uids();
    let last = job.worker(2);
    env.kubelet.refuse_to_delete(&last);
    job.scale(2).await?;
    env.pod_until(&last, "goes", |pod| {
        pod.metadata.deletion_timestamp.is_some()
    })
    .await?;
    job.scale(3).await?;
    env.let_pass().await?;
    same("pods", job.uids(), old.clone())?;
    env.kubelet.allow_to_delete(&last);
    env.pod_until(&last, "is back", |pod| {
        pod.uid().as_ref() != old.get(&last) && ready(pod)
    })
    .await?;
    runs_at(&job, 3).await?;
    let new = job.uids();
    for pod in [job.ps(0), job.worker(0), job.worker(1)] {
        same(&pod, new.get(&pod), old.get(&pod))?;
    }
    let workers: Vec<String> = (0..3).map(|rank| job.worker(rank)).collect();
    let found = env.kubelet.environment(&last, "paddle")?;
    let wanted = job.addresses(&workers)?.join(",");
    same("its peers", found.get("PADDLE_TRAINERS"), Some(&wanted))
}
