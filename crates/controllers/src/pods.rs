//! The pods of cache runtime servers, as plans see them.

use api::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, Event, Pod, PodStatus};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use plan::names;
use plan::sampleset::{self, RuntimePod};

use crate::error::code;
use crate::{Error, nodes};

/// What containers wait for as a matter of course.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The pods of a set among these.
pub(crate) fn of_set<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    namespace: &str,
    set: &str,
) -> Vec<RuntimePod> {
    let (label, prefix) = (names::label_value(set), format!("{}-", names::runtime(set)));
    let mut found: Vec<RuntimePod> = pods
        .filter(|pod| pod.metadata.namespace.as_deref() == Some(namespace))
        .filter(|pod| pod.labels().get(labels::SET_NAME) == Some(&label))
        .filter_map(|pod| view(pod, &prefix))
        .collect();
    found.sort_by_key(|pod| pod.partition);
    found
}

fn view(pod: &Pod, prefix: &str) -> Option<RuntimePod> {
    let name = pod.metadata.name.clone()?;
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let condition = |type_: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|condition| condition.type_ == type_)
    };
    Some(RuntimePod {
        partition: name.strip_prefix(prefix)?.parse().ok()?,
        uid: pod.metadata.uid.clone()?,
        node: spec.and_then(|spec| spec.node_name.clone()),
        ip: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
        is_ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        trouble: condition("PodScheduled")
            .filter(|scheduled| scheduled.status == "False")
            .and_then(|scheduled| scheduled.message.clone())
            .or_else(|| status.and_then(trouble)),
        deleted_at: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        is_running: status.is_some_and(|status| {
            let mut containers = status.container_statuses.iter().flatten();
            containers.any(|container| {
                let state = container.state.as_ref();
                state.is_some_and(|state| state.running.is_some())
            })
        }),
        is_node_lost: false,
        name,
    })
}

/// Finds out which of the pods have lost their nodes.
pub(crate) async fn mark_lost(
    client: &Client,
    pods: &mut [RuntimePod],
    now: Timestamp,
) -> Result<(), Error> {
    let suspects = pods.iter().filter(|pod| sampleset::may_be_lost(pod, now));
    let suspects = suspects.filter_map(|pod| pod.node.as_deref()).collect();
    let lost = nodes::lost(client, suspects).await?;
    for pod in pods {
        let node = pod.node.as_ref();
        pod.is_node_lost = node.is_some_and(|node| lost.contains(node));
    }
    Ok(())
}

/// What the kubelet last complained of: that a volume can't be mounted is told by
/// events alone.
pub(crate) async fn complaint(
    client: &Client,
    namespace: &str,
    pod: &RuntimePod,
) -> Result<Option<String>, Error> {
    let mounts =
        |reason: &str| reason.starts_with("FailedMount") || reason.starts_with("FailedAttach");
    last_warning(client, namespace, &pod.uid, mounts).await
}

/// Why the StatefulSet of this uid last could not make a pod: a quota, or the policy of
/// the namespace.
pub(crate) async fn refusal(
    client: &Client,
    namespace: &str,
    stateful_set: &str,
) -> Result<Option<String>, Error> {
    let creates = |reason: &str| reason == "FailedCreate";
    last_warning(client, namespace, stateful_set, creates).await
}

/// The last warning about an object that has such a reason.
async fn last_warning(
    client: &Client,
    namespace: &str,
    uid: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Option<String>, Error> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let about = format!("involvedObject.uid={uid},type=Warning");
    let events = match events.list(&ListParams::default().fields(&about)).await {
        // Not everybody may read events, and nothing depends on it.
        Err(error) if code(&error) == Some(403) => return Ok(None),
        events => events.map_err(Error::Observe)?,
    };
    let events = events.items.iter();
    let meant = events.filter(|event| event.reason.as_deref().is_some_and(&is_meant));
    let last = meant.max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    Ok(last.and_then(|event| event.message.clone()))
}

/// What keeps a container from running.
fn trouble(status: &PodStatus) -> Option<String> {
    let containers = status.container_statuses.iter().flatten();
    let mut troubles = containers.filter_map(|container| {
        let now = container.state.as_ref().and_then(why);
        let last = container.last_state.as_ref().and_then(why);
        (!container.ready).then(|| now.or(last)).flatten()
    });
    troubles.next().or_else(|| status.message.clone())
}

fn why(state: &ContainerState) -> Option<String> {
    let waiting = state.waiting.as_ref().and_then(|waiting| {
        let reason = waiting.reason.as_deref()?;
        let message = waiting.message.as_deref().unwrap_or_default();
        (!USUAL.contains(&reason)).then(|| format!("{reason}: {message}"))
    });
    waiting.or_else(|| {
        let ended = state.terminated.as_ref()?;
        let message = ended.message.as_deref().unwrap_or_default();
        Some(format!(
            "it ended with exit code {}: {message}",
            ended.exit_code
        ))
    })
}
