//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`.

use anyhow::{Result, ensure};
use api::Phase;
use serde_json::json;

use super::{finish, running, same};
use crate::Env;
use crate::builders::job;

/// By the manager's own timer, whatever the job does.
pub(super) async fn of_one_second(env: &Env) -> Result<()> {
    let waiting = env.create(job("waiting").workers(1).deadline(1)).await?;
    waiting
        .has_condition("Failed", true, "DeadlineExceeded")
        .await?;
    waiting.reaches(Phase::Failed).await?;
    // It never had a node, so that it has no logs to keep.
    waiting.has_pods(&[]).await?;
    env.kubelet.run_all();
    let busy = env.create(job("busy").workers(2).deadline(1)).await?;
    let why = busy
        .has_condition("Failed", true, "DeadlineExceeded")
        .await?;
    ensure!(
        why.message.contains("activeDeadlineSeconds"),
        "{}",
        why.message
    );
    Ok(())
}

pub(super) async fn of_an_hour(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2).deadline(3600).backoff(5)).await?;
    env.advance(3000, &job).await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    env.advance(700, &job).await?;
    job.has_condition("Failed", true, "DeadlineExceeded")
        .await?;
    // The pods are kept, and stopped: a policy that is not set cleans up
    // after success only.
    for pod in job.pods() {
        env.pod_until(pod, "is stopped", |pod| {
            pod.status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                == Some("Failed")
        })
        .await?;
    }
    same("restarts", job.status()?.restarts, Some(0))
}

/// The time in which a job was suspended does not count.
pub(super) async fn without_the_suspended_time(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(1).deadline(3600)).await?;
    job.change(json!({"suspend": true})).await?;
    job.reaches(Phase::Suspended).await?;
    job.has_pods(&[]).await?;
    env.advance(4000, &job).await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Suspended))?;
    job.change(json!({"suspend": false})).await?;
    job.runs(1).await?;
    env.advance(3000, &job).await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    env.advance(1000, &job).await?;
    job.has_condition("Failed", true, "DeadlineExceeded")
        .await?;
    Ok(())
}

/// A finished job goes after its time, and everything with it.
pub(super) async fn ttl_of_one_second(env: &Env) -> Result<()> {
    let good = running(env, job("good").workers(1).ttl(1).clean("Never")).await?;
    let bad = running(env, job("bad").workers(1).ttl(0).clean("Never")).await?;
    finish(env, good.pods()).await?;
    env.kubelet.exit(&bad.worker(0), 1, "").await?;
    for job in [&good, &bad] {
        job.gone().await?;
        job.has_pods(&[]).await?;
    }
    let last = |name: &str| env.look(|world| world.phases(name).last().copied());
    same("good", last("good"), Some(Phase::Completed))?;
    same("bad", last("bad"), Some(Phase::Failed))
}

/// Not before its time, and not while it runs.
pub(super) async fn ttl_of_an_hour(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(1).ttl(3600)).await?;
    env.advance(4000, &job).await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    finish(env, job.pods()).await?;
    job.reaches(Phase::Completed).await?;
    env.advance(3000, &job).await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Completed))?;
    env.advance(700, &job).await?;
    job.gone().await
}
