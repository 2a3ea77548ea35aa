//! Uninstalling, as the guides show it, in the middle of everything.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::bed::Bed;

/// With three jobs, one of them on a set that is Ready.
pub async fn with_jobs(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("kept", (4, 5), 2).await;
    bed.create_running_job("reader", 2, Some("kept")).await;
    bed.create_running_job("first", 2, None).await;
    bed.create_running_job("second", 2, None).await;
    // The managers may do what they did. From here on their roles go, some before them.
    bed.judge_refusals();

    let begin = Instant::now();
    let shell = &bed.shell;
    shell.run("kubectl delete -f deploy/v1/crd.yaml -f deploy/v1/operator.yaml");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    let left = shell.run("kubectl get pv,namespace,crd,nodes -o yaml");
    for ours in ["paddlepaddle.org", "paddle-system"] {
        assert!(!left.contains(ours), "{left}");
    }
    shell.run("kubectl delete --ignore-not-found -f deploy/extensions/controllers.yaml");
    let roles = shell.run("kubectl get clusterroles,clusterrolebindings -o name");
    assert!(!roles.contains("/paddle-"), "{roles}");

    // The data is still in its store: the next set of this name is Ready without its source.
    bed.install().await;
    bed.apply(&bed.redis.secret("kept", (4, 5)));
    bed.apply(&json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleSet",
        "metadata": {"name": "kept", "namespace": "paddle-system"},
        "spec": {"partitions": 1, "noSync": true, "secretRef": {"name": "kept"}},
    }));
    bed.is_ready("kept").await;
    let files = bed.field("sampleset/kept", ".status.cacheStatus.totalFiles");
    assert_eq!(files, "168");
    bed.clean_up().await;
}
