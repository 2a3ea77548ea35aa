//! A pod that fails counts and starts the whole job again; a pod that is taken
//! away does not count, and starts again alone or with its peers.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use api::Phase;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use super::{ready, running, same, waits_for_config};
use crate::builders::{JobBuilder, job};
use crate::{Env, Job, Stage};

/// A running job, the pod that something happens to, and what follows.
struct Case<'e> {
    job: Job<'e>,
    victim: String,
    /// It starts again alone; its peers go on.
    alone: bool,
    uids: BTreeMap<String, String>,
}

/// Every mode, and in a PS job both roles.
async fn every_mode(env: &Env, change: impl Fn(JobBuilder) -> JobBuilder) -> Result<Vec<Case<'_>>> {
    let cases = [
        (job("server").ps(2).workers(2), "server-ps-1", false),
        (job("trainer").ps(1).workers(2), "trainer-worker-1", true),
        (job("coll").workers(2), "coll-worker-0", false),
        (job("single").workers(1), "single-worker-0", false),
    ];
    // Each on a node of its own, which may die.
    for (_, victim, _) in &cases {
        env.kubelet.place(victim, victim);
    }
    let cases = cases.map(|(builder, victim, alone)| {
        let builder = change(builder);
        async move {
            let job = running(env, builder).await?;
            let uids = job.uids();
            let victim = victim.to_owned();
            anyhow::Ok(Case {
                job,
                victim,
                alone,
                uids,
            })
        }
    });
    try_join_all(cases).await
}

impl Case<'_> {
    /// What had to start again has, and nothing else, and knows its peers.
    async fn came_back(&self, env: &Env) -> Result<()> {
        self.is_back(env).await?;
        has_current_lists(env, &self.job, &self.uids)
    }

    /// What had to start again has, and nothing else.
    async fn is_back(&self, env: &Env) -> Result<()> {
        let (job, victim) = (&self.job, &self.victim);
        if self.alone {
            let old = self.uids.get(victim);
            env.pod_until(victim, "is back", |pod| {
                pod.uid().as_ref() != old && ready(pod)
            })
            .await?;
            job.runs(0).await?;
        } else {
            job.runs(1).await?;
        }
        let new = job.has_pods(job.pods()).await?;
        for (pod, uid) in &self.uids {
            let replaced = new.get(pod) != Some(uid);
            let wanted = !self.alone || pod == victim;
            same(&format!("{pod} was replaced"), replaced, wanted)?;
        }
        Ok(())
    }
}

/// Pods made since then know the addresses that pods have now.
fn has_current_lists(env: &Env, job: &Job<'_>, old: &BTreeMap<String, String>) -> Result<()> {
    let prefix = format!("{}-worker-", job.name);
    let workers: Vec<String> = job
        .pods()
        .iter()
        .filter(|pod| pod.starts_with(&prefix))
        .cloned()
        .collect();
    let wanted = job.addresses(&workers)?.join(",");
    for (pod, uid) in job.uids() {
        if old.get(&pod) != Some(&uid) {
            let found = env.kubelet.environment(&pod, "paddle")?;
            same(&pod, found.get("PADDLE_TRAINERS"), Some(&wanted))?;
        }
    }
    let map = job.config_map().unwrap_or_default();
    same("the ConfigMap", map.get("PADDLE_TRAINERS"), Some(&wanted))
}

/// Deleted by hand, by a drain, by preemption: it does not count.
pub(super) async fn deleted(env: &Env) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        env.delete_pod(&case.victim).await?;
    }
    for case in &cases {
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// The same where peers know each other by name.
pub(super) async fn deleted_by_service(env: &Env) -> Result<()> {
    let cases = every_mode(env, JobBuilder::service).await?;
    for case in &cases {
        env.delete_pod(&case.victim).await?;
    }
    for case in &cases {
        case.is_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// Deleted without any grace: it is gone from one moment to the next.
pub(super) async fn deleted_at_once(env: &Env) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        let now = DeleteParams::default().grace_period(0);
        env.api::<Pod>().delete(&case.victim, &now).await?;
    }
    for case in &cases {
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// Deleted while its peers still wait for their lists.
pub(super) async fn deleted_before_it_ran(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("coll-worker-1", Stage::Created);
    env.kubelet.hold("trainer-worker-1", Stage::Created);
    let coll = env.create(job("coll").workers(2)).await?;
    let trainer = env.create(job("trainer").ps(1).workers(2)).await?;
    for victim in [coll.worker(0), trainer.worker(0)] {
        let first = env.pod_until(&victim, "waits", waits_for_config).await?;
        env.delete_pod(&victim).await?;
        env.pod_until(&victim, "waits again", |pod| {
            pod.uid() != first.uid() && waits_for_config(pod)
        })
        .await?;
    }
    for job in [&coll, &trainer] {
        env.kubelet.release(&job.worker(1));
        job.reaches(Phase::Running).await?;
        has_current_lists(env, job, &BTreeMap::new())?;
        same("restarts", job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// Its node is shut down in good order: the cluster's doing, not the pod's.
pub(super) async fn shut_down_with_its_node(env: &Env) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        env.kubelet.shut_down(&case.victim).await?;
    }
    for case in &cases {
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// Evicted by its kubelet: it does not count either.
pub(super) async fn evicted(env: &Env) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        env.kubelet.evict(&case.victim).await?;
    }
    for case in &cases {
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
    }
    Ok(())
}

/// Lost with a node that no longer answers: its name is free after a minute.
pub(super) async fn lost_with_its_node(env: &Env) -> Result<()> {
    lost(env, false).await
}

/// Lost with a node that was removed.
pub(super) async fn lost_with_a_removed_node(env: &Env) -> Result<()> {
    lost(env, true).await
}

async fn lost(env: &Env, removed: bool) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        if removed {
            env.kubelet.node_vanishes(&case.victim).await?;
        } else {
            env.kubelet.node_dies(&case.victim).await?;
        }
        // As the control plane does some minutes later. Nobody confirms it.
        env.delete_pod(&case.victim).await?;
    }
    env.let_pass().await?;
    for case in &cases {
        let uid = env.look(|world| world.pods.get(&case.victim).and_then(|pod| pod.uid()));
        same(
            "the pod that nobody confirms",
            uid.as_ref(),
            case.uids.get(&case.victim),
        )?;
    }
    // The grace period of 30 s, a minute, and some more.
    env.clock.advance(jiff::SignedDuration::from_secs(120));
    for case in &cases {
        case.job.touch().await?;
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(0))?;
        let told = case.job.tells("PodForceDeleted").await?;
        let node = env.kubelet.node_name(&case.victim);
        ensure!(told.contains(&node), "no {node} in {told:?}");
    }
    Ok(())
}

/// A pod that takes its time on a node that lives is waited for.
pub(super) async fn a_slow_end_is_waited_for(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2)).await?;
    let uids = job.uids();
    let slow = job.worker(1);
    env.kubelet.refuse_to_delete(&slow);
    env.delete_pod(&slow).await?;
    env.advance(200, &job).await?;
    env.let_pass().await?;
    same("pods", job.uids(), uids.clone())?;
    env.kubelet.allow_to_delete(&slow);
    env.pod_until(&slow, "is back", |pod| {
        pod.uid().as_ref() != uids.get(&slow) && ready(pod)
    })
    .await?;
    Ok(())
}

/// Pods of a new attempt come when those of the old one are gone, all of them.
pub(super) async fn old_pods_go_first(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(3)).await?;
    let uids = job.uids();
    let slow = job.worker(2);
    env.kubelet.refuse_to_delete(&slow);
    env.delete_pod(&job.worker(0)).await?;
    job.has_pods(std::slice::from_ref(&slow)).await?;
    job.reaches(Phase::Restarting).await?;
    env.let_pass().await?;
    same("pods", job.uids().get(&slow), uids.get(&slow))?;
    same("number of pods", job.uids().len(), 1)?;
    env.kubelet.allow_to_delete(&slow);
    job.runs(1).await?;
    Ok(())
}

/// Failed by its own doing: the whole job starts again while backoffLimit
/// allows it, then it has failed.
pub(super) async fn failed(env: &Env) -> Result<()> {
    let mut cases = every_mode(env, |job| job.backoff(1)).await?;
    for case in &mut cases {
        case.alone = false;
        env.kubelet.exit(&case.victim, 1, "first time").await?;
    }
    for case in &cases {
        case.came_back(env).await?;
        same("restarts", case.job.status()?.restarts, Some(1))?;
        env.kubelet.exit(&case.victim, 1, "second time").await?;
    }
    for case in &cases {
        let why = case
            .job
            .has_condition("Failed", true, "BackoffLimitExceeded")
            .await?;
        for part in [case.victim.as_str(), "second time", "backoffLimit"] {
            ensure!(
                why.message.contains(part),
                "no {part:?} in {:?}",
                why.message
            );
        }
        let status = case.job.reaches(Phase::Failed).await?;
        same("restarts", status.restarts, Some(1))?;
    }
    Ok(())
}

/// Only failures count against backoffLimit.
pub(super) async fn restarts_are_counted(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2).backoff(2)).await?;
    env.kubelet.exit(&job.worker(0), 1, "").await?;
    let status = job.runs(1).await?;
    same("restarts", status.restarts, Some(1))?;
    env.delete_pod(&job.worker(1)).await?;
    let status = job.runs(2).await?;
    same("restarts", status.restarts, Some(1))?;
    env.kubelet.exit(&job.worker(1), 1, "").await?;
    let status = job.runs(3).await?;
    same("restarts", status.restarts, Some(2))?;
    env.kubelet.exit(&job.worker(0), 1, "").await?;
    job.has_condition("Failed", true, "BackoffLimitExceeded")
        .await?;
    let mut phases = env.look(|world| world.phases("a"));
    phases.retain(|phase| *phase == Phase::Restarting);
    same("restarts that were seen", phases.len(), 3)
}

/// Without backoffLimit the first failure is the last.
pub(super) async fn no_second_try(env: &Env) -> Result<()> {
    let cases = every_mode(env, |job| job).await?;
    for case in &cases {
        env.kubelet.exit(&case.victim, 1, "").await?;
    }
    for case in &cases {
        let status = case.job.reaches(Phase::Failed).await?;
        same("attempt", status.attempt, Some(0))?;
    }
    Ok(())
}

/// A pod that went while no manager ran is missed all the same.
pub(super) async fn lost_while_nobody_looked(env: &Env) -> Result<()> {
    let coll = running(env, job("coll").workers(2)).await?;
    let trainer = running(env, job("trainer").ps(1).workers(2)).await?;
    let (old_coll, old_trainer) = (coll.uids(), trainer.uids());
    env.stop_manager().await?;
    for pod in [coll.worker(1), trainer.worker(0)] {
        env.delete_pod(&pod).await?;
        env.pod_gone(&pod).await?;
    }
    env.start_manager().await?;
    coll.runs(1).await?;
    has_current_lists(env, &coll, &old_coll)?;
    env.pod_until(&trainer.worker(0), "is back", ready).await?;
    has_current_lists(env, &trainer, &old_trainer)?;
    let new = trainer.uids();
    same(
        "its peer",
        new.get(&trainer.worker(1)),
        old_trainer.get(&trainer.worker(1)),
    )?;
    same("attempt", trainer.status()?.attempt, Some(0))
}

/// A new manager changes nothing about a job that runs.
pub(super) async fn a_new_manager(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2).service()).await?;
    env.let_pass().await?;
    let (uids, before) = (job.uids(), job.seen()?.resource_version());
    env.stop_manager().await?;
    env.start_manager().await?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)?;
    same("the job's version", job.seen()?.resource_version(), before)
}

/// `restartPolicy`: the user's; else OnFailure for workers in Service mode; else Never.
pub(super) async fn restart_policy(env: &Env) -> Result<()> {
    let policy = |name: &str| {
        env.look(|world| {
            let pod = world.pods.get(name)?;
            pod.spec.as_ref()?.restart_policy.clone()
        })
    };
    running(env, job("ip").ps(1).workers(1)).await?;
    same(
        "ip",
        [policy("ip-ps-0"), policy("ip-worker-0")],
        ["Never", "Never"].map(some),
    )?;
    running(env, job("names").ps(1).workers(1).service()).await?;
    let names = [policy("names-ps-0"), policy("names-worker-0")];
    same("names", names, ["Never", "OnFailure"].map(some))?;
    let mine = job("mine")
        .ps(1)
        .workers(1)
        .pod_field("restartPolicy", json!("Always"));
    running(env, mine.service()).await?;
    same(
        "mine",
        [policy("mine-ps-0"), policy("mine-worker-0")],
        ["Always", "Always"].map(some),
    )
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}
