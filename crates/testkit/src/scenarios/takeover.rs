//! What the Go operator v0.3.5 left behind is taken over as it is.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, Phase, Role, labels};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{finish, ready, same, waits_for_config};
use crate::builders::{JobBuilder, job, template};
use crate::{Env, Job, Stage};

/// The port that the Go operator drew by lot for this job.
const PORT: &str = "43210";

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
    for pod in job.pods().iter().take(made) {
        let manifest = go_pod(
            &job,
            pod,
            object.spec.intranet.as_deref() == Some("Service"),
        )?;
        let manifest: Pod = serde_json::from_value(manifest)?;
        env.api().create(&PostParams::default(), &manifest).await?;
        // It made them for every job, without labels.
        let ports: Vec<Value> = (0..20)
            .map(|i| json!({"name": format!("p-{i}"), "port": 36000 + i}))
            .collect();
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": pod, "ownerReferences": [owner(&job)]},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": {"paddle-res-name": pod},
                "ports": ports,
            },
        }))?;
        env.api().create(&PostParams::default(), &service).await?;
    }
    Ok(job)
}

fn owner(job: &Job<'_>) -> Value {
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
        "name": job.name, "uid": job.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn go_pod(job: &Job<'_>, name: &str, by_service: bool) -> Result<Value> {
    let (rest, rank) = name.rsplit_once('-').context("a pod's name")?;
    let (_, role) = rest.rsplit_once('-').context("a pod's name")?;
    let training = if role == "ps" { "PSERVER" } else { "TRAINER" };
    let pod_ip = if by_service {
        json!({"name": "POD_IP", "value": name})
    } else {
        json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    };
    let mut spec = template().get("spec").cloned().unwrap_or_default();
    let ours = json!({
        "hostname": name,
        "subdomain": name,
        "restartPolicy": "Never",
        "initContainers": [{"name": "coord-paddle", "image": "alpine:3.10", "command": ["sh"]}],
        "containers": [{
            "name": "paddle",
            "image": "paddle:test",
            "env": [
                pod_ip,
                {"name": "PADDLE_TRAINER_ID", "value": rank},
                {"name": "TRAINING_ROLE", "value": training},
                {"name": "PADDLE_TRAINING_ROLE", "value": training},
            ],
            "envFrom": [{"configMapRef": {"name": job.name}}],
        }],
    });
    json_patch_merge(&mut spec, ours);
    Ok(json!({
        "metadata": {
            "name": name,
            "labels": {"paddle-res-name": name, "paddle-res-type": role},
            "annotations": {"paddle-resource": role},
            "ownerReferences": [owner(job)],
        },
        "spec": spec,
    }))
}

fn json_patch_merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
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
    let data = go_config_map(job, by_service)?;
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {
            "name": job.name,
            "labels": {"paddle-res-name": job.name},
            "ownerReferences": [owner(job)],
        },
        "data": data,
    }))?;
    env.api().create(&PostParams::default(), &map).await?;
    env.kubelet.run_all();
    for pod in job.pods() {
        env.pod_until(pod, "runs", ready).await?;
    }
    go_status(env, job, phase).await
}

fn go_config_map(job: &Job<'_>, by_service: bool) -> Result<BTreeMap<String, String>> {
    let hosts = |role: Role| -> Result<Vec<String>> {
        let prefix = format!("{}-{role}-", job.name);
        let pods: Vec<String> = job
            .pods()
            .iter()
            .filter(|pod| pod.starts_with(&prefix))
            .cloned()
            .collect();
        if by_service {
            Ok(pods)
        } else {
            job.addresses(&pods)
        }
    };
    // Its bug: names go with 36000 whatever PADDLE_PORT says.
    let port = if by_service { "36000" } else { PORT };
    let endpoints = |hosts: &[String]| {
        let all: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
        all.join(",")
    };
    let (servers, workers) = (hosts(Role::Ps)?, hosts(Role::Worker)?);
    let mut data = BTreeMap::from(
        [
            ("TRAINER_PORTS_NUM", "20".to_owned()),
            ("PADDLE_PORT", PORT.to_owned()),
            ("PADDLE_TRAINER_ENDPOINTS", endpoints(&workers)),
            ("PADDLE_TRAINERS", workers.join(",")),
            ("PADDLE_TRAINERS_NUM", workers.len().to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    if !servers.is_empty() {
        data.insert(
            "PADDLE_PSERVERS_IP_PORT_LIST".to_owned(),
            endpoints(&servers),
        );
    }
    Ok(data)
}

/// The status as the Go operator wrote it.
async fn go_status(env: &Env, job: &Job<'_>, phase: &str) -> Result<()> {
    let mut status =
        json!({"phase": phase, "mode": "Collective", "startTime": "2023-05-05T05:05:05Z"});
    for role in ["ps", "worker"] {
        let prefix = format!("{}-{role}-", job.name);
        let refs: Vec<Value> = job
            .uids()
            .into_iter()
            .filter(|(pod, _)| pod.starts_with(&prefix))
            .map(|(pod, uid)| {
                json!({
                    "apiVersion": "v1", "kind": "Pod", "namespace": env.namespace,
                    "name": pod, "uid": uid, "resourceVersion": "7",
                })
            })
            .collect();
        if let (false, Some(status)) = (refs.is_empty(), status.as_object_mut()) {
            status.insert(
                role.to_owned(),
                json!({"running": refs.len(), "refs": refs}),
            );
            if role == "ps" {
                status.insert("mode".to_owned(), json!("PS"));
            }
        }
    }
    let patch = Patch::Merge(json!({"status": status}));
    env.api::<PaddleJob>()
        .patch_status(&job.name, &PatchParams::default(), &patch)
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
