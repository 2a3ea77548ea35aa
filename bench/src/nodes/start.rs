//! How long four workers take until all of them run, beside four bare pods.

use std::collections::BTreeMap;
use std::time::Instant;

use api::{PaddleJob, labels};
use bench::median;
use futures::future::try_join_all;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::namespace::{NAME, Namespace, is_running, named};
use crate::print_times;

const PODS: usize = 4;
/// The job whose pods nobody wakes.
const ASLEEP: &str = "asleep";

/// What is started, by its name, and what the figures are about.
const KINDS: [(&str, &str); 4] = [
    ("bare", "bare pods"),
    ("podip", "PodIP (at most 2 s more)"),
    (ASLEEP, "PodIP without wake-ups"),
    ("service", "Service (at most 2.5 s more)"),
];

/// Starts and removes all kinds by turns, and prints how long they took.
pub(crate) async fn compare(namespace: &Namespace, runs: usize) -> anyhow::Result<()> {
    println!(
        "## {PODS} Collective workers, from the request until all run; and how much more than"
    );
    println!("## bare pods of the same turn");
    forbid_wake_ups(namespace).await?;
    // The first containers of an image wait for its files.
    time(namespace, "bare").await?;
    let mut times = KINDS.map(|_| Vec::new());
    for _ in 0..runs {
        for ((name, _), times) in KINDS.iter().zip(&mut times) {
            times.push(time(namespace, name).await?);
        }
    }
    let [bare, ..] = &times;
    for ((_, what), times) in KINDS.iter().zip(&times) {
        print_times(what, times);
        let more = times.iter().zip(bare).map(|(time, bare)| time - bare);
        let more: Vec<f64> = more.collect();
        let most = more.iter().copied().fold(f64::MIN, f64::max);
        println!(
            "{:<34}more: median {:.2} s, most {most:.2} s",
            "",
            median(more)
        );
    }
    println!();
    Ok(())
}

/// Starts some, and removes them; how long it took until all of them ran, in seconds.
async fn time(namespace: &Namespace, name: &str) -> anyhow::Result<f64> {
    let mut pods = namespace.watch::<Pod>().await?;
    let begin = Instant::now();
    match name {
        "bare" => {
            let create = |index| namespace.create::<Pod>(bare(index));
            try_join_all((0..PODS).map(create)).await?;
        }
        _ => namespace.create::<PaddleJob>(job(name)).await?,
    }
    let all_run = |pods: &BTreeMap<String, Pod>| {
        let running: Vec<Pod> = named(pods, name)
            .filter(|pod| is_running(pod))
            .cloned()
            .collect();
        (running.len() == PODS).then_some(running)
    };
    let pods = pods.until(&format!("{name} runs"), all_run).await?;
    let took = begin.elapsed().as_secs_f64();
    match name {
        "bare" => {
            let api: Api<Pod> = namespace.api();
            for pod in &pods {
                api.delete(&pod.name_any(), &DeleteParams::default())
                    .await?;
            }
            namespace.are_gone(name).await?;
        }
        _ => namespace.delete_job(name).await?,
    }
    let is_woken = |pod: &Pod| pod.annotations().contains_key(labels::WOKEN);
    anyhow::ensure!(
        name != ASLEEP || !pods.iter().any(is_woken),
        "pods were woken"
    );
    Ok(took)
}

fn pod_spec() -> Value {
    json!({"containers": [{
        "name": "paddle",
        "image": "nginx",
        "imagePullPolicy": "IfNotPresent",
    }]})
}

fn bare(index: usize) -> Value {
    json!({"metadata": {"name": format!("bare-{index}")}, "spec": pod_spec()})
}

fn job(name: &str) -> Value {
    let intranet = if name == "service" {
        "Service"
    } else {
        "PodIP"
    };
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": {
            "intranet": intranet,
            "worker": {"replicas": PODS, "template": {"spec": pod_spec()}},
        },
    })
}

/// The API server refuses to let the manager change pods of one job, as it would be without
/// wake-ups. The operator needs no switch for it that nobody else would want.
async fn forbid_wake_ups(namespace: &Namespace) -> anyhow::Result<()> {
    let name = "bench-nodes-asleep";
    let by =
        format!("request.userInfo.username == 'system:serviceaccount:{NAME}:paddle-manager-sa'");
    let of = format!("object.metadata.name.startsWith('{ASLEEP}-')");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["pods"],
            }]},
            "matchConditions": [{"name": "by", "expression": by}, {"name": "of", "expression": of}],
            "validations": [{"expression": "false", "message": "pods are not to be woken"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let how = PatchParams::apply("bench-nodes");
    let client = &namespace.client;
    Api::<ValidatingAdmissionPolicy>::all(client.clone())
        .patch(name, &how, &Patch::Apply(policy))
        .await?;
    Api::<ValidatingAdmissionPolicyBinding>::all(client.clone())
        .patch(name, &how, &Patch::Apply(binding))
        .await?;
    Ok(())
}
