//! Jobs on the network of their nodes: each has a block of ports that nobody else has.

use anyhow::{Context as _, Result, ensure};
use api::{Phase, labels};
use k8s_openapi::api::core::v1::Pod;

use super::{finish, running, same};
use crate::builders::{JobBuilder, job};
use crate::{Env, Job};

/// The first two blocks of `--port-range`; each scenario has a manager of its own.
const FIRST: &str = "35000";
const SECOND: &str = "35020";

fn host(name: &str) -> JobBuilder {
    job(name).intranet("Host")
}

/// The first of its ports, as its annotation says.
fn port(job: &Job<'_>) -> Result<Option<String>> {
    let annotations = job.seen()?.metadata.annotations.clone();
    Ok(annotations.and_then(|all| all.get(labels::HOST_PORT).cloned()))
}

/// A manager that dies in between finds the ports that it gave away.
pub(super) async fn ports_come_first(env: &Env) -> Result<()> {
    let job = running(env, host("a").workers(2)).await?;
    same("the annotation", port(&job)?.as_deref(), Some(FIRST))?;
    let requests = env.requests();
    let place = |method: &str, end: &str| {
        requests
            .iter()
            .position(|request| request.method == method && request.path.ends_with(end))
            .with_context(|| format!("no {method} of {end}"))
    };
    let (given, used) = (place("PATCH", "/paddlejobs/a")?, place("POST", "/pods")?);
    ensure!(given < used, "a pod was made before it had ports");
    Ok(())
}

/// Every pod listens on the job's first port, and everybody knows.
pub(super) async fn ports_in_lists(env: &Env) -> Result<()> {
    running(env, host("other").workers(1)).await?;
    let job = running(env, host("a").ps(1).workers(2)).await?;
    let address = |pod: String| job.addresses(&[pod]).map(|all| all.concat());
    let ps = address(job.ps(0))?;
    let workers = [address(job.worker(0))?, address(job.worker(1))?];
    let workers = workers.map(|worker| format!("{worker}:{SECOND}"));
    let lists = [
        ("PADDLE_PORT", SECOND.to_owned()),
        ("PADDLE_TRAINER_ENDPOINTS", workers.join(",")),
        ("PADDLE_PSERVERS_IP_PORT_LIST", format!("{ps}:{SECOND}")),
        ("PADDLE_GLOO_HTTP_ENDPOINT", format!("{ps}:35038")),
    ];
    for pod in job.pods() {
        let found = env.kubelet.environment(pod, "paddle")?;
        for (name, wanted) in &lists {
            same(name, found.get(*name), Some(wanted))?;
        }
        let own = format!("{}:{SECOND}", address(pod.clone())?);
        same(pod, found.get("PADDLE_CURRENT_ENDPOINT"), Some(&own))?;
        let pod = env.pod_until(pod, "is there", |_| true).await?;
        is_on_its_node(&pod)?;
    }
    Ok(())
}

fn is_on_its_node(pod: &Pod) -> Result<()> {
    let spec = pod.spec.as_ref().context("a pod without spec")?;
    same("hostNetwork", spec.host_network, Some(true))?;
    let names = spec.dns_policy.as_deref();
    same("dnsPolicy", names, Some("ClusterFirstWithHostNet"))?;
    let ports = spec
        .containers
        .iter()
        .flat_map(|c| c.ports.iter().flatten());
    let ports: Vec<_> = ports.map(|p| (p.container_port, p.host_port)).collect();
    same("ports", ports, vec![(35_020, Some(35_020))])
}

/// Also by a manager that has just started.
pub(super) async fn ports_are_given_once(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let first = [
        env.create(host("a").workers(1)),
        env.create(host("b").workers(1)),
    ];
    let mut jobs = futures::future::try_join_all(first).await?;
    for job in &jobs {
        job.reaches(Phase::Running).await?;
    }
    env.stop_manager().await?;
    // One that waits for the manager, and one that comes later.
    jobs.push(env.create(host("c").workers(1)).await?);
    env.start_manager().await?;
    jobs.push(env.create(host("d").workers(1)).await?);
    let mut ports = Vec::new();
    for job in &jobs {
        job.reaches(Phase::Running).await?;
        ports.extend(port(job)?);
    }
    ports.sort();
    same(
        "ports",
        ports,
        [FIRST, SECOND, "35040", "35060"]
            .map(str::to_owned)
            .to_vec(),
    )
}

/// The ports of a job that ends, or is deleted, are for others.
pub(super) async fn ports_come_back(env: &Env) -> Result<()> {
    let ended = running(env, host("ended").workers(1)).await?;
    let deleted = running(env, host("deleted").workers(1)).await?;
    running(env, host("kept").workers(1)).await?;
    finish(env, ended.pods()).await?;
    ended.reaches(Phase::Completed).await?;
    let next = running(env, host("next").workers(1)).await?;
    same(
        "of the one that ended",
        port(&next)?.as_deref(),
        Some(FIRST),
    )?;
    deleted.delete().await?;
    deleted.gone().await?;
    let last = running(env, host("last").workers(1)).await?;
    same("of the one deleted", port(&last)?.as_deref(), Some(SECOND))
}

/// `kubectl get -o yaml` brings the annotation along. Whose pods listen keeps the ports.
pub(super) async fn ports_of_a_copy(env: &Env) -> Result<()> {
    let job = running(env, host("a").workers(1)).await?;
    // Which of two uids is smaller is chance; of four, hardly always the same one.
    for name in ["copy-0", "copy-1", "copy-2", "copy-3"] {
        let copy = host(name).workers(1).annotation(labels::HOST_PORT, FIRST);
        let copy = running(env, copy).await?;
        same("of the copy", port(&copy)?.as_deref(), Some(SECOND))?;
        let found = env.kubelet.environment(&copy.worker(0), "paddle")?;
        same(
            "PADDLE_PORT",
            found.get("PADDLE_PORT").map(String::as_str),
            Some(SECOND),
        )?;
        copy.delete().await?;
        copy.gone().await?;
    }
    same("of the first", port(&job)?.as_deref(), Some(FIRST))
}

/// `kubectl replace` takes the annotation away; the pods that run keep their ports.
pub(super) async fn ports_after_a_replacement(env: &Env) -> Result<()> {
    let other = running(env, host("other").workers(1)).await?;
    let job = running(env, host("a").workers(1)).await?;
    let (uids, lists) = (job.uids(), job.config_map());
    // The block before it is free by now; a new manager remembers nothing of either.
    other.delete().await?;
    other.gone().await?;
    env.stop_manager().await?;
    job.annotate(labels::HOST_PORT, None).await?;
    env.start_manager().await?;
    env.until("the annotation is back", |world| {
        let job = world.jobs.get("a")?;
        let all = job.metadata.annotations.as_ref()?;
        (all.get(labels::HOST_PORT).map(String::as_str) == Some(SECOND)).then_some(())
    })
    .await?;
    env.let_pass().await?;
    same("pods", job.uids(), uids)?;
    same("lists", job.config_map(), lists)
}

/// What the scheduler says of ports is what the job says.
pub(super) async fn two_pods_never_share_a_node(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    env.kubelet.hold("a-worker-1", crate::Stage::Created);
    let job = env.create(host("a").workers(2)).await?;
    let why =
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    env.pod_until(&job.worker(1), "is there", |_| true).await?;
    env.kubelet.find_no_node(&job.worker(1), why).await?;
    let waits = job
        .has_condition("Scheduled", false, "Unschedulable")
        .await?;
    ensure!(waits.message.contains(why), "{}", waits.message);
    env.kubelet.release("a-worker-1");
    job.reaches(Phase::Running).await?;
    Ok(())
}
