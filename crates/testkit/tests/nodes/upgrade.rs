//! Jobs outlive the managers: a newer version by Helm, and what the Go operator left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use api::labels;
use serde_json::{Value, json};
use testkit::go::GoJob;

use crate::bed::Bed;
use crate::uninstall;
use crate::wait::until;

/// The version that a user upgrades to.
const NEXT: &str = "v9.9.9";

/// Installs the chart, and upgrades managers and CRDs to a newer version, under a job.
pub async fn by_helm(bed: &Bed) {
    let shell = &bed.shell;
    uninstall::by_files(bed);
    shell.run("helm lint charts/paddle-operator");
    let how = "--namespace paddle-system --create-namespace --wait --timeout=120s";
    shell.run(&format!("helm install paddle charts/paddle-operator {how}"));
    bed.forgive_refusals();
    bed.create_ready_set("carried", (6, 7), 2).await;
    bed.create_running_job("survivor", 2, Some("carried")).await;
    // As a version would have left it that made it otherwise.
    let stamp = format!("{}=old", labels::APPLIED);
    let service = "kubectl -n paddle-system annotate --overwrite service/carried-runtime-service";
    shell.run(&format!("{service} {stamp}"));
    let before = bed.job_pods();

    let chart = shell.dir.path().join("next");
    shell.run("mkdir next && cp -RL charts/paddle-operator/. next");
    publish(&chart);
    for node in ["node-0", "node-1", "node-2"] {
        let image = "docker.io/paddlepaddle/paddle-operator";
        let old = concat!(
            "docker.io/paddlepaddle/paddle-operator:v",
            env!("CARGO_PKG_VERSION")
        );
        let new = format!("{image}:{NEXT}");
        let tag = ["ctr", "--namespace=k8s.io", "images", "tag", "--force"];
        bed.cluster(&[&["exec", node], &tag[..], &[old, &new]].concat());
    }
    shell.run(&format!("helm upgrade paddle ./next {how}"));
    let managers = "pods -l control-plane";
    let images = bed.field(managers, ".items[*].spec.containers[0].image");
    let image = format!("paddlepaddle/paddle-operator:{NEXT}");
    assert_eq!(images.split(' ').filter(|it| **it == image).count(), 3);
    let version = ".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.next.type";
    let crd = "crd/paddlejobs.batch.paddlepaddle.org";
    assert_eq!(bed.field(crd, version), "string");
    let servers = "pods -l batch.paddlepaddle.org/sampleset";
    let images = format!("{image} {image}");
    bed.is(servers, ".items[*].spec.containers[0].image", &images)
        .await;
    bed.is_ready("carried").await;
    // The new manager works, and had nothing to do for the old job.
    bed.create_running_job("late", 1, None).await;
    bed.shell
        .run("kubectl -n paddle-system delete pdj/late --timeout=60s");
    until("the pods of the old job are those it had", async || {
        bed.job_pods() == before
    })
    .await;
    bed.is_running("survivor").await;
    bed.clean_up().await;
    bed.judge_refusals();
    uninstall::by_helm(bed, "paddle-system").await;
    shell.run("rm -r next");
}

/// Makes a copy of the chart a newer one, whose jobs have a field more.
fn publish(chart: &Path) {
    let change = |file: &str, old: &str, new: &str| {
        let path = chart.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{old}");
        fs::write(&path, text.replacen(old, new, 1)).unwrap();
    };
    change(
        "Chart.yaml",
        concat!("appVersion: v", env!("CARGO_PKG_VERSION")),
        &format!("appVersion: {NEXT}"),
    );
    let field = "\n              cleanPodPolicy:";
    let fields = format!("\n              next:\n                type: string{field}");
    change("files/crd.yaml", field, &fields);
}

/// A running job of the Go operator v0.3.5: it goes on as it is, and is deleted at once.
pub async fn from_go(bed: &Bed) {
    bed.install().await;
    let shell = &bed.shell;
    let manager = "kubectl -n paddle-system scale deployment/paddle-controller-manager";
    shell.run(&format!("{manager} --replicas=0"));
    until("nobody manages jobs", async || {
        let pods = "pods -l control-plane=controller-manager";
        bed.field(pods, ".items[*].metadata.name").is_empty()
    })
    .await;
    let pods = go_runs(bed).await;
    let map = bed.field("configmap/old", ".data");

    shell.run(&format!("{manager} --replicas=1"));
    bed.is("pdj/old", ".status.observedGeneration", "1").await;
    assert_eq!(bed.field("pdj/old", ".metadata.finalizers"), "");
    bed.is_running("old").await;
    assert_eq!(uids(bed), pods);
    assert_eq!(bed.field("configmap/old", ".data"), map);
    let begin = Instant::now();
    shell.run("kubectl -n paddle-system delete pdj/old --timeout=10s");
    until("its pods are gone", async || uids(bed).is_empty()).await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    bed.clean_up().await;
}

/// A job with everything that the Go operator made of it; the uids of its pods.
async fn go_runs(bed: &Bed) -> BTreeMap<String, String> {
    let template = json!({"spec": {"containers": [{"name": "paddle", "image": "nginx"}]}});
    bed.apply(&json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {
            "name": "old",
            "namespace": "paddle-system",
            "finalizers": [labels::GO_FINALIZER],
        },
        "spec": {"worker": {"replicas": 2, "template": template}},
    }));
    let job = GoJob {
        name: "old".to_owned(),
        uid: bed.field("pdj/old", ".metadata.uid"),
        by_service: false,
    };
    let here = |mut object: Value| {
        object["metadata"]["namespace"] = json!("paddle-system");
        bed.apply(&object);
    };
    let pods = ["old-worker-0", "old-worker-1"];
    for pod in pods {
        here(job.pod(pod, &template, "nginx").unwrap());
        here(job.service(pod));
    }
    let ip = |pod: &str| bed.field(&format!("pod/{pod}"), ".status.podIP");
    for pod in pods {
        until(&format!("{pod} has an address"), async || {
            !ip(pod).is_empty()
        })
        .await;
    }
    here(job.config_map(&[], &pods.map(ip)));
    for pod in pods {
        bed.is(&format!("pod/{pod}"), ".status.phase", "Running")
            .await;
    }
    let pods = uids(bed);
    let status = job.status("Running", &pods, "paddle-system");
    let patch = "kubectl -n paddle-system patch pdj/old --subresource=status --type=merge";
    bed.shell.run(&format!("{patch} -p '{status}'"));
    pods
}

/// The uids of the job's pods.
fn uids(bed: &Bed) -> BTreeMap<String, String> {
    let pairs = "range .items[*]}{.metadata.name}={.metadata.uid} {end";
    let pods = bed.field("pods -l paddle-res-type", pairs);
    let pairs = pods
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, uid)| (name.to_owned(), uid.to_owned()))
        .collect()
}
