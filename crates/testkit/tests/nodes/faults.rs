//! What goes wrong on a cluster, and that jobs and sets get over it.

use std::time::Duration;

use serde_json::json;

use crate::bed::Bed;
use crate::data::sample_job;
use crate::wait::until;

/// A set on two of the three nodes, and a job that reads it.
async fn begin(bed: &Bed) {
    bed.install().await;
    bed.create_ready_set("halves", (2, 3), 2).await;
    bed.is_labelled("halves", 2).await;
    bed.create_running_job("reader", 2, Some("halves")).await;
    is_read(bed).await;
}

/// The workers are where their data is, and read it.
async fn is_read(bed: &Bed) {
    for partition in 0..2 {
        let worker = format!("reader-worker-{partition}");
        let runtime = format!("halves-runtime-{partition}");
        until(&format!("{worker} is where {runtime} is"), async || {
            bed.node_of(&worker) == bed.node_of(&runtime)
        })
        .await;
        let read = format!(
            "kubectl -n paddle-system exec {worker} -- cat /mnt/data/n01440764/0001.JPEG | wc -c"
        );
        bed.prints(&read, "262144\n").await;
    }
}

/// A job of now is run, and the one of before was not touched.
async fn goes_on(bed: &Bed, before: &str) {
    bed.create_running_job("late", 2, Some("halves")).await;
    bed.shell
        .run("kubectl -n paddle-system delete pdj/late --timeout=60s");
    until("only the pods of before are there", async || {
        !bed.field("pods -l paddle-res-name", ".items[*].metadata.name")
            .contains("late")
    })
    .await;
    assert_eq!(bed.job_pods(), before);
}

/// Each partition is cached whole, on the node where its server is now.
async fn is_cached(bed: &Bed) {
    let nodes = [0, 1].map(|partition| bed.node_of(&format!("halves-runtime-{partition}")));
    // Of one status: what it says of the nodes of before is not what is wanted.
    let partitions = ".status.cacheStatus.partitions[*]";
    let told = format!(".status.phase}} {{{partitions}.node}} {{{partitions}.percent");
    let wanted = format!("Ready {} 100 100", nodes.join(" "));
    bed.is("sampleset/halves", &told, &wanted).await;
}

/// Everything is as it was, on whatever nodes.
async fn is_mended(bed: &Bed) {
    bed.is_ready("halves").await;
    is_cached(bed).await;
    bed.is_labelled("halves", 2).await;
    bed.is_running("reader").await;
    is_read(bed).await;
}

/// A node with a partition is drained: the partition moves, and the worker follows it.
pub async fn drain(bed: &Bed) {
    begin(bed).await;
    let node = bed.node_of("halves-runtime-1");
    let how = "--ignore-daemonsets --delete-emptydir-data --force --timeout=120s";
    bed.shell.run(&format!("kubectl drain {node} {how}"));
    until("the partition is elsewhere", async || {
        ![String::new(), node.clone()].contains(&bed.node_of("halves-runtime-1"))
    })
    .await;
    is_mended(bed).await;
    bed.shell.run(&format!("kubectl uncordon {node}"));
    bed.clean_up().await;
}

/// A kubelet and the driver's pods die, and are started again, by whoever does that.
pub async fn kubelet_and_driver(bed: &Bed) {
    begin(bed).await;
    let before = bed.job_pods();
    let node = bed.node_of("halves-runtime-0");
    bed.cluster(&["exec", &node, "sh", "-c", "kill -9 $(pidof kubelet)"]);
    // Not by force: the next one would begin beside the one that ends, which takes the sockets
    // away that both have at the same place.
    let driver = "-n kube-system -l app=juicefs-csi-node";
    bed.shell
        .run(&format!("kubectl delete pod {driver} --grace-period=1"));
    bed.shell
        .run("kubectl -n kube-system rollout status daemonset/juicefs-csi-node --timeout=120s");
    is_mended(bed).await;
    goes_on(bed, &before).await;
    bed.clean_up().await;
}

/// A node is gone for good: its partition moves, and its worker follows.
pub async fn dead_node(bed: &Bed) {
    begin(bed).await;
    let node = bed.node_of("halves-runtime-1");
    bed.cluster(&["kill", &node]);
    bed.is(
        &format!("node/{node}"),
        ".status.conditions[?(@.type==\"Ready\")].status",
        "Unknown",
    )
    .await;
    bed.apply(&sample_job(
        "meanwhile",
        "halves",
        json!({"type": "warmup"}),
    ));
    // Nobody there can say that the pods have ended: a minute later their managers do.
    let pods = "pod/halves-runtime-1 pod/reader-worker-1 --grace-period=1 --wait=false";
    bed.shell
        .run(&format!("kubectl -n paddle-system delete {pods}"));
    until("the partition is elsewhere", async || {
        ![String::new(), node.clone()].contains(&bed.node_of("halves-runtime-1"))
    })
    .await;
    is_mended(bed).await;
    bed.is("samplejob/meanwhile", ".status.phase", "Succeeded")
        .await;
    bed.cluster(&["up", "--nodes", "3"]);
    bed.clean_up().await;
}

/// Nobody reaches the API for a minute, and etcd dies too.
pub async fn no_api(bed: &Bed) {
    begin(bed).await;
    let before = bed.job_pods();
    bed.judge_refusals();
    for component in ["kube-apiserver", "etcd"] {
        bed.cluster(&["kill", component]);
    }
    // How long it takes is what this is about.
    tokio::time::sleep(Duration::from_secs(60)).await;
    bed.cluster(&["up", "--nodes", "3"]);
    is_mended(bed).await;
    bed.forgive_refusals();
    // The managers may have started again, when they lost their leases; the job has not.
    goes_on(bed, &before).await;
    bed.clean_up().await;
}
