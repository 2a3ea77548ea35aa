//! Heterogeneous parameter server training: workers read data and hold the sparse part of
//! the model, heter trainers compute the rest on other hardware. Paddle calls the two its
//! stages.

use std::collections::BTreeMap;

use api::{PaddleJob, PaddleJobSpec, Role};
use serde_json::{Value, json};

use super::environment::{HETERS_KEY, TRAINERS_KEY};
use super::mode::replicas;

/// Workers, and what comes behind them.
const STAGES: &str = "2";
/// What Paddle calls that on which a heter trainer computes; resources are called so too.
const DEVICES: [&str; 2] = ["gpu", "xpu"];

/// Whether the job has workers on other hardware.
pub(super) fn is_heter(spec: &PaddleJobSpec) -> bool {
    spec.heter.is_some()
}

/// What all pods of such a job learn.
pub(super) fn lists(job: &PaddleJob, endpoints: String, data: &mut BTreeMap<String, String>) {
    let count = |role| replicas(&job.spec, role);
    let trainers = format!("[{}, {}]", count(Role::Worker), count(Role::Heter));
    data.extend(
        [
            (HETERS_KEY, endpoints),
            ("STAGE_NUM", STAGES.to_owned()),
            ("PADDLE_STAGE_TRAINERS_NUM", trainers),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
}

/// What a pod of one role learns: who comes before it and who behind it.
pub(super) fn variables(job: &PaddleJob, role: Role) -> Vec<Value> {
    if !is_heter(&job.spec) {
        return Vec::new();
    }
    const BEFORE: &str = "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST";
    const BEHIND: &str = "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST";
    let literal = |name: &str, value: &str| json!({"name": name, "value": value});
    let listed = |name: &str, key: &str| {
        let map = job.metadata.name.as_deref().unwrap_or_default();
        json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": map, "key": key}}})
    };
    match role {
        Role::Ps => Vec::new(),
        Role::Worker => vec![
            literal("STAGE_ID", "1"),
            literal(BEFORE, ""),
            listed(BEHIND, HETERS_KEY),
            literal("HETER_DEVICE_TYPE", "cpu"),
        ],
        Role::Heter => vec![
            literal("STAGE_ID", STAGES),
            listed(BEFORE, TRAINERS_KEY),
            literal(BEHIND, ""),
            literal("HETER_DEVICE_TYPE", device(job)),
        ],
    }
}

/// On what heter trainers compute, by what their containers ask for.
fn device(job: &PaddleJob) -> &'static str {
    let template = job
        .spec
        .heter
        .as_ref()
        .and_then(|role| role.template.as_ref());
    let template = template.map(api::PodTemplate::to_json).unwrap_or_default();
    let containers = template
        .pointer("/spec/containers")
        .and_then(Value::as_array);
    let limits = { containers.into_iter().flatten() }
        .filter_map(|container| container.pointer("/resources/limits")?.as_object());
    let asked: Vec<&str> = limits
        .flat_map(|limits| limits.keys())
        .filter_map(|resource| resource.rsplit('/').next())
        .collect();
    let is_asked = |device: &&str| asked.iter().any(|asked| asked.contains(*device));
    DEVICES.into_iter().find(is_asked).unwrap_or("cpu")
}

/// A sentence for each thing that can't work.
pub(super) fn faults(spec: &PaddleJobSpec) -> Vec<String> {
    let missing = [Role::Ps, Role::Worker].into_iter();
    missing
        .filter(|role| is_heter(spec) && spec.role(*role).is_none())
        .map(|role| {
            format!(
                "spec.heter is set, and spec.{role} is not; heter trainers need parameter servers and workers beside them"
            )
        })
        .collect()
}
