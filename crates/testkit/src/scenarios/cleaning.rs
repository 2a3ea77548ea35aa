//! `cleanPodPolicy`: what becomes of the pods of a job that has ended.

use anyhow::{Context as _, Result, ensure};
use api::Phase;
use k8s_openapi::api::core::v1::Pod;

use super::{finish, running, same};
use crate::builders::{JobBuilder, job};
use crate::{Env, Job};

pub(super) async fn unset(env: &Env) -> Result<()> {
    policy(env, None, true, false).await
}

pub(super) async fn always(env: &Env) -> Result<()> {
    policy(env, Some("Always"), true, true).await
}

pub(super) async fn never(env: &Env) -> Result<()> {
    policy(env, Some("Never"), false, false).await
}

pub(super) async fn on_failure(env: &Env) -> Result<()> {
    policy(env, Some("OnFailure"), false, true).await
}

pub(super) async fn on_completion(env: &Env) -> Result<()> {
    policy(env, Some("OnCompletion"), true, false).await
}

/// A word that nobody knows keeps everything, and the user hears of it.
pub(super) async fn misspelt(env: &Env) -> Result<()> {
    policy(env, Some("OnFailed"), false, false).await?;
    let told = env
        .until("a Warning about the policy", |world| {
            let mut events = world.events.now.values();
            let warning = events.find(|event| {
                event.type_.as_deref() == Some("Warning")
                    && event
                        .message
                        .as_deref()
                        .is_some_and(|m| m.contains("cleanPodPolicy"))
            });
            warning.and_then(|event| event.message.clone())
        })
        .await?;
    for word in ["OnFailed", "Always", "Never", "OnFailure", "OnCompletion"] {
        ensure!(told.contains(word), "no {word} in {told:?}");
    }
    Ok(())
}

/// Plays both endings under a policy.
async fn policy(
    env: &Env,
    policy: Option<&str>,
    cleans_completed: bool,
    cleans_failed: bool,
) -> Result<()> {
    let with_policy = |builder: JobBuilder| match policy {
        Some(policy) => builder.clean(policy),
        None => builder,
    };
    let good = running(env, with_policy(job("good").ps(1).workers(2).service())).await?;
    let bad = running(env, with_policy(job("bad").workers(2))).await?;
    finish(env, &[good.worker(0), good.worker(1)]).await?;
    env.kubelet.exit(&bad.worker(1), 1, "").await?;
    good.reaches(Phase::Completed).await?;
    bad.reaches(Phase::Failed).await?;
    if cleans_completed {
        good.has_pods(&[]).await?;
        env.until("the Services are gone", |world| {
            world.services.now.is_empty().then_some(())
        })
        .await?;
    } else {
        is_kept(env, &good, &good.ps(0)).await?;
        let services = env.look(|world| world.services.now.len());
        same("Services", services, 3)?;
    }
    if cleans_failed {
        bad.has_pods(&[]).await?;
    } else {
        is_kept(env, &bad, &bad.worker(0)).await?;
    }
    Ok(())
}

/// All pods stay, for their logs, and what still ran is stopped.
async fn is_kept(env: &Env, job: &Job<'_>, stopped: &str) -> Result<()> {
    let over = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        status.reason.as_deref() == Some("DeadlineExceeded")
    };
    let pod = env.pod_until(stopped, "is stopped", over).await?;
    let deadline = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.active_deadline_seconds);
    same("activeDeadlineSeconds", deadline, Some(1))?;
    env.let_pass().await?;
    let pods: Vec<String> = job.uids().into_keys().collect();
    same("pods", pods, job.pods().to_vec())?;
    for pod in job.pods() {
        let born = env.look(|world| world.pods.incarnations(pod).len());
        same(pod, born, 1)?;
    }
    // Stopping a pod makes it a failed one; that is no failure of the job.
    let phase = job.status()?.phase.context("no phase")?;
    ensure!(phase.is_terminal(), "{phase}");
    let phases = env.look(|world| world.phases(&job.name));
    same("last phase", phases.last(), Some(&phase))
}
