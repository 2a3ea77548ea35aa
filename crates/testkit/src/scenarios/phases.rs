//! The phases of a job, and what its status says.

use anyhow::{Context as _, Result, ensure};
use api::Phase;
use kube::ResourceExt;
use kube::api::ListParams;

use super::{finish, running, same};
use crate::builders::job;
use crate::{Env, Stage};

/// Pending → Starting → Running → Completed, each as soon as it is true.
pub(super) async fn in_order(env: &Env) -> Result<()> {
    let job = env.create(job("a").workers(2)).await?;
    job.reaches(Phase::Pending).await?;
    env.kubelet.run_up_to(Stage::Scheduled);
    job.reaches(Phase::Starting).await?;
    env.kubelet.run_all();
    job.reaches(Phase::Running).await?;
    // One is not enough.
    env.kubelet.exit(&job.worker(0), 0, "").await?;
    env.let_pass().await?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    env.kubelet.exit(&job.worker(1), 0, "").await?;
    job.has_condition("Complete", true, "Completed").await?;
    let phases = env.look(|world| world.phases("a"));
    let wanted = [
        Phase::Pending,
        Phase::Starting,
        Phase::Running,
        Phase::Completed,
    ];
    same("phases", phases.as_slice(), &wanted)
}

/// Pending → Starting → Running → Failed, and the reason for it: which pod,
/// which container, its exit code and its last words.
pub(super) async fn tells_why_it_failed(env: &Env) -> Result<()> {
    let job = env.create(job("a").workers(2)).await?;
    job.reaches(Phase::Pending).await?;
    env.kubelet.run_up_to(Stage::Scheduled);
    job.reaches(Phase::Starting).await?;
    env.kubelet.run_all();
    job.reaches(Phase::Running).await?;
    let words = "Traceback (most recent call last):\nValueError: loss is NaN";
    env.kubelet.exit(&job.worker(1), 42, words).await?;
    let failed = job.has_condition("Failed", true, "PodFailed").await?;
    for part in ["a-worker-1", "paddle", "42", "loss is NaN"] {
        ensure!(
            failed.message.contains(part),
            "no {part:?} in {:?}",
            failed.message
        );
    }
    let told = job.tells("PodFailed").await?;
    ensure!(told.contains("loss is NaN"), "{told}");
    let phases = env.look(|world| world.phases("a"));
    let wanted = [
        Phase::Pending,
        Phase::Starting,
        Phase::Running,
        Phase::Failed,
    ];
    same("phases", phases.as_slice(), &wanted)
}

/// A job may also fail before it ran, by its init container or for lack of memory.
pub(super) async fn tells_which_container_failed(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("init-worker-0", Stage::Addressed);
    let inits = serde_json::json!([{"name": "prepare", "image": "busybox"}]);
    let init = env
        .create(job("init").workers(1).pod_field("initContainers", inits))
        .await?;
    env.pod_until("init-worker-0", "has an address", |pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.pod_ip.is_some())
    })
    .await?;
    env.kubelet
        .exit_container("init-worker-0", "prepare", 3, "Error", "no data")
        .await?;
    let failed = init.has_condition("Failed", true, "PodFailed").await?;
    for part in ["init-worker-0", "prepare", "3", "no data"] {
        ensure!(
            failed.message.contains(part),
            "no {part:?} in {:?}",
            failed.message
        );
    }
    let memory = running(env, job("memory").workers(1)).await?;
    env.kubelet
        .exit_container("memory-worker-0", "paddle", 137, "OOMKilled", "")
        .await?;
    let failed = memory.has_condition("Failed", true, "PodFailed").await?;
    ensure!(failed.message.contains("OOMKilled"), "{:?}", failed.message);
    Ok(())
}

/// What keeps a job from running is in its conditions: no node, no image.
pub(super) async fn tells_what_it_waits_for(env: &Env) -> Result<()> {
    let job = env.create(job("a").workers(2)).await?;
    job.has_condition("Scheduled", false, "WaitingForNodes")
        .await?;
    let message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    env.kubelet.find_no_node(&job.worker(1), message).await?;
    let told = job
        .has_condition("Scheduled", false, "Unschedulable")
        .await?
        .message;
    ensure!(
        told.contains("a-worker-1") && told.contains("nvidia.com/gpu"),
        "{told}"
    );
    env.kubelet.run_up_to(Stage::Addressed);
    job.has_condition("Scheduled", true, "AllScheduled").await?;
    job.reaches(Phase::Starting).await?;
    env.pod_until(&job.worker(0), "has an address", |pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.pod_ip.is_some())
    })
    .await?;
    let message = "Back-off pulling image \"paddle:test\"";
    env.kubelet
        .stall(&job.worker(0), "ImagePullBackOff", message)
        .await?;
    let told = job
        .has_condition("Running", false, "ContainerWaiting")
        .await?
        .message;
    for part in [
        "a-worker-0",
        "paddle",
        "ImagePullBackOff",
        "Back-off pulling",
    ] {
        ensure!(told.contains(part), "no {part:?} in {told:?}");
    }
    env.kubelet.run_all();
    job.reaches(Phase::Running).await?;
    job.has_condition("Running", true, "AllReady").await?;
    Ok(())
}

/// The rest of the status: mode, counts, references, the selector, times.
pub(super) async fn counts_and_references(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2)).await?;
    let status = job
        .until("counts its pods", |status| {
            let workers = status.worker.as_ref().map(|worker| worker.running);
            let servers = status.ps.as_ref().map(|ps| ps.running);
            (servers, workers) == (Some(1), Some(2))
        })
        .await?;
    same("mode", status.mode.as_deref(), Some("PS"))?;
    same("generation", status.observed_generation, Some(1))?;
    same("restarts", status.restarts, Some(0))?;
    ensure!(status.start_time.is_some(), "no startTime");
    ensure!(status.completion_time.is_none(), "a completionTime");
    ensure!(status.heter.is_none(), "heter is there");
    let roles = [status.ps.clone(), status.worker.clone()];
    let refs = roles.iter().flatten().flat_map(|role| role.refs.clone());
    let refs = refs
        .map(|reference| (reference.name, reference.uid))
        .collect();
    same("references", refs, job.uids())?;
    let selector = status.selector.context("no selector")?;
    let pods = env.api::<k8s_openapi::api::core::v1::Pod>();
    let selected = pods.list(&ListParams::default().labels(&selector)).await?;
    let mut selected: Vec<String> = selected.iter().map(ResourceExt::name_any).collect();
    selected.sort();
    same(
        "selected pods",
        selected,
        vec![job.worker(0), job.worker(1)],
    )?;
    finish(env, &[job.worker(0), job.worker(1)]).await?;
    let status = job.reaches(Phase::Completed).await?;
    ensure!(status.completion_time.is_some(), "no completionTime");
    let ended = status
        .worker
        .map(|worker| (worker.succeeded, worker.running));
    same("workers", ended, Some((2, 0)))?;
    let ended = status.ps.map(|ps| (ps.succeeded, ps.running));
    same(
        "a server that was stopped counts as succeeded",
        ended,
        Some((1, 0)),
    )
}

/// Collective and Single say so too.
pub(super) async fn modes(env: &Env) -> Result<()> {
    for (builder, mode) in [
        (job("ps").ps(1).workers(1), "PS"),
        (job("coll").workers(2), "Collective"),
        (job("single").workers(1), "Single"),
    ] {
        let job = running(env, builder).await?;
        same(&job.name, job.status()?.mode.as_deref(), Some(mode))?;
    }
    Ok(())
}

/// A job that has ended stays ended, and recreates nothing.
pub(super) async fn the_end_is_the_end(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2).clean("Never").backoff(1)).await?;
    finish(env, job.pods()).await?;
    let ended = job.reaches(Phase::Completed).await?;
    env.delete_pod(&job.worker(0)).await?;
    env.pod_gone(&job.worker(0)).await?;
    job.change(serde_json::json!({"suspend": true, "worker": {"replicas": 3}}))
        .await?;
    env.let_pass().await?;
    same(
        "pods",
        job.uids().into_keys().collect(),
        vec![job.worker(1)],
    )?;
    let status = job.status()?;
    same("phase", status.phase, Some(Phase::Completed))?;
    same(
        "completionTime",
        status.completion_time,
        ended.completion_time,
    )
}

/// A worker that is done may go before the others are.
pub(super) async fn a_finished_worker_is_not_missed(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    env.kubelet.exit(&job.worker(0), 0, "").await?;
    job.until("knows that a worker is done", |status| {
        status
            .worker
            .as_ref()
            .is_some_and(|worker| worker.succeeded == 1)
    })
    .await?;
    env.delete_pod(&job.worker(0)).await?;
    env.pod_gone(&job.worker(0)).await?;
    env.let_pass().await?;
    same(
        "pods",
        job.uids().into_keys().collect(),
        vec![job.worker(1)],
    )?;
    same("attempt", job.status()?.attempt, Some(0))?;
    env.kubelet.exit(&job.worker(1), 0, "").await?;
    job.reaches(Phase::Completed).await?;
    Ok(())
}

/// Even at once: pods that are done are what a cluster takes away first.
pub(super) async fn a_finished_worker_may_go_at_once(env: &Env) -> Result<()> {
    let coll = running(env, job("coll").workers(2)).await?;
    let ps = running(env, job("ps").ps(1).workers(2)).await?;
    for job in [&coll, &ps] {
        env.kubelet.exit(&job.worker(0), 0, "").await?;
        env.delete_pod(&job.worker(0)).await?;
        env.pod_gone(&job.worker(0)).await?;
    }
    env.let_pass().await?;
    for job in [&coll, &ps] {
        let born = env.look(|world| world.pods.incarnations(&job.worker(0)).len());
        same("times that a finished worker was made", born, 1)?;
        same("attempt", job.status()?.attempt, Some(0))?;
        finish(env, &[job.worker(1)]).await?;
        job.reaches(Phase::Completed).await?;
    }
    Ok(())
}

/// A Running job stays so while a container restarts in its pod.
pub(super) async fn running_stays(env: &Env) -> Result<()> {
    // Workers in Service mode restart in place unless the user says otherwise.
    let job = running(env, job("a").workers(2).service()).await?;
    let uids = job.uids();
    env.kubelet.exit(&job.worker(0), 1, "try again").await?;
    let starts = env.kubelet.starts(&job.worker(0), "paddle");
    same("starts", starts.len(), 2)?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)?;
    same("phase", job.status()?.phase, Some(Phase::Running))?;
    finish(env, job.pods()).await?;
    job.reaches(Phase::Completed).await?;
    Ok(())
}

/// Programs that end before their pods were ever ready have ended all the same.
pub(super) async fn ends_before_it_was_ready(env: &Env) -> Result<()> {
    env.kubelet.run_up_to(Stage::Started);
    let job = env.create(job("a").ps(1).workers(2)).await?;
    for pod in [job.worker(0), job.worker(1)] {
        env.pod_until(&pod, "runs", |pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            phase == Some("Running")
        })
        .await?;
        env.kubelet.exit(&pod, 0, "").await?;
    }
    job.reaches(Phase::Completed).await?;
    job.has_pods(&[]).await?;
    Ok(())
}

/// A server that ends well is no failure, and not the end of the job.
pub(super) async fn a_server_that_ends_well(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(1)).await?;
    env.kubelet.exit(&job.ps(0), 0, "").await?;
    env.let_pass().await?;
    let status = job.status()?;
    same("phase", status.phase, Some(Phase::Running))?;
    same("attempt", status.attempt, Some(0))?;
    finish(env, &[job.worker(0)]).await?;
    job.reaches(Phase::Completed).await?;
    Ok(())
}

/// Where there are only servers, their end is the job's.
pub(super) async fn only_servers(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(2)).await?;
    finish(env, job.pods()).await?;
    job.reaches(Phase::Completed).await?;
    Ok(())
}

/// A change of the spec that asks for nothing new is noted, and that is all.
pub(super) async fn a_change_that_asks_for_nothing(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    let uids = job.uids();
    job.change(serde_json::json!({"backoffLimit": 3, "cleanPodPolicy": "Never"}))
        .await?;
    job.until("notes the change", |status| {
        status.observed_generation == Some(2) && status.phase == Some(Phase::Running)
    })
    .await?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)?;
    same("attempt", job.status()?.attempt, Some(0))
}
