//! How long the job of the guide to the cache takes: nginx, with a set mounted.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use api::{PaddleJob, Phase, SampleSet, SampleSetPhase};
use bench::server;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Child;

use crate::namespace::Namespace;

const SET: &str = "imagenet";
const JOB: &str = "ps-demo";

/// A Redis that holds metadata and blocks, as in the guide.
pub(crate) struct Redis {
    address: SocketAddr,
    _process: Child,
    _dir: TempDir,
}

impl Redis {
    /// Starts it where the nodes reach it.
    pub(crate) async fn start(installed: &Path, ip: IpAddr) -> anyhow::Result<Redis> {
        let dir = tempfile::tempdir()?;
        let (address, process) = server::redis(installed, ip, dir.path()).await?;
        Ok(Redis {
            address,
            _process: process,
            _dir: dir,
        })
    }
}

/// Makes a set and the job, which stay, and prints how long they took.
pub(crate) async fn measure(namespace: &Namespace, redis: &Redis) -> anyhow::Result<()> {
    println!("## ps-demo: nginx with a set, through the CSI driver");
    let address = redis.address;
    namespace
        .create::<Secret>(json!({
            "metadata": {"name": SET},
            "stringData": {
                "name": SET,
                "storage": "redis",
                "bucket": format!("redis://{address}/1"),
                "metaurl": format!("redis://{address}/0"),
            },
        }))
        .await?;
    let mut sets = namespace.watch::<SampleSet>().await?;
    let begin = Instant::now();
    // Without data: how long this takes to copy is nothing of the nodes.
    namespace
        .create::<SampleSet>(json!({
            "apiVersion": "batch.paddlepaddle.org/v1alpha1",
            "kind": "SampleSet",
            "metadata": {"name": SET},
            "spec": {"partitions": 1, "noSync": true, "secretRef": {"name": SET}},
        }))
        .await?;
    let is_ready = |sets: &BTreeMap<String, SampleSet>| {
        let phase = sets.get(SET)?.status.as_ref()?.phase?;
        (phase == SampleSetPhase::Ready).then_some(())
    };
    sets.until("the set is Ready", is_ready).await?;
    println!(
        "an empty set is Ready after       {:6.2} s",
        begin.elapsed().as_secs_f64()
    );

    let mut jobs = namespace.watch::<PaddleJob>().await?;
    let begin = Instant::now();
    let role = json!({
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "sample", "image": "nginx"}]}},
    });
    namespace
        .create::<PaddleJob>(json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": JOB},
            "spec": {
                "sampleSetRef": {"name": SET, "mountPath": "/mnt/imagenet"},
                "worker": role,
                "ps": role,
            },
        }))
        .await?;
    let is_running = |jobs: &BTreeMap<String, PaddleJob>| {
        let phase = jobs.get(JOB)?.status.as_ref()?.phase?;
        (phase == Phase::Running).then_some(())
    };
    jobs.until("ps-demo is Running", is_running).await?;
    println!(
        "ps-demo is Running after          {:6.2} s (at most 90 s)\n",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Deletes what [`measure`] made.
pub(crate) async fn clean_up(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.delete_job(JOB).await?;
    let sets: Api<SampleSet> = namespace.api();
    sets.delete(SET, &DeleteParams::default()).await?;
    let mut sets = namespace.watch::<SampleSet>().await?;
    let is_gone = |sets: &BTreeMap<String, SampleSet>| sets.is_empty().then_some(());
    sets.until("the set is gone", is_gone).await?;
    let secrets: Api<Secret> = namespace.api();
    secrets.delete(SET, &DeleteParams::default()).await?;
    Ok(())
}
