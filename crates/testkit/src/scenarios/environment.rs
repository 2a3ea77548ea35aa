//! What a container starts with: the exact environment, the ConfigMap, and the
//! user's template.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::{Phase, Role, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{running, same};
use crate::builders::{JobBuilder, job, template};
use crate::puppet::Environment;
use crate::{Env, Job};

/// Names that the operator keeps for itself; nobody else reads them.
const PRIVATE: &str = "PADDLE_OPERATOR_";

pub(super) async fn ps_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").ps(2).workers(2), false).await
}

pub(super) async fn ps_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").ps(2).workers(2).service(), true).await
}

pub(super) async fn collective_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").workers(2), false).await
}

pub(super) async fn collective_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").workers(2).service(), true).await
}

pub(super) async fn single_by_pod_ip(env: &Env) -> Result<()> {
    exact(env, job("a").workers(1).intranet("PodIP"), false).await
}

pub(super) async fn single_by_service(env: &Env) -> Result<()> {
    exact(env, job("a").workers(1).service(), true).await
}

/// Every variable of every paddle container, and nothing else.
async fn exact(env: &Env, builder: JobBuilder, by_service: bool) -> Result<()> {
    let job = running(env, builder).await?;
    let hosts = |role: Role| -> Result<Vec<String>> {
        let prefix = format!("a-{role}-");
        let pods: Vec<String> = job.pods().to_vec();
        let pods: Vec<String> = pods
            .into_iter()
            .filter(|p| p.starts_with(&prefix))
            .collect();
        if by_service {
            let name = |pod: &String| format!("{pod}.{}", env.namespace);
            Ok(pods.iter().map(name).collect())
        } else {
            job.addresses(&pods)
        }
    };
    let (servers, workers) = (hosts(Role::Ps)?, hosts(Role::Worker)?);
    let lists = lists(&servers, &workers);
    let map = job.config_map().context("there is no ConfigMap")?;
    same("the ConfigMap", public(map), lists.clone())?;
    let each = servers
        .iter()
        .enumerate()
        .map(|(i, host)| (Role::Ps, i, host));
    let each = each.chain(
        workers
            .iter()
            .enumerate()
            .map(|(i, host)| (Role::Worker, i, host)),
    );
    for (role, rank, host) in each {
        let pod = format!("a-{role}-{rank}");
        let found = env.kubelet.environment(&pod, "paddle")?;
        let wanted = own(env, &job, role, rank, host)
            .into_iter()
            .chain(lists.clone());
        same(&pod, public(found), wanted.collect())?;
    }
    Ok(())
}

/// What all pods share.
fn lists(servers: &[String], workers: &[String]) -> Environment {
    let endpoints = |hosts: &[String]| {
        let all: Vec<String> = hosts.iter().map(|host| format!("{host}:36000")).collect();
        all.join(",")
    };
    let mut wanted = environment(&[
        ("TRAINER_PORTS_NUM", "20"),
        ("PADDLE_PORT", "36000"),
        ("PADDLE_TRAINER_ENDPOINTS", &endpoints(workers)),
        ("PADDLE_TRAINERS", &workers.join(",")),
        ("PADDLE_TRAINERS_NUM", &workers.len().to_string()),
    ]);
    if let Some(first) = servers.first() {
        wanted.extend(environment(&[
            ("PADDLE_PSERVERS_IP_PORT_LIST", &endpoints(servers)),
            ("PADDLE_WITH_GLOO", "1"),
            ("PADDLE_GLOO_RENDEZVOUS", "3"),
            ("PADDLE_GLOO_HTTP_ENDPOINT", &format!("{first}:36018")),
        ]));
    }
    wanted
}

/// What one pod has for itself.
fn own(env: &Env, job: &Job<'_>, role: Role, rank: usize, host: &str) -> Environment {
    let training = if role == Role::Ps {
        "PSERVER"
    } else {
        "TRAINER"
    };
    let uid = job.uid.get(..8).unwrap_or_default();
    environment(&[
        ("POD_IP", host),
        ("PADDLE_TRAINER_ID", &rank.to_string()),
        ("TRAINING_ROLE", training),
        ("PADDLE_TRAINING_ROLE", training),
        ("PADDLE_CURRENT_ENDPOINT", &format!("{host}:36000")),
        ("PADDLE_JOB_ID", &format!("{uid}-{}-a", env.namespace)),
    ])
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn public(mut environment: Environment) -> Environment {
    environment.retain(|name, _| !name.starts_with(PRIVATE));
    environment
}

/// withGloo unset, 0, 1 and 2; without servers it means nothing.
pub(super) async fn gloo(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let ps = |name: &str| job(name).ps(1).workers(1);
    let cases = [
        (ps("unset"), Some("1")),
        (ps("zero").gloo(0), None),
        (ps("one").gloo(1), Some("1")),
        (ps("two").gloo(2), Some("2")),
        (job("collective").workers(2).gloo(2), None),
    ];
    for (builder, wanted) in cases {
        let job = env.create(builder).await?;
        job.reaches(Phase::Running).await?;
        let found = env.kubelet.environment(&job.worker(0), "paddle")?;
        let gloo = [
            "PADDLE_WITH_GLOO",
            "PADDLE_GLOO_RENDEZVOUS",
            "PADDLE_GLOO_HTTP_ENDPOINT",
        ]
        .map(|name| found.get(name).cloned());
        let wanted = match wanted {
            None => [None, None, None],
            Some(gloo) => {
                let ip = job.addresses(&[job.ps(0)])?.concat();
                let endpoint = format!("{ip}:36018");
                [Some(gloo.to_owned()), Some("3".to_owned()), Some(endpoint)]
            }
        };
        same(&format!("gloo of job {}", job.name), gloo, wanted)?;
    }
    Ok(())
}

/// A variable that the user set is his, wherever it would have come from.
pub(super) async fn user_variables(env: &Env) -> Result<()> {
    let mine = [
        ("FIRST", "first"),
        ("PADDLE_JOB_ID", "mine"),
        ("PADDLE_TRAINER_ID", "0"),
        ("PADDLE_PORT", "1234"),
        ("PADDLE_TRAINERS_NUM", "7"),
        ("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):1234"),
    ];
    let builder = mine
        .iter()
        .fold(job("a").workers(1), |builder, (name, value)| {
            builder.env(name, value)
        });
    let job = running(env, builder).await?;
    let found = env.kubelet.environment(&job.worker(0), "paddle")?;
    for (name, value) in mine {
        same(name, found.get(name).map(String::as_str), Some(value))?;
    }
    // The rest is there as ever.
    let ip = job.addresses(job.pods())?.concat();
    let endpoints = found.get("PADDLE_TRAINER_ENDPOINTS").cloned();
    same("endpoints", endpoints, Some(format!("{ip}:36000")))
}

/// The container named `paddle` trains, wherever it stands; else the first.
pub(super) async fn which_container(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    for (name, containers, trains, other) in [
        ("named", ["sidecar", "paddle"], "paddle", "sidecar"),
        ("first", ["main", "sidecar"], "main", "sidecar"),
    ] {
        let containers = containers.map(|name| json!({"name": name, "image": "i"}));
        let builder = job(name)
            .workers(1)
            .pod_field("containers", json!(containers));
        let job = env.create(builder).await?;
        job.reaches(Phase::Running).await?;
        let trains = env.kubelet.environment(&job.worker(0), trains)?;
        ensure!(
            trains.contains_key("PADDLE_TRAINER_ENDPOINTS"),
            "{name}: {trains:?}"
        );
        let other = env.kubelet.environment(&job.worker(0), other)?;
        ensure!(other.is_empty(), "{name}: the sidecar got {other:?}");
    }
    Ok(())
}

/// Everything in the template is in the pod, where the user put it.
pub(super) async fn whole_template(env: &Env) -> Result<()> {
    let template = elaborate_template(env).await?;
    let job = running(
        env,
        job("a")
            .ps(1)
            .workers(1)
            .service()
            .template(template.clone()),
    )
    .await?;
    for pod in job.pods() {
        let found = raw_pod(env, pod).await?;
        let mut differs = Vec::new();
        compare(&template, &found, pod, &mut differs);
        ensure!(differs.is_empty(), "{differs:#?}");
        let inits = found
            .pointer("/spec/initContainers")
            .and_then(Value::as_array);
        let names = inits
            .into_iter()
            .flatten()
            .filter_map(|c| c.get("name")?.as_str());
        same(
            "init containers",
            names.collect(),
            vec!["prepare", "coord-paddle"],
        )?;
    }
    // What the operator adds besides.
    let found = raw_pod(env, &job.worker(0)).await?;
    let get = |pointer: &str| found.pointer(pointer).cloned().unwrap_or_default();
    let labels = get("/metadata/labels");
    for (label, value) in [
        (labels::RES_NAME, "a-worker-0"),
        (labels::RES_TYPE, "worker"),
        (labels::JOB_NAME, "a"),
        (labels::ROLE, "worker"),
        (labels::RANK, "0"),
        (labels::APP_INSTANCE, "a"),
        (labels::APP_MANAGED_BY, "paddle-operator"),
    ] {
        same(label, labels.get(label), Some(&json!(value)))?;
    }
    same(
        "role",
        get("/metadata/annotations").get(labels::RESOURCE),
        Some(&json!("worker")),
    )?;
    same("host name", get("/spec/hostname"), json!("a-worker-0"))?;
    let policy = get("/spec/containers/0/terminationMessagePolicy");
    same("last words", policy, json!("FallbackToLogsOnError"))
}

async fn elaborate_template(env: &Env) -> Result<Value> {
    let mut template = json!({
        "metadata": {
            "labels": {"team": "vision"},
            "annotations": {"note": "keep me"},
        },
        "spec": {
            "initContainers": [{"name": "prepare", "image": "busybox", "command": ["true"]}],
            "containers": [
                {
                    "name": "paddle",
                    "image": "paddle:test",
                    "command": ["python", "train.py"],
                    "args": ["--epochs", "3"],
                    "workingDir": "/train",
                    "env": [{"name": "MINE", "value": "$(MINE)"}],
                    "envFrom": [{"configMapRef": {"name": "mine", "optional": true}}],
                    "ports": [{"containerPort": 8080, "name": "web", "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 7},
                    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
                },
                {"name": "sidecar", "image": "log:test", "env": [{"name": "A", "value": "b"}]},
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
            }]}},
            "securityContext": {"fsGroup": 1000},
            "priority": 0,
            "terminationGracePeriodSeconds": 5,
            "restartPolicy": "Never",
        },
    });
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    let spec = spec.context("a template")?;
    if let Some(Value::Object(usual)) = crate::builders::template().get("spec") {
        for (key, value) in usual {
            spec.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    // Newer than the types that this program was built with.
    if keeps_unknown(env, "hostnameOverride", json!("other-name")).await? {
        spec.insert("hostnameOverride".into(), json!("other-name"));
    }
    Ok(template)
}

/// Whether this API keeps a field of the pod's spec that may be too new for it.
async fn keeps_unknown(env: &Env, field: &str, value: Value) -> Result<bool> {
    let mut spec = template().get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field.to_owned(), value.clone());
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec,
    });
    let api = raw_pods(env);
    let pod: DynamicObject = serde_json::from_value(pod)?;
    let made = api.create(&PostParams::default(), &pod).await?;
    api.delete("probe", &DeleteParams::default().grace_period(0))
        .await?;
    Ok(made.data.pointer(&format!("/spec/{field}")) == Some(&value))
}

fn raw_pods(env: &Env) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Pod>(&());
    Api::namespaced_with(env.client.clone(), &env.namespace, &resource)
}

async fn raw_pod(env: &Env, name: &str) -> Result<Value> {
    let pod = raw_pods(env).get(name).await?;
    ensure!(pod.name_any() == name);
    Ok(serde_json::to_value(pod)?)
}

/// Lists still come in the user's order; ours stands after it.
fn compare(wanted: &Value, found: &Value, path: &str, differs: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, wanted) in wanted {
                let found = found.get(key).unwrap_or(&Value::Null);
                compare(wanted, found, &format!("{path}.{key}"), differs);
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            for (i, wanted) in wanted.iter().enumerate() {
                let found = found.get(i).unwrap_or(&Value::Null);
                compare(wanted, found, &format!("{path}[{i}]"), differs);
            }
        }
        _ if wanted == found => {}
        _ => differs.push(format!("{path} is {found}, not {wanted}")),
    }
}

/// The wait container knows what the paddle container knows, may run where Pod
/// Security is "restricted", and is there only where there is something to wait for.
pub(super) async fn wait_container(env: &Env) -> Result<()> {
    env.kubelet.run_all();
    let cases: [(JobBuilder, BTreeMap<&str, Option<Value>>); 4] = [
        (
            job("ps").ps(1).workers(1),
            [
                ("ps-ps-0", None),
                ("ps-worker-0", Some(json!(["wait", "--servers"]))),
            ]
            .into(),
        ),
        (
            job("ps-names").ps(1).workers(1).service(),
            [
                ("ps-names-ps-0", Some(json!(["wait", "--names"]))),
                (
                    "ps-names-worker-0",
                    Some(json!(["wait", "--names", "--servers"])),
                ),
            ]
            .into(),
        ),
        (job("coll").workers(2), [("coll-worker-0", None)].into()),
        (
            job("names").workers(2).service(),
            [("names-worker-0", Some(json!(["wait", "--names"])))].into(),
        ),
    ];
    for (builder, pods) in cases {
        let job = env.create(builder).await?;
        job.reaches(Phase::Running).await?;
        for (name, args) in pods {
            let pod = raw_pod(env, name).await?;
            let found = pod.pointer("/spec/initContainers/0");
            same(name, found.and_then(|c| c.get("args")), args.as_ref())?;
            let Some(found) = found else { continue };
            check_wait_container(found)?;
            let main = public(env.kubelet.environment(name, "paddle")?);
            let wait = public(env.kubelet.environment(name, "coord-paddle")?);
            same(name, wait, main)?;
        }
    }
    Ok(())
}

fn check_wait_container(container: &Value) -> Result<()> {
    let wanted = json!({
        "name": "coord-paddle",
        "image": crate::manager::INIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "10m", "memory": "32Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    let mut differs = Vec::new();
    compare(&wanted, container, "coord-paddle", &mut differs);
    ensure!(differs.is_empty(), "{differs:#?}");
    Ok(())
}
