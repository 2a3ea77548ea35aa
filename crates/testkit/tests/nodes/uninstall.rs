//! Uninstalling, as the guides show it, in the middle of everything.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::bed::{Bed, MANIFESTS, job};
use crate::pages::{commands, follow};
use crate::wait::until;

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
    leaves_nothing(bed).await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    shell.run("kubectl delete --ignore-not-found -f deploy/extensions/controllers.yaml");
    leaves_no_roles(bed);

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

/// Nothing of ours is left but roles; Kubernetes lets volumes go in its own time.
async fn leaves_nothing(bed: &Bed) {
    let left = "kubectl get pv,namespace,crd,nodes -o yaml";
    until("nothing is left", async || {
        let left = bed.shell.run(left);
        !["paddlepaddle.org", "paddle-system"]
            .iter()
            .any(|ours| left.contains(ours))
    })
    .await;
}

fn leaves_no_roles(bed: &Bed) {
    let roles = "kubectl get clusterroles,clusterrolebindings -o name";
    let roles = bed.shell.run(roles);
    assert!(!roles.contains("/paddle-"), "{roles}");
}

/// Whatever is installed, by these files or with the same names.
pub fn by_files(bed: &Bed) {
    let files = MANIFESTS.map(|file| format!("-f {file}")).join(" ");
    let how = "--ignore-not-found --timeout=120s";
    bed.shell.run(&format!("kubectl delete {how} {files}"));
}

/// What Helm installed in this namespace.
pub async fn by_helm(bed: &Bed, namespace: &str) {
    let [_, _, _, by_helm] = commands("uninstall.md", "In order");
    for command in by_helm {
        bed.shell.run(&command.replace("paddle-system", namespace));
    }
    leaves_nothing(bed).await;
    leaves_no_roles(bed);
}

/// In order, when the managers look at all namespaces.
pub async fn in_order(bed: &Bed) {
    bed.install().await;
    let shell = &bed.shell;
    shell.run("kubectl create namespace elsewhere");
    let [all_namespaces] = commands("installation.md", "Other namespaces");
    follow(bed, &all_namespaces);
    shell.run("kubectl -n paddle-system rollout status deployment --timeout=120s");
    bed.forgive_refusals();
    bed.apply(&job("elsewhere", "far", 1));
    let phase = "kubectl -n elsewhere get pdj/far -o jsonpath='{.status.phase}'";
    bed.prints(phase, "Running").await;
    bed.create_ready_set("near", (8, 9), 1).await;
    bed.create_running_job("reader", 1, Some("near")).await;
    bed.judge_refusals();

    let [jobs_and_sets, files, bindings, _] = commands("uninstall.md", "In order");
    for block in [jobs_and_sets, files, bindings] {
        follow(bed, &block);
    }
    leaves_nothing(bed).await;
    leaves_no_roles(bed);
    shell.run("kubectl delete namespace elsewhere");
}

/// A set that outlived its manager is let go, and cleaned up by hand.
pub async fn without_manager(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("left", (8, 9), 1).await;
    bed.is_labelled("left", 1).await;
    let shell = &bed.shell;
    shell.run("kubectl -n paddle-system scale deployment/paddle-sampleset-manager --replicas=0");
    until("nobody manages sets", async || {
        let pods = "pods -l control-plane=sampleset-manager";
        bed.field(pods, ".items[*].metadata.name").is_empty()
    })
    .await;
    shell.run("kubectl -n paddle-system delete sampleset/left --wait=false");
    assert_ne!(bed.field("sampleset/left", ".metadata.finalizers"), "");

    let [let_go, by_hand] = commands("uninstall.md", "When the manager was gone first");
    follow(bed, &let_go);
    assert_eq!(bed.field("sampleset/left", ".metadata.name"), "");
    for command in by_hand {
        shell.run(&command.replace("NAMESPACE.NAME", "paddle-system.left"));
    }
    bed.clean_up().await;
}
