//! The puppet at work: it brings every pod as far as it may go.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::container::{self, Sources};
use super::record::{Record, State, paddle_container};
use super::{Shared, Stage, Start};

/// Acts on every change until it is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut world = shared.mirror.world.subscribe();
    loop {
        let pods: Vec<Arc<Pod>> = {
            let world = world.borrow_and_update();
            world.pods.now.values().cloned().collect()
        };
        let mut next: Option<Instant> = None;
        for pod in &pods {
            match step(&shared, pod).await {
                Ok(wake) => next = next.into_iter().chain(wake).min(),
                // The pod changed or went meanwhile: the watch will tell.
                Err(error) if is_outdated(&error) => {}
                Err(error) => {
                    let surprise = format!("pod {}: {error:#}", pod.name_any());
                    shared.orders().surprises.push(surprise);
                }
            }
        }
        let timer = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = world.changed() => if changed.is_err() { return },
            () = shared.changed.notified() => {},
            () = timer => {},
        }
    }
}

fn is_outdated(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.any(|cause| match cause {
        kube::Error::Api(status) => {
            // Of another pod of the same name, the uid is told to be immutable.
            let is_another = status.code == 422 && status.message.contains("metadata.uid:");
            is_another || [404, 409].contains(&status.code)
        }
        _ => false,
    })
}

/// Does for a pod what can be done now; returns when to look again.
async fn step(shared: &Shared, pod: &Pod) -> Result<Option<Instant>> {
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    if spec.scheduler_name.as_deref() != Some(super::SCHEDULER) {
        return Ok(None);
    }
    let name = pod.name_any();
    let uid = pod.uid().unwrap_or_default();
    let mut records = shared.records.lock().await;
    let (limit, stubborn) = {
        let orders = shared.orders();
        let limit = orders.limits.get(&name).copied().unwrap_or(orders.limit);
        (limit, orders.stubborn.contains(&name))
    };
    if !records.contains_key(&uid) {
        let record = match &spec.node_name {
            Some(node) => Record::adopt(pod, node),
            // Without a node the API server takes a deleted pod away itself.
            None if limit < Stage::Scheduled || pod.metadata.deletion_timestamp.is_some() => {
                return Ok(None);
            }
            None => {
                let node = shared.node_for(&name).await?;
                bind(shared, pod, &node).await?;
                let mut record = Record::new(pod, &node);
                record.stage = Stage::Scheduled;
                if shared.orders().ipv6 {
                    record.use_ipv6();
                }
                record
            }
        };
        records.insert(uid.clone(), record);
    }
    let Some(record) = records.get_mut(&uid) else {
        return Ok(None);
    };
    if record.gone || shared.orders().dead_nodes.contains(&record.node) {
        return Ok(None);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        if !stubborn {
            confirm_deletion(shared, pod, record).await?;
        }
        return Ok(None);
    }
    if let Some(deadline) = record.deadline(pod)
        && deadline <= Instant::now()
    {
        let message = "Pod was active on the node longer than the specified deadline";
        record.kill(pod, "DeadlineExceeded", message);
        shared.report(pod, record).await?;
    }
    while record.stage < limit && !record.has_ended(pod) {
        if !advance(shared, pod, record).await? {
            break;
        }
    }
    Ok(record.deadline(pod))
}

async fn bind(shared: &Shared, pod: &Pod, node: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name_any(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let name = pod.name_any();
    let _: Value = shared
        .pods()
        .create_subresource("binding", &name, &PostParams::default(), &binding)
        .await
        .with_context(|| format!("bind pod {name} to {node}"))?;
    Ok(())
}

/// Ends a pod that was deleted, and confirms that it is gone.
async fn confirm_deletion(shared: &Shared, pod: &Pod, record: &mut Record) -> Result<()> {
    if !record.has_ended(pod) {
        record.stop(pod);
        shared.report(pod, record).await?;
    }
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    shared.pods().delete(&record.name, &params).await?;
    record.gone = true;
    Ok(())
}

/// Takes a pod one stage further; false when it can't go on now.
async fn advance(shared: &Shared, pod: &Pod, record: &mut Record) -> Result<bool> {
    if record.blocked.as_ref() == Some(pod.annotations()) {
        return Ok(false);
    }
    record.blocked = None;
    let spec = pod.spec.clone().unwrap_or_default();
    let next = match record.stage {
        Stage::Created => Stage::Scheduled,
        Stage::Scheduled => {
            let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())?;
            record.started_at = Some((at, Instant::now()));
            Stage::Addressed
        }
        Stage::Addressed => {
            let inits = spec.init_containers.unwrap_or_default();
            let ended = || State::Terminated(super::Ending::new(0, "Completed", ""));
            for init in &inits {
                let sidecar = init.restart_policy.as_deref() == Some("Always");
                if !start(shared, pod, record, init).await? {
                    break;
                }
                if !sidecar {
                    set(record, &init.name, ended());
                }
            }
            Stage::Initialized
        }
        Stage::Initialized => {
            for container in &spec.containers {
                start(shared, pod, record, container).await?;
            }
            Stage::Started
        }
        Stage::Started | Stage::Ready => Stage::Ready,
    };
    if record.blocked.is_none() {
        record.stage = next;
    }
    shared.report(pod, record).await?;
    Ok(record.blocked.is_none())
}

/// Starts a container if what it requires is there, else says what is missing.
async fn start(
    shared: &Shared,
    pod: &Pod,
    record: &mut Record,
    container: &Container,
) -> Result<bool> {
    let all = record.inits.iter().chain(&record.containers);
    let mut state = all.filter(|state| state.name == container.name);
    if state.any(|state| !matches!(state.state, State::Waiting(..))) {
        return Ok(true);
    }
    let sources = Sources::read(&shared.client, &shared.namespace, container).await?;
    match container::environment(pod, &record.ip.to_string(), container, &sources) {
        Ok(environment) => {
            set(record, &container.name, State::Running);
            shared.orders().starts.push(Start {
                pod: pod.name_any(),
                uid: pod.uid().unwrap_or_default(),
                container: container.name.clone(),
                environment,
            });
            Ok(true)
        }
        Err(missing) => {
            let reason = "CreateContainerConfigError".to_owned();
            set(record, &container.name, State::Waiting(reason, missing));
            record.blocked = Some(BTreeMap::clone(pod.annotations()));
            Ok(false)
        }
    }
}

/// Starts the paddle container again, if it ended and `restartPolicy` says so.
pub(super) async fn restart_containers(
    shared: &Shared,
    pod: &Pod,
    record: &mut Record,
) -> Result<()> {
    let spec = pod.spec.clone().unwrap_or_default();
    let name = paddle_container(pod);
    let again = match spec.restart_policy.as_deref() {
        Some("Never") => false,
        Some("OnFailure") => record
            .containers
            .iter()
            .any(|container| container.name == name && container.failed()),
        _ => true,
    };
    let container = spec.containers.iter().find(|c| c.name == name);
    if let (true, Some(container)) = (again, container) {
        let waiting = State::Waiting("CrashLoopBackOff".to_owned(), String::new());
        set(record, &name, waiting);
        for state in &mut record.containers {
            state.restarts += i32::from(state.name == name);
        }
        start(shared, pod, record, container).await?;
    }
    Ok(())
}

fn set(record: &mut Record, container: &str, state: State) {
    let all = record.inits.iter_mut().chain(&mut record.containers);
    for known in all.filter(|known| known.name == container) {
        known.state = state.clone();
    }
}
