//! Data sets through the JuiceFS CSI driver.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::guide;
use crate::wait::until;

const PODS: &str = "\
NAME                                         READY   STATUS    RESTARTS   AGE
imagenet-runtime-0                           1/1     Running   0          30s
paddle-controller-manager-776b84bfb4-qs67f   1/1     Running   0          11h
paddle-samplejob-manager-685449d6d7-cmqfb    1/1     Running   0          11h
paddle-sampleset-manager-69bc7fb85d-4rjcg    1/1     Running   0          11h
";

/// From its set to its job, the guide to the cache component.
pub async fn as_shown(bed: &Bed) {
    bed.install().await;
    let source = bed.s3.folder("imagenet");
    bed.apply(&bed.redis.secret("imagenet", (0, 1)));
    guide::create_set(&bed.shell, &source).await;
    bed.shows_pods(PODS).await;
    bed.is_labelled("imagenet", 1).await;
    guide::try_jobs(&bed.shell, &source).await;
    let begin = Instant::now();
    guide::use_set(&bed.shell).await;
    assert!(begin.elapsed() < Duration::from_secs(90));
    assert_eq!(
        bed.node_of("ps-demo-worker-0"),
        bed.node_of("imagenet-runtime-0")
    );
    bed.clean_up().await;
    guide::create_set_again(&bed.shell).await;
    bed.clean_up().await;
}

/// Worker i runs where partition i is, one too many anywhere.
pub async fn workers_are_where_their_partitions_are(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("halves", (2, 3), 2).await;
    bed.is_labelled("halves", 2).await;
    bed.create_running_job("three", 3, Some("halves")).await;
    for partition in 0..2 {
        assert_eq!(
            bed.node_of(&format!("three-worker-{partition}")),
            bed.node_of(&format!("halves-runtime-{partition}"))
        );
    }
    let list = "kubectl -n paddle-system exec three-worker-2 -- ls /mnt/data";
    assert_eq!(bed.shell.run(list), "n01440764\n");
    bed.clean_up().await;
}

/// A SampleJob that empties the caches of a set, unless it is told something else.
pub fn sample_job(name: &str, set: &str, more: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleJob",
        "metadata": {"name": name, "namespace": "paddle-system"},
        "spec": {"type": "clear", "sampleSetRef": {"name": set}},
    });
    if let (Some(spec), Value::Object(more)) = (job["spec"].as_object_mut(), more) {
        spec.extend(more);
    }
    job
}

/// One operation for each minute, and one that goes when it is done, though the Go operator
/// had a hold on it.
pub async fn operations_come_and_go(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("halves", (2, 3), 1).await;
    bed.apply(&sample_job(
        "minutely",
        "halves",
        json!({"schedule": "* * * * *"}),
    ));
    let mut passing = sample_job("passing", "halves", json!({"ttlSecondsAfterFinished": 1}));
    let hold = format!("{}passing", api::labels::GO_SAMPLE_JOB_FINALIZER);
    passing["metadata"]["finalizers"] = json!([hold]);
    bed.apply(&passing);
    until("one is gone and the other did its work", async || {
        let jobs = bed.field("samplejobs", ".items[*].metadata.name");
        jobs.contains("minutely-") && !jobs.contains("passing")
    })
    .await;
    bed.clean_up().await;
}

/// Somebody deletes the claim of a set. Kubernetes keeps it until no pod has it, and binds its
/// volume to no other.
pub async fn a_claim_comes_back(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("halves", (2, 3), 1).await;
    let uid = |object: &str| bed.field(object, ".metadata.uid");
    let [claim, volume] = ["pvc/halves", "pv/paddle-system.halves"];
    let old = [uid(claim), uid(volume)];
    bed.shell
        .run("kubectl -n paddle-system delete pvc halves --wait=false");
    let reason = ".status.conditions[?(@.type==\"Bound\")].reason";
    bed.is("sampleset/halves", reason, "VolumeGoing").await;
    bed.shell
        .run("kubectl -n paddle-system delete pod halves-runtime-0");
    until("both are others", async || {
        let new = [uid(claim), uid(volume)];
        new.iter()
            .zip(&old)
            .all(|(new, old)| !new.is_empty() && new != old)
    })
    .await;
    bed.is("sampleset/halves", reason, "Bound").await;
    bed.is_ready("halves").await;
    bed.clean_up().await;
}
