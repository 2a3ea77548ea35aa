//! How a job starts: when the ConfigMap is written, who is woken and when, and
//! that nobody ever starts with an old list.

use anyhow::{Context as _, Result, ensure};
use api::Phase;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{ready, running, same, waits_for_config};
use crate::builders::job;
use crate::{Env, Job, Stage};

/// The ConfigMap comes when every address is known, and then each pod that
/// waits for it is woken once.
pub(super) async fn config_map_waits_for_every_address(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("a-worker-2", Stage::Scheduled);
    let job = env.create(job("a").workers(3)).await?;
    for pod in [job.worker(0), job.worker(1)] {
        env.pod_until(&pod, "waits", waits_for_config).await?;
    }
    env.let_pass().await?;
    same("the ConfigMap", job.config_map(), None)?;
    same("wake-ups", wake_ups(env, &job), vec![0, 0, 0])?;
    env.kubelet.release("a-worker-2");
    job.reaches(Phase::Running).await?;
    env.let_pass().await?;
    woken_once(env, &job)?;
    same("wake-ups", wake_ups(env, &job).get(..2), Some(&[1, 1][..]))?;
    same("versions of the ConfigMap", config_maps(env), 1)
}

/// Workers of a PS job are woken once: when every server has started.
pub(super) async fn workers_wait_for_servers(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("a-ps-1", Stage::Addressed);
    let job = env.create(job("a").ps(2).workers(2)).await?;
    env.pod_until(&job.ps(0), "runs", ready).await?;
    for pod in [job.worker(0), job.worker(1)] {
        env.pod_until(&pod, "waits", waits_for_config).await?;
    }
    env.let_pass().await?;
    let (servers, workers) = (job.ps(0), [job.worker(0), job.worker(1)]);
    ensure!(
        job.config_map().is_some(),
        "{servers} runs without a ConfigMap"
    );
    for worker in &workers {
        same("wake-ups of a worker", wake_up(env, worker), 0)?;
        let started = env.kubelet.starts(worker, "coord-paddle").len();
        same("starts of its wait container", started, 0)?;
    }
    env.kubelet.release("a-ps-1");
    job.reaches(Phase::Running).await?;
    env.let_pass().await?;
    woken_once(env, &job)?;
    for worker in &workers {
        same("wake-ups of a worker", wake_up(env, worker), 1)?;
    }
    Ok(())
}

/// The same where addresses are names: only the servers' start is waited for.
pub(super) async fn workers_wait_for_servers_by_service(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("a-ps-0", Stage::Initialized);
    let job = env.create(job("a").ps(1).workers(1).service()).await?;
    env.pod_until(&job.worker(0), "waits", waits_for_config)
        .await?;
    env.let_pass().await?;
    same("wake-ups", wake_ups(env, &job), vec![0, 0])?;
    env.kubelet.release("a-ps-0");
    job.reaches(Phase::Running).await?;
    env.let_pass().await?;
    same("wake-ups", wake_ups(env, &job), vec![0, 1])
}

/// Names are known beforehand: nobody waits, nobody is woken. A few workers do without an init
/// container, and wait for addresses instead.
pub(super) async fn services_come_first(env: &Env) -> Result<()> {
    let few = running(env, job("few").workers(2).service()).await?;
    env.let_pass().await?;
    same("wake-ups of few", wake_ups(env, &few), vec![1, 1])?;
    let job = running(env, job("a").ps(2).service()).await?;
    env.let_pass().await?;
    same("wake-ups", wake_ups(env, &job), vec![0, 0])?;
    let waited = env.look(|world| {
        let mut pods = world.pods.all.iter();
        pods.any(|seen| {
            waits_for_config(&seen.object) && job.pods().contains(&seen.object.name_any())
        })
    });
    ensure!(!waited, "a pod had to wait for the ConfigMap");
    for pod in job.pods() {
        let service = env.look(|world| world.services.get(pod).cloned());
        let service = service.with_context(|| format!("there is no Service {pod}"))?;
        let spec = service.spec.clone().unwrap_or_default();
        same("clusterIP", spec.cluster_ip.as_deref(), Some("None"))?;
        same(
            "early addresses",
            spec.publish_not_ready_addresses,
            Some(true),
        )?;
        let selector = spec.selector.unwrap_or_default();
        let labels = env.look(|world| world.pods.get(pod).map(|pod| pod.labels().clone()));
        let labels = labels.unwrap_or_default();
        let selects = selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        ensure!(
            selects && !selector.is_empty(),
            "{selector:?} does not select {labels:?}"
        );
        let ports: Vec<i32> = spec
            .ports
            .into_iter()
            .flatten()
            .map(|port| port.port)
            .collect();
        same("ports", ports, (36000..36020).collect())?;
        let owners = service
            .metadata
            .owner_references
            .clone()
            .unwrap_or_default();
        ensure!(
            owners.iter().any(|owner| owner.uid == job.uid),
            "{pod} is nobody's"
        );
    }
    Ok(())
}

/// A pod made again does not start with the list that its predecessor is in.
pub(super) async fn no_old_list_for_a_recreated_pod(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(2)).await?;
    let old = job.uids();
    // Two go, and one of them is late: the list can't be complete before.
    env.kubelet.hold("a-worker-1", Stage::Scheduled);
    for worker in [job.worker(0), job.worker(1)] {
        env.delete_pod(&worker).await?;
    }
    let first = job.worker(0);
    env.pod_until(&first, "waits again", |pod| {
        pod.uid().as_ref() != old.get(&first) && waits_for_config(pod)
    })
    .await?;
    env.let_pass().await?;
    same("starts", env.kubelet.starts(&first, "paddle").len(), 1)?;
    env.kubelet.release("a-worker-1");
    for worker in [job.worker(0), job.worker(1)] {
        env.pod_until(&worker, "is back", ready).await?;
        has_current_list(env, &job, &worker)?;
    }
    Ok(())
}

/// No pod of a second attempt starts with the list of the first.
pub(super) async fn no_old_list_for_a_second_attempt(env: &Env) -> Result<()> {
    let job = running(env, job("a").workers(2)).await?;
    let old = job.uids();
    env.kubelet.hold("a-worker-1", Stage::Scheduled);
    env.delete_pod(&job.worker(0)).await?;
    let first = job.worker(0);
    env.pod_until(&first, "waits again", |pod| {
        pod.uid().as_ref() != old.get(&first) && waits_for_config(pod)
    })
    .await?;
    env.let_pass().await?;
    same("starts", env.kubelet.starts(&first, "paddle").len(), 1)?;
    env.kubelet.release("a-worker-1");
    job.runs(1).await?;
    for worker in job.pods() {
        has_current_list(env, &job, worker)?;
    }
    Ok(())
}

/// A new job of the same name does not start with the list of the old one,
/// even when that list stays.
pub(super) async fn no_old_list_for_a_new_job_of_the_same_name(env: &Env) -> Result<()> {
    let old = running(env, job("a").workers(2)).await?;
    let finalizers = |all: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": all}}));
    let (api, params) = (env.api::<ConfigMap>(), PatchParams::default());
    api.patch("a", &params, &finalizers(&["test/keep"])).await?;
    old.delete().await?;
    old.gone().await?;
    let new = env.create(job("a").workers(2)).await?;
    let uids = old.uids();
    for pod in new.pods() {
        env.pod_until(pod, "of the new job waits", |pod| {
            !uids.values().any(|uid| pod.uid().as_ref() == Some(uid)) && waits_for_config(pod)
        })
        .await?;
    }
    new.has_condition("Scheduled", false, "NameTaken").await?;
    env.let_pass().await?;
    for pod in new.pods() {
        same("starts", env.kubelet.starts(pod, "paddle").len(), 1)?;
    }
    api.patch("a", &params, &finalizers(&[])).await?;
    new.reaches(Phase::Running).await?;
    for pod in new.pods() {
        has_current_list(env, &new, pod)?;
    }
    Ok(())
}

/// What somebody removes is made again, and nobody who runs notices.
pub(super) async fn lists_and_names_come_back(env: &Env) -> Result<()> {
    let job = running(env, job("a").ps(1).workers(1).service()).await?;
    let (uids, lists) = (job.uids(), job.config_map());
    let now = DeleteParams::default();
    env.api::<ConfigMap>().delete("a", &now).await?;
    env.api::<Service>().delete(&job.ps(0), &now).await?;
    env.until("both come back", |world| {
        let again = |made: Vec<String>| made.len() == 2;
        let map = again(world.config_maps.incarnations("a"));
        let service = again(world.services.incarnations(&job.ps(0)));
        (map && service).then_some(())
    })
    .await?;
    same("the lists", job.config_map(), lists)?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)
}

/// Paddle splits endpoints at ':', so IPv6 needs names; a condition says so.
pub(super) async fn ipv6_needs_services(env: &Env) -> Result<()> {
    env.kubelet.use_ipv6();
    env.kubelet.run_all();
    let by_ip = env.create(job("ip").workers(2)).await?;
    let told = by_ip.has_condition("Running", false, "IPv6Only").await?;
    ensure!(told.message.contains("intranet: Service"), "{told:?}");
    running(env, job("names").workers(2).service()).await?;
    same("the ConfigMap", by_ip.config_map(), None)
}

/// What a job costs the API server, from its creation to Running: its pods, a
/// wake-up for each, and six more.
pub(super) async fn few_writes(env: &Env) -> Result<()> {
    for builder in [job("coll").workers(4), job("ps").ps(2).workers(2)] {
        let before = env.requests().len();
        running(env, builder).await?;
        let since = env.requests().into_iter().skip(before);
        let writes: Vec<_> = since.filter(|request| request.is_write()).collect();
        ensure!(
            writes.len() <= 4 + 4 + 6,
            "{} writes: {writes:#?}",
            writes.len()
        );
    }
    Ok(())
}

/// A job that runs costs nothing.
pub(super) async fn nothing_while_nothing_changes(env: &Env) -> Result<()> {
    let _job = running(env, job("quiet").ps(1).workers(2)).await?;
    env.let_pass().await?;
    let before = env.requests().len();
    env.let_pass().await?;
    let since: Vec<_> = env.requests().into_iter().skip(before).collect();
    let about = since.iter().find(|request| request.path.contains("quiet"));
    ensure!(about.is_none(), "{about:?} while nothing changed");
    Ok(())
}

/// The list that a worker started with last holds the addresses that pods have.
fn has_current_list(env: &Env, job: &Job<'_>, worker: &str) -> Result<()> {
    let workers: Vec<String> = (0..2).map(|rank| job.worker(rank)).collect();
    let found = env.kubelet.environment(worker, "paddle")?;
    let wanted = job.addresses(&workers)?.join(",");
    same(worker, found.get("PADDLE_TRAINERS"), Some(&wanted))
}

/// Whoever had to wait was woken once, and nobody more often.
fn woken_once(env: &Env, job: &Job<'_>) -> Result<()> {
    env.look(|world| {
        for (pod, uid) in job.uids() {
            let waited = world.pods.versions(&uid).any(|pod| waits_for_config(pod));
            let wake_ups = world.wake_ups(&uid);
            ensure!(
                wake_ups <= 1 && (wake_ups == 1 || !waited),
                "{pod} was woken {wake_ups} times (it waited: {waited})"
            );
        }
        Ok(())
    })
}

fn wake_up(env: &Env, pod: &str) -> usize {
    env.look(|world| {
        let uid = world.pods.get(pod).and_then(|pod| pod.uid());
        uid.map_or(0, |uid| world.wake_ups(&uid))
    })
}

fn wake_ups(env: &Env, job: &Job<'_>) -> Vec<usize> {
    job.pods().iter().map(|pod| wake_up(env, pod)).collect()
}

/// How many versions of the ConfigMap of job `a` there were.
fn config_maps(env: &Env) -> usize {
    env.look(|world| {
        let all = world.config_maps.all.iter();
        all.filter(|seen| seen.object.name_any() == "a").count()
    })
}
