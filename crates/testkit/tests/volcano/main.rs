//! Gang scheduling with the real Volcano: its scheduler and its controllers, on a real
//! control plane with one fake node, and the real manager. The node has eight GPUs, which is
//! room for four of these pods.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "what other suites need")]
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, Phase, PodGroup};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use support::{Cluster, Manager, until};

/// How often two jobs meet.
const REPEATS: usize = 10;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// One at a time: the node has room for one job.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A namespace, and a manager for it that uses Volcano.
struct Stage {
    jobs: Api<PaddleJob>,
    pods: Api<Pod>,
    groups: Api<PodGroup>,
    manager: Manager,
    log: PathBuf,
    _namespace: support::Namespace,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

impl Stage {
    async fn set(name: &str) -> Result<Stage> {
        let turn = TURN.lock().await;
        let cluster = Cluster::with_kinds().await?;
        let namespace = cluster.namespace(&format!("volcano-{name}")).await?;
        let log = support::log_file(&format!("volcano-{name}"))?;
        let flags = [
            "--health-probe-bind-address=0".to_owned(),
            "--initImage=paddle-operator:test".to_owned(),
            // As the documents have it.
            format!("--namespace={}", namespace.name),
            "--scheduling=volcano".to_owned(),
        ];
        let client = &cluster.client;
        Ok(Stage {
            jobs: Api::namespaced(client.clone(), &namespace.name),
            pods: Api::namespaced(client.clone(), &namespace.name),
            groups: Api::namespaced(client.clone(), &namespace.name),
            manager: Manager::start_with(&cluster.kubeconfig, flags, &log)?,
            log,
            _namespace: namespace,
            _turn: turn,
        })
    }

    async fn create(&self, job: Value) -> Result<()> {
        let job = serde_json::from_value(job)?;
        self.jobs.create(&PostParams::default(), &job).await?;
        Ok(())
    }

    async fn patch(&self, job: &str, patch: Value) -> Result<()> {
        let how = PatchParams::default();
        self.jobs.patch(job, &how, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// How many pods of each job have a place now.
    async fn placed(&self) -> Result<BTreeMap<String, usize>> {
        let mut placed = BTreeMap::new();
        for pod in self.pods.list(&ListParams::default()).await? {
            let job = pod.labels().get(api::labels::JOB_NAME).cloned();
            let status = pod.status.unwrap_or_default();
            let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
            let has_node = pod.spec.is_some_and(|spec| spec.node_name.is_some());
            if let Some(job) = job.filter(|_| has_node && !has_ended) {
                *placed.entry(job).or_default() += 1;
            }
        }
        Ok(placed)
    }

    /// Waits until a job has a group for so many pods, with so many GPUs.
    async fn has_group(&self, job: &str, pods: i32, gpus: &str) -> Result<()> {
        until(PATIENCE, || async {
            let spec = self.groups.get(job).await?.spec;
            let amounts = spec.min_resources.unwrap_or_default();
            let found = amounts
                .get("nvidia.com/gpu")
                .map(|amount| amount.0.as_str());
            let is_right = spec.min_member == Some(pods) && found == Some(gpus);
            ensure!(is_right, "{:?} {amounts:?}", spec.min_member);
            Ok(())
        })
        .await
    }

    async fn has_no_group(&self, job: &str) -> Result<()> {
        until(PATIENCE, || async {
            let left = self.groups.get_opt(job).await?;
            ensure!(left.is_none(), "PodGroup {job} is there");
            Ok(())
        })
        .await
    }

    async fn phase(&self, job: &str) -> Result<Option<Phase>> {
        let status = self.jobs.get(job).await?.status.unwrap_or_default();
        Ok(status.phase)
    }

    /// Waits until a job is in a phase.
    async fn reaches(&self, job: &str, wanted: Phase) -> Result<()> {
        let reached = until(PATIENCE, || async {
            let phase = self.phase(job).await?;
            ensure!(phase == Some(wanted), "{job} is {phase:?}");
            Ok(())
        });
        let log = || format!("see {}", self.log.display());
        reached.await.with_context(log)
    }

    /// What the job says of its place: reason and message.
    async fn scheduled(&self, job: &str) -> Result<(String, String)> {
        let status = self.jobs.get(job).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let told = conditions.find(|c| c.type_ == "Scheduled");
        let told = told.context("no condition Scheduled")?;
        Ok((told.reason, told.message))
    }
}

/// A job with two servers; with two workers it fills the node. These end after some seconds,
/// unless they stay.
fn job(name: &str, workers: i32, stays: bool) -> Value {
    let annotations = match stays {
        true => json!({}),
        false => json!({"kwok.paddlepaddle.org/run-for": "2s"}),
    };
    let template = |annotations: Value| {
        json!({
            "metadata": {"annotations": annotations},
            "spec": {
                "schedulerName": "volcano",
                "containers": [{
                    "name": "paddle",
                    "image": "paddle",
                    "resources": {"limits": {"nvidia.com/gpu": 2}},
                }],
            },
        })
    };
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": {
            "schedulingPolicy": {"queue": "default"},
            "ps": {"replicas": 2, "template": template(json!({}))},
            "worker": {"replicas": workers, "template": template(annotations)},
        },
    })
}

/// Without a gang each of two jobs may get half of the room and wait for the other half for
/// ever.
#[tokio::test]
async fn of_two_jobs_one_runs_whole_and_then_the_other() -> Result<()> {
    let mut stage = Stage::set("two").await?;
    for repeat in 0..REPEATS {
        let names = ["a", "b"].map(|name| format!("{name}-{repeat}"));
        let [one, other] = &names;
        tokio::try_join!(
            stage.create(job(one, 2, false)),
            stage.create(job(other, 2, false))
        )?;
        let start = Instant::now();
        let mut waited = false;
        loop {
            let placed = stage.placed().await?;
            ensure!(
                placed.len() <= 1,
                "two jobs have places at once: {placed:?}"
            );
            let mut ended = 0;
            for name in &names {
                ended += usize::from(stage.phase(name).await? == Some(Phase::Completed));
                let told = stage.scheduled(name).await.unwrap_or_default();
                waited |= told.0 == "WaitingForGang" && told.1.contains(name.as_str());
            }
            if ended == names.len() {
                break;
            }
            let log = stage.log.display();
            ensure!(
                start.elapsed() < PATIENCE,
                "{placed:?} after {repeat} repeats; see {log}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ensure!(waited, "none of the two says what it waits for");
        for name in &names {
            stage.has_no_group(name).await?;
        }
    }
    stage.manager.is_well()
}

/// More and fewer workers, a pause, and the end.
#[tokio::test]
async fn the_group_is_in_step_with_its_job() -> Result<()> {
    let mut stage = Stage::set("step").await?;
    stage.create(job("a", 2, true)).await?;
    stage.reaches("a", Phase::Running).await?;
    stage.has_group("a", 4, "8").await?;
    stage
        .patch("a", json!({"spec": {"worker": {"replicas": 1}}}))
        .await?;
    stage.has_group("a", 3, "6").await?;
    stage.reaches("a", Phase::Running).await?;
    stage.patch("a", json!({"spec": {"suspend": true}})).await?;
    stage.reaches("a", Phase::Suspended).await?;
    stage.has_no_group("a").await?;
    // The room is free for another one meanwhile.
    stage.create(job("b", 2, false)).await?;
    stage.reaches("b", Phase::Completed).await?;
    stage
        .patch("a", json!({"spec": {"suspend": false}}))
        .await?;
    stage.reaches("a", Phase::Running).await?;
    stage.has_group("a", 3, "6").await?;
    // A whole restart: the servers' addresses are in everybody's list.
    stage
        .pods
        .delete("a-ps-0", &DeleteParams::default())
        .await?;
    until(PATIENCE, || async {
        let status = stage.jobs.get("a").await?.status.unwrap_or_default();
        let again = status.attempt >= Some(2) && status.phase == Some(Phase::Running);
        ensure!(again, "{:?} in attempt {:?}", status.phase, status.attempt);
        Ok(())
    })
    .await?;
    stage.jobs.delete("a", &DeleteParams::background()).await?;
    stage.has_no_group("a").await?;
    stage.manager.is_well()
}

#[tokio::test]
async fn a_job_that_is_too_large_says_so_and_has_no_pod() -> Result<()> {
    let mut stage = Stage::set("large").await?;
    stage.create(job("a", 3, true)).await?;
    until(PATIENCE, || async {
        let (reason, message) = stage.scheduled("a").await?;
        let is_told = reason == "WaitingForGang"
            && message.contains("room for 5 pods at once (nvidia.com/gpu 10, queue default)");
        ensure!(is_told, "{reason}: {message}");
        Ok(())
    })
    .await?;
    ensure!(
        stage
            .pods
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
    );
    // What is left out now fits.
    stage
        .patch("a", json!({"spec": {"worker": {"replicas": 2}}}))
        .await?;
    stage.reaches("a", Phase::Running).await?;
    stage.manager.is_well()
}
