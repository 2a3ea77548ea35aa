//! Hostile and malformed objects: each gets a clear answer, from the API server
//! or from the manager, and none of them stops another job.
//!
//! The CRD belongs to the whole cluster, so that this is a test process of its
//! own. It leaves the published one behind.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "what other suites need")]
mod support;

mod accepted;
mod jobs;
mod objects;
mod refused;
mod stored;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{PaddleJob, Phase};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{from_value, json};

use jobs::{Jobs, at};
use objects::{Answer, Hostile};
use support::{Cluster, Manager, until};

/// How long the manager may take for an answer, while it answers all the others.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn every_hostile_object_gets_a_clear_answer_and_stops_no_other() -> Result<()> {
    let cluster = Cluster::connect().await?;
    let namespace = cluster.namespace("hostile").await?;
    let jobs = Jobs {
        client: cluster.client.clone(),
        namespace: namespace.name.clone(),
    };
    let (refused, accepted, stored) = (refused::objects(), accepted::objects(), stored::objects());
    ensure!(refused.len() + accepted.len() + stored.len() >= 50);
    ensure!(stored.len() >= 10);

    let loose = serde_saphyr::from_str(include_str!("loose-crd.yaml"))?;
    cluster.install(&loose).await?;
    let outcome = store(&jobs, &stored).await;
    // Whatever came of it, the published CRD has to be there in the end.
    for crd in support::published_crds()? {
        cluster.install(&crd).await?;
    }
    outcome?;
    until(PATIENCE, || has_rules(&jobs)).await?;

    let log = support::log_file("hostile")?;
    let mut manager = Manager::start(&cluster.kubeconfig, None, &log)?;
    let mut wrong = Vec::new();
    for hostile in &refused {
        wrong.extend(jobs.is_refused(hostile).await.err());
    }
    take_names(&jobs).await?;
    for hostile in &accepted {
        wrong.extend(jobs.store(hostile).await.err());
    }
    let start = Instant::now();
    for hostile in stored.iter().chain(&accepted) {
        // All together: one that is never answered holds up no other.
        let patience = PATIENCE.saturating_sub(start.elapsed());
        wrong.extend(until(patience, || jobs.is_answered(hostile)).await.err());
    }
    wrong.extend(is_mended(&jobs).await.err());
    wrong.extend(starts_again(&jobs).await.err());
    wrong.extend(can_be_mended(&jobs).await.err());
    wrong.extend(manager.is_well().err());
    drop(manager);
    // Another one meets them all at once, and finds nothing new to say.
    let mut manager = Manager::start(&cluster.kubeconfig, None, &log)?;
    wrong.extend(others_run(&jobs).await.err());
    for hostile in stored.iter().chain(&accepted) {
        wrong.extend(jobs.was_warned_once(hostile).await.err());
    }
    wrong.extend(manager.is_well().err());
    let wrong: Vec<String> = wrong.iter().map(|error| format!("{error:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Stores what a CRD without rules lets through.
async fn store(jobs: &Jobs, stored: &[Hostile]) -> Result<()> {
    for hostile in stored {
        // The API server takes a moment to see the new CRD.
        until(Duration::from_secs(10), || jobs.store(hostile)).await?;
    }
    Ok(())
}

/// The API server has seen the published CRD.
async fn has_rules(jobs: &Jobs) -> Result<()> {
    let hostile = Hostile::job("probe", objects::replicas(json!(0)), Answer::Runs);
    let created = jobs.create(&hostile.body, true).await;
    ensure!(created.is_err(), "0 replicas are accepted");
    Ok(())
}

/// Somebody else has the names that two of the jobs need.
async fn take_names(jobs: &Jobs) -> Result<()> {
    let pod: Pod = from_value(json!({
        "metadata": {"name": "pod-taken-worker-0"},
        "spec": {"containers": [{"name": "mine", "image": "mine"}]},
    }))?;
    let map: ConfigMap = from_value(json!({"metadata": {"name": "map-taken"}}))?;
    let (client, namespace) = (&jobs.client, &jobs.namespace);
    let (pods, maps): (Api<Pod>, Api<ConfigMap>) = (
        Api::namespaced(client.clone(), namespace),
        Api::namespaced(client.clone(), namespace),
    );
    pods.create(&PostParams::default(), &pod).await?;
    maps.create(&PostParams::default(), &map).await?;
    Ok(())
}

/// What the manager did beyond its answers.
async fn is_mended(jobs: &Jobs) -> Result<()> {
    let finalizers = jobs.read("stored-finalized").await?.metadata.finalizers;
    ensure!(
        finalizers.is_empty(),
        "stored-finalized keeps {finalizers:?}: nobody could delete it"
    );
    let pod = jobs.pod("label-reserved-worker-0").await?;
    let rank = at(&pod, "/metadata/labels/batch.paddlepaddle.org~1rank")?;
    ensure!(rank == "0", "the template's label won: {rank}");
    let pod = jobs.pod("metadata-usurped-worker-0").await?;
    let finalizers = at(&pod, "/metadata/finalizers")?;
    ensure!(
        finalizers == json!(["example.org/mine"]),
        "the template's finalizers were not kept: {finalizers}"
    );
    // The namespace could not go with it.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let pods: Api<Pod> = Api::namespaced(jobs.client.clone(), &jobs.namespace);
    pods.patch("metadata-usurped-worker-0", &PatchParams::default(), &free)
        .await?;
    let owners = at(&pod, "/metadata/ownerReferences")?;
    let (count, kind) = (owners.as_array().map(Vec::len), at(&owners, "/0/kind")?);
    ensure!(
        count == Some(1) && kind == "PaddleJob",
        "the template's owners are there: {owners}"
    );
    let pod = jobs.pod("host-pid-worker-0").await?;
    let host = at(&pod, "/spec/hostPID")?;
    ensure!(host == true, "the template was not kept: hostPID is {host}");
    Ok(())
}

/// The attempt after the last number that there is. It comes after the longest
/// rest, unless the user asks for it.
async fn starts_again(jobs: &Jobs) -> Result<()> {
    let name = "forged-last-worker-0";
    let old = jobs.pod(name).await?.metadata.uid;
    let api: Api<Pod> = Api::namespaced(jobs.client.clone(), &jobs.namespace);
    api.delete(name, &DeleteParams::default()).await?;
    let owners: Api<PaddleJob> = Api::namespaced(jobs.client.clone(), &jobs.namespace);
    for (suspend, phase) in [(true, Phase::Suspended), (false, Phase::Running)] {
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        owners
            .patch("forged-last", &PatchParams::default(), &patch)
            .await?;
        until(PATIENCE, || async {
            let status = owners.get("forged-last").await?.status.unwrap_or_default();
            ensure!(status.phase == Some(phase), "forged-last is {status:?}");
            Ok(())
        })
        .await?;
    }
    until(PATIENCE, || async {
        let new = jobs.pod(name).await?.metadata.uid;
        ensure!(new != old, "{name} was not made again");
        Ok(())
    })
    .await
}

/// Somebody corrects the job that took no change and could not be deleted: it
/// runs, and nothing holds it any more.
async fn can_be_mended(jobs: &Jobs) -> Result<()> {
    let name = "stored-for-ever";
    let good = Hostile::job(name, objects::worker(objects::template()), Answer::Runs);
    jobs.replace_spec(&good).await?;
    until(PATIENCE, || async {
        jobs.is_answered(&good).await?;
        let finalizers = jobs.read(name).await?.metadata.finalizers;
        ensure!(finalizers.is_empty(), "{name} keeps {finalizers:?}");
        Ok(())
    })
    .await
}

/// A job that comes after all the others runs, and so does one beside each of
/// the hostile ones that has parameter servers and Services.
async fn others_run(jobs: &Jobs) -> Result<()> {
    let role = json!({"replicas": 2, "template": objects::template()});
    let spec = json!({"intranet": "Service", "ps": role, "worker": role});
    for good in [
        Hostile::job("good", objects::worker(objects::template()), Answer::Runs),
        Hostile::job("good-ps", spec, Answer::Runs),
    ] {
        jobs.store(&good).await?;
        let runs = until(PATIENCE, || jobs.is_answered(&good)).await;
        runs.context("a good job that came after the hostile ones")?;
    }
    Ok(())
}
