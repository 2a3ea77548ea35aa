//! What the Go operator v0.3.5 left behind is taken over as it is.

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, Phase, Role, labels};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};

use super::{finish, ready, same, waits_for_config};
use crate::builders::{JobBuilder, job, template};
use crate::go::{GoJob, PORT};
use crate::{Env, Job, Stage};

/// A job under the Go operator, with the first so many of its pods. The
/// manager does not run.
async fn go_job<'e>(env: &'e Env, builder: JobBuilder, made: usize) -> Result<Job<'e>> {
    env.stop_manager().await?;
    let mut object = builder.build();
    object.metadata.finalizers = Some(vec![labels::GO_FINALIZER.to_owned()]);
    let object = env
        .api::<PaddleJob>()
        .create(&PostParams::default(), &object)
        .await?;
    let job = env.job(&object);
    let by_service = object.spec.intranet.as_deref() == Some("Service");
    let go = as_go(&job, by_service);
    for pod in job.pods().iter().take(made) {
        let manifest = go.pod(pod, &template(), "paddle:test")?;
        let manifest: Pod = serde_json::from_value(manifest)?;
        env.api().create(&PostParams::default(), &manifest).await?;
        let service: Service = serde_json::from_value(go.service(pod))?;
        env.api().create(&PostParams::default(), &service).await?;
    }
    Ok(job)
}

fn as_go(job: &Job<'_>, by_service: bool) -> GoJob {
    GoJob {
        name: job.name.clone(),
        uid: job.uid.clone(),
        by_service,
    }
}

/// Lets the pods of a Go job run: their addresses, its ConfigMap, its status.
async fn go_runs(env: &Env, job: &Job<'_>, by_service: bool, phase: &str) -> Result<()> {
    env.kubelet.run_up_to(Stage::Addressed);
    for pod in job.pods() {
        env.pod_until(pod, "has an address", |pod| {
            pod.status
                .as_ref()
                .is_some_and(|status| status.pod_ip.is_some())
        })
        .await?;
    }
    let hosts = |role: Role| -> Result<Vec<String>> {
        let prefix = format!("{}-{role}-", job.name);
        let pods = job.pods().iter();
        let pods: Vec<String> = pods
            .filter(|pod| pod.starts_with(&prefix))
            .cloned()
            .collect();
        if by_service {
            Ok(pods)
        } else {
            job.addresses(&pods)
        }
    };
    let map = as_go(job, by_service).config_map(&hosts(Role::Ps)?, &hosts(Role::Worker)?);
    let map: ConfigMap = serde_json::from_value(map)?;
    env.api().create(&PostParams::default(), &map).await?;
    env.kubelet.run_all();
    for pod in job.pods() {
        env.pod_until(pod, "runs", ready).await?;
    }
    go_status(env, job, phase).await
}

/// The status as the Go operator wrote it.
async fn go_status(env: &Env, job: &Job<'_>, phase: &str) -> Result<()> {
    let status = as_go(job, false).status(phase, &job.uids(), &env.namespace);
    env.api::<PaddleJob>()
        .patch_status(&job.name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

/// Waits until the new operator has looked at everything, and the finalizer is gone.
async fn is_taken_over(env: &Env, job: &Job<'_>) -> Result<()> {
    env.start_manager().await?;
    env.until("the finalizer is removed", |world| {
        let job = world.jobs.get(&job.name)?;
        job.finalizers().is_empty().then_some(())
    })
    .await?;
    env.let_pass().await
}

pub(super) async fn ps_job(env: &Env) -> Result<()> {
    runs_on(env, job("a").ps(1).workers(2), false).await
}

pub(super) async fn collective_job(env: &Env) -> Result<()> {
    runs_on(env, job("a").workers(2), false).await
}

pub(super) async fn job_with_services(env: &Env) -> Result<()> {
    runs_on(env, job("a").ps(1).workers(2).service(), true).await
}

/// Pods and lists stay as they are, and the job ends as it would have.
async fn runs_on(env: &Env, builder: JobBuilder, by_service: bool) -> Result<()> {
    let job = go_job(env, builder, usize::MAX).await?;
    go_runs(env, &job, by_service, "Running").await?;
    let (uids, map) = (job.uids(), job.config_map());
    is_taken_over(env, &job).await?;
    same("pods", job.uids(), uids)?;
    same("the ConfigMap", job.config_map(), map)?;
    let status = job.reaches(Phase::Running).await?;
    same("attempt", status.attempt, Some(0))?;
    let started = status.start_time.context("no startTime")?.0.to_string();
    same("startTime", started.as_str(), "2023-05-05T05:05:05Z")?;
    let workers = [job.worker(0), job.worker(1)];
    finish(env, &workers).await?;
    job.reaches(Phase::Completed).await?;
    job.has_pods(&[]).await?;
    for pod in job.pods() {
        let born = env.look(|world| world.pods.incarnations(pod).len());
        same(&format!("{pod} was made"), born, 1)?;
    }
    Ok(())
}

/// A job that the Go operator was still making, one pod after another.
pub(super) async fn half_made_job(env: &Env) -> Result<()> {
    let job = go_job(env, job("a").workers(2), 1).await?;
    env.kubelet.run_all();
    env.pod_until(&job.worker(0), "waits", waits_for_config)
        .await?;
    go_status(env, &job, "Pending").await?;
    let old = job.uids();
    is_taken_over(env, &job).await?;
    env.pod_until(&job.worker(1), "runs", ready).await?;
    // It has no key to be woken for: its kubelet tries again by itself.
    env.kubelet.retry(&job.worker(0)).await?;
    job.reaches(Phase::Running).await?;
    same(
        "the first pod",
        job.uids().get(&job.worker(0)),
        old.get(&job.worker(0)),
    )?;
    let wanted = job.addresses(job.pods())?.join(",");
    for pod in job.pods() {
        let found = env.kubelet.environment(pod, "paddle")?;
        same(pod, found.get("PADDLE_TRAINERS"), Some(&wanted))?;
    }
    Ok(())
}

/// A job that had ended: its pods stay, and nothing starts again.
pub(super) async fn ended_job(env: &Env) -> Result<()> {
    let job = go_job(env, job("a").workers(2).clean("Never"), usize::MAX).await?;
    go_runs(env, &job, false, "Running").await?;
    finish(env, job.pods()).await?;
    go_status(env, &job, "Completed").await?;
    let uids = job.uids();
    is_taken_over(env, &job).await?;
    same("pods", job.uids(), uids)?;
    let status = job.status()?;
    same("phase", status.phase, Some(Phase::Completed))?;
    ensure!(status.completion_time.is_some(), "no completionTime");
    Ok(())
}

/// A job that was being deleted: its finalizer was all that kept it.
pub(super) async fn deleted_job(env: &Env) -> Result<()> {
    let job = go_job(env, job("a").workers(2), usize::MAX).await?;
    go_runs(env, &job, false, "Running").await?;
    job.delete().await?;
    env.until("the job waits for its finalizer", |world| {
        world
            .jobs
            .get("a")?
            .metadata
            .deletion_timestamp
            .as_ref()
            .map(|_| ())
    })
    .await?;
    env.start_manager().await?;
    job.gone().await?;
    job.has_pods(&[]).await?;
    Ok(())
}

/// A worker of a PS job is replaced; its peers listen where they always did.
pub(super) async fn replaced_worker(env: &Env) -> Result<()> {
    let job = go_job(env, job("a").ps(1).workers(2), usize::MAX).await?;
    go_runs(env, &job, false, "Running").await?;
    is_taken_over(env, &job).await?;
    let old = job.uids();
    let lost = job.worker(1);
    env.delete_pod(&lost).await?;
    env.pod_until(&lost, "is back", |pod| {
        pod.uid().as_ref() != old.get(&lost) && ready(pod)
    })
    .await?;
    let found = env.kubelet.environment(&lost, "paddle")?;
    let ip = job.addresses(std::slice::from_ref(&lost))?.concat();
    let endpoint = format!("{ip}:{PORT}");
    same(
        "its endpoint",
        found.get("PADDLE_CURRENT_ENDPOINT"),
        Some(&endpoint),
    )?;
    let server = job.addresses(&[job.ps(0)])?.concat();
    let server = format!("{server}:{PORT}");
    same(
        "its server",
        found.get("PADDLE_PSERVERS_IP_PORT_LIST"),
        Some(&server),
    )?;
    for pod in [job.ps(0), job.worker(0)] {
        same(&pod, job.uids().get(&pod), old.get(&pod))?;
    }
    Ok(())
}

/// A Collective job starts again whole, as any other.
pub(super) async fn restarted_job(env: &Env) -> Result<()> {
    let job = go_job(env, job("a").workers(2), usize::MAX).await?;
    go_runs(env, &job, false, "Running").await?;
    is_taken_over(env, &job).await?;
    env.delete_pod(&job.worker(0)).await?;
    job.runs(1).await?;
    let wanted = job.addresses(job.pods())?.join(",");
    for pod in job.pods() {
        let found = env.kubelet.environment(pod, "paddle")?;
        same(pod, found.get("PADDLE_TRAINERS"), Some(&wanted))?;
    }
    Ok(())
}
