//! What becomes of the user's pod template: everything in it stays.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::{Phase, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{running, same};
use crate::Env;
use crate::builders::{JobBuilder, job, template};

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
            [("names-worker-0", None)].into(),
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
            let main = env.kubelet.environment(name, "paddle")?;
            let wait = env.kubelet.environment(name, "coord-paddle")?;
            // What `paddle-operator wait` reads.
            for variable in [
                "POD_IP",
                "PADDLE_PSERVERS_IP_PORT_LIST",
                "PADDLE_TRAINER_ENDPOINTS",
            ] {
                same(name, wait.get(variable), main.get(variable))?;
            }
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
            "limits": {"memory": "32Mi"},
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
