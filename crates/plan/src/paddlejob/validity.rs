//! What is wrong in a spec.
//!
//! The CRD refuses most of this already, where the API server is new enough
//! and the object was written after it; what is stored all the same ends here.

use api::{MAX_REPLICAS, PaddleJob, Role};
use serde_json::Value;

use super::mode::{Intranet, replicas};
use super::{Settings, data, elastic, gang, heter, pods};
use crate::names;

/// A sentence for each thing in the spec that can't work; empty when it can.
pub fn faults(job: &PaddleJob) -> Vec<String> {
    let spec = &job.spec;
    let mut faults = Vec::new();
    if Role::ALL.iter().all(|role| spec.role(*role).is_none()) {
        faults.push("the job has no role: set spec.worker, or spec.ps and spec.worker".to_owned());
    }
    for role in Role::ALL {
        let Some(wanted) = spec.role(role) else {
            continue;
        };
        let path = format!("spec.{role}");
        if !(1..=MAX_REPLICAS).contains(&wanted.replicas) {
            faults.push(format!(
                "{path}.replicas is {}; it must be 1 to {MAX_REPLICAS}",
                wanted.replicas
            ));
        }
        let template = wanted
            .template
            .as_ref()
            .map(api::PodTemplate::to_json)
            .unwrap_or_default();
        faults.extend(template_fault(&path, &template));
    }
    if let Some(gloo) = spec.with_gloo.filter(|gloo| !(0..=2).contains(gloo)) {
        faults.push(format!(
            "spec.withGloo is {gloo}; it must be 0 (off), 1 (workers) or 2 (workers and servers)"
        ));
    }
    if let Some(limit) = spec.backoff_limit.filter(|limit| *limit < 0) {
        faults.push(format!(
            "spec.backoffLimit is {limit}; it must be 0 or more"
        ));
    }
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| *seconds < 1) {
        faults.push(format!(
            "spec.activeDeadlineSeconds is {seconds}; it must be 1 or more"
        ));
    }
    if let Some(seconds) = spec
        .ttl_seconds_after_finished
        .filter(|seconds| *seconds < 0)
    {
        faults.push(format!(
            "spec.ttlSecondsAfterFinished is {seconds}; it must be 0 or more"
        ));
    }
    faults.extend(name_fault(job));
    faults.extend(data::faults(job));
    faults.extend(elastic::faults(spec));
    faults.extend(heter::faults(spec));
    faults
}

fn template_fault(path: &str, template: &Value) -> Option<String> {
    let containers = template.pointer("/spec/containers").unwrap_or(&Value::Null);
    match containers.as_array().map(Vec::as_slice) {
        Some([]) | None => Some(format!(
            "{path}.template.spec.containers {}; at least one container is needed",
            if containers.is_null() {
                "is missing".to_owned()
            } else {
                format!("is {}", cut(containers))
            },
        )),
        Some(all) => all.iter().find(|c| !c.is_object()).map(|bad| {
            format!(
                "{path}.template.spec.containers holds {}; each must be a container",
                cut(bad)
            )
        }),
    }
}

/// Pods carry their name in a label and as host name, which end at 63 characters.
fn name_fault(job: &PaddleJob) -> Option<String> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let longest = Role::ALL
        .into_iter()
        .filter(|role| job.spec.role(*role).is_some())
        .map(|role| {
            names::pod(
                name,
                role,
                (replicas(&job.spec, role).min(MAX_REPLICAS) - 1).max(0),
            )
        })
        .max_by_key(String::len)?;
    if longest.len() > names::MAX_LABEL {
        return Some(format!(
            "metadata.name has {} characters; its pods would be called {longest}, {} more than the {} that Kubernetes allows",
            name.len(),
            longest.len() - names::MAX_LABEL,
            names::MAX_LABEL,
        ));
    }
    (Intranet::of(&job.spec) == Intranet::Service && !names::is_service_name(&longest)).then(|| {
        format!(
            "metadata.name is {name}, and Services can't have such a name; with intranet: Service it may hold a-z, 0-9 and '-' and must begin with a letter"
        )
    })
}

/// What this manager can't do, and what it would take.
pub fn unsupported(job: &PaddleJob, settings: &Settings) -> Option<String> {
    let needs_etcd = elastic::is_elastic(&job.spec) && settings.etcd.is_empty();
    needs_etcd.then(|| {
        "spec.elastic is set, and the manager knows no etcd through which workers find each other; start it with --etcd-server=HOST:2379, or remove spec.elastic".to_owned()
    })
}

/// What is in the spec and has no effect.
pub fn ignored(job: &PaddleJob, settings: &Settings) -> Option<String> {
    let is_ignored = job.spec.scheduling_policy.is_some() && !gang::is_for_volcano(job, settings);
    is_ignored.then(|| match settings.volcano {
        true => "spec.schedulingPolicy has no effect: a template names another scheduler than volcano".to_owned(),
        false => "spec.schedulingPolicy has no effect: it is for Volcano, and the manager runs without --scheduling=volcano".to_owned(),
    })
}

/// Words in the spec that are not the ones they should be, and what they act as.
pub fn misspelt(job: &PaddleJob) -> Vec<String> {
    let policy =
        job.spec.clean_pod_policy.as_deref().filter(|policy| {
            !["", "Always", "Never", "OnFailure", "OnCompletion"].contains(policy)
        });
    let intranet = job.spec.intranet.as_deref();
    let intranet = intranet.filter(|intranet| !["", "PodIP", "Service", "Host"].contains(intranet));
    let mut told = Vec::new();
    told.extend(policy.map(|found| {
        format!("spec.cleanPodPolicy is {found:?}, which acts as Never; it can be Always, Never, OnFailure or OnCompletion")
    }));
    told.extend(intranet.map(|found| {
        format!("spec.intranet is {found:?}, which acts as PodIP; it can be PodIP, Service or Host")
    }));
    told.extend(data::misspelt(job));
    told.extend(Role::ALL.into_iter().filter_map(|role| {
        let template = job.spec.role(role)?.template.as_ref()?.to_json();
        let reserved = pods::reserved_labels(&template)?;
        Some(format!("spec.{role}.template sets the label {reserved}, which belongs to the operator and is replaced"))
    }));
    told
}

/// A value as the user wrote it, short enough for a message.
fn cut(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > 80 {
        text.truncate(text.floor_char_boundary(80));
        text.push('…');
    }
    text
}
