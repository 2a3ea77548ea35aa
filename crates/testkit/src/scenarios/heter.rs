//! Heterogeneous training: workers, and heter trainers behind them.

use anyhow::{Context as _, Result};
use api::{Phase, Role};
use k8s_openapi::api::core::v1::Pod;

use super::{finish, ready, running, same, waits_for_config};
use crate::builders::{JobBuilder, job};
use crate::{Env, Job, Stage};

fn heter() -> JobBuilder {
    job("a").ps(1).workers(2).heters(1)
}

fn endpoints(job: &Job<'_>, role: Role, replicas: i32) -> Result<String> {
    let pods: Vec<String> = (0..replicas).map(|rank| job.pod(role, rank)).collect();
    let addresses = job.addresses(&pods)?;
    let all = addresses.iter().map(|address| format!("{address}:36000"));
    Ok(all.collect::<Vec<_>>().join(","))
}

/// The variables of the stages are those that Paddle's own launcher gives.
pub(super) async fn stages(env: &Env) -> Result<()> {
    let job = running(env, heter()).await?;
    let workers = endpoints(&job, Role::Worker, 2)?;
    let heters = endpoints(&job, Role::Heter, 1)?;
    let all = [
        (
            "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
            Some(heters.as_str()),
        ),
        ("PADDLE_TRAINER_ENDPOINTS", Some(&workers)),
        ("PADDLE_TRAINERS_NUM", Some("2")),
        ("STAGE_NUM", Some("2")),
        ("PADDLE_STAGE_TRAINERS_NUM", Some("[2, 1]")),
        // Its barriers have no place for heter trainers.
        ("PADDLE_WITH_GLOO", None),
    ];
    const BEFORE: &str = "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST";
    const BEHIND: &str = "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST";
    for (pod, own) in [
        (
            job.ps(0),
            [
                ("TRAINING_ROLE", Some("PSERVER")),
                ("STAGE_ID", None),
                (BEFORE, None),
                (BEHIND, None),
            ],
        ),
        (
            job.worker(1),
            [
                ("TRAINING_ROLE", Some("TRAINER")),
                ("STAGE_ID", Some("1")),
                (BEFORE, Some("")),
                (BEHIND, Some(heters.as_str())),
            ],
        ),
        (
            job.heter(0),
            [
                ("TRAINING_ROLE", Some("HETER_TRAINER")),
                ("STAGE_ID", Some("2")),
                (BEFORE, Some(workers.as_str())),
                (BEHIND, Some("")),
            ],
        ),
    ] {
        let found = env.kubelet.environment(&pod, "paddle")?;
        for (name, wanted) in all.iter().chain(&own) {
            let found = found.get(*name).map(String::as_str);
            same(&format!("{name} of {pod}"), found, *wanted)?;
        }
    }
    same("mode", job.status()?.mode.as_deref(), Some("PS"))
}

/// Servers, then the others; a worker also waits until heter trainers listen.
pub(super) async fn start_in_order(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("a-ps-0", Stage::Addressed);
    let job = env.create(heter()).await?;
    for pod in [job.heter(0), job.worker(0), job.worker(1)] {
        env.pod_until(&pod, "waits", waits_for_config).await?;
    }
    env.let_pass().await?;
    let waits = env.kubelet.starts(&job.heter(0), "coord-paddle");
    same("starts of its wait container", waits.len(), 0)?;
    env.kubelet.release("a-ps-0");
    job.reaches(Phase::Running).await?;
    for (pod, wanted) in [
        (job.worker(0), &["wait", "--servers", "--heters"][..]),
        (job.heter(0), &["wait", "--servers"]),
    ] {
        let found = env.pod_until(&pod, "runs", ready).await?;
        let spec = found.spec.clone().context("a pod without spec")?;
        let mut inits = spec.init_containers.into_iter().flatten();
        let args = inits.next().and_then(|init| init.args).unwrap_or_default();
        same(
            &pod,
            args.iter().map(String::as_str).collect(),
            wanted.to_vec(),
        )?;
        // What it waits for.
        let found = env.kubelet.environment(&pod, "coord-paddle")?;
        let list = "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST";
        let heters = endpoints(&job, Role::Heter, 1)?;
        same(list, found.get(list), Some(&heters))?;
    }
    Ok(())
}

/// Heter trainers never end by themselves: as servers, they are stopped.
pub(super) async fn ends_with_its_workers(env: &Env) -> Result<()> {
    let job = running(env, heter()).await?;
    env.kubelet.exit(&job.worker(0), 0, "").await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    finish(env, &[job.worker(1)]).await?;
    let status = job.reaches(Phase::Completed).await?;
    job.has_pods(&[]).await?;
    let succeeded =
        [status.ps, status.worker, status.heter].map(|role| role.map_or(0, |role| role.succeeded));
    same("succeeded", succeeded, [1, 2, 1])?;
    job.delete().await?;
    job.gone().await?;
    // With their logs, if these are wanted.
    let job = running(env, heter().clean("Never")).await?;
    finish(env, &[job.worker(0), job.worker(1)]).await?;
    job.reaches(Phase::Completed).await?;
    for pod in [job.ps(0), job.heter(0)] {
        let is_stopped = |pod: &Pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.reason.as_deref()) == Some("DeadlineExceeded")
        };
        env.pod_until(&pod, "is stopped", is_stopped).await?;
    }
    same("phase", job.status()?.phase, Some(Phase::Completed))
}

/// A heter trainer that fails is a failure of the job.
pub(super) async fn fails_with_one_of_them(env: &Env) -> Result<()> {
    let job = running(env, heter()).await?;
    env.kubelet.exit(&job.heter(0), 7, "no such device").await?;
    job.reaches(Phase::Failed).await?;
    let failed = job.has_condition("Failed", true, "PodFailed").await?;
    let says = failed.message.contains("a-heter-0") && failed.message.contains("no such device");
    same(&failed.message, says, true)
}
