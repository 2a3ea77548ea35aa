//! Training on a SampleSet: the job waits for its data, workers mount it, and
//! worker *i* runs where partition *i* is cached.

use api::{
    ConditionStatus, PaddleJob, PaddleJobStatus, Phase, Role, SampleSetPhase, SampleSetReference,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pods::{Birth, paddle, paddle_container, push};
use super::roster::Roster;
use super::status::{condition, observe, set};
use super::world::Seen;
use super::{Plan, phase};
use crate::names;

/// The volume of a pod that holds the data.
const VOLUME: &str = "sample-set";

/// What a job waits for.
pub(super) struct Wait {
    reason: &'static str,
    message: String,
}

/// A sentence for each thing in the reference that can't work.
pub(super) fn faults(job: &PaddleJob) -> Vec<String> {
    let Some(wanted) = &job.spec.sample_set_ref else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    if name(wanted).is_empty() {
        faults.push("spec.sampleSetRef.name is missing; name the SampleSet".to_owned());
    }
    let own = job.metadata.namespace.as_deref().unwrap_or_default();
    let named = wanted
        .namespace
        .as_deref()
        .filter(|named| !named.is_empty());
    if let Some(other) = named.filter(|named| *named != own) {
        faults.push(format!(
            "spec.sampleSetRef.namespace is {other}; only a SampleSet of the namespace {own} can be used"
        ));
    }
    if !wanted.mount_path.starts_with('/') || wanted.mount_path.contains(':') {
        faults.push(format!(
            "spec.sampleSetRef.mountPath is {:?}; it must be an absolute path without ':'",
            wanted.mount_path
        ));
    }
    if let Some(percent) = wanted
        .min_cached_percent
        .filter(|percent| !(0..=100).contains(percent))
    {
        faults.push(format!(
            "spec.sampleSetRef.minCachedPercent is {percent}; it must be 0 to 100"
        ));
    }
    faults
}

/// A word for the affinity that is not one that it can be.
pub(super) fn misspelt(job: &PaddleJob) -> Option<String> {
    let found = job.spec.sample_set_ref.as_ref()?.affinity.as_deref()?;
    (!["", "Required", "Preferred"].contains(&found)).then(|| {
        format!("spec.sampleSetRef.affinity is {found:?}, which acts as Required; it can be Required or Preferred")
    })
}

fn name(wanted: &SampleSetReference) -> &str {
    wanted.name.as_deref().unwrap_or_default()
}

/// Whether a job works on the data of a set, which has to stay then. One that waits for
/// the set, is suspended or has ended does not: it and a set that goes would wait for
/// each other.
pub fn uses_data(job: &PaddleJob, set: &str) -> bool {
    let wanted = job.spec.sample_set_ref.as_ref();
    if wanted.is_none_or(|wanted| name(wanted) != set) {
        return false;
    }
    let Some(status) = &job.status else {
        // Its first status is on its way, as its pods may be.
        return true;
    };
    let phase = status.phase;
    let mut roles = Role::ALL.into_iter().filter_map(|role| status.role(role));
    let has_pods = roles.any(|role| !role.refs.is_empty());
    let mut told = status.conditions.iter();
    let has_data = told
        .any(|told| told.type_ == condition::DATA_READY && told.status == ConditionStatus::True);
    // Between two attempts there are no pods; who then has to wait says so.
    let goes_on = has_data && phase != Some(Phase::Suspended);
    !phase.is_some_and(Phase::is_terminal) && (has_pods || goes_on)
}

/// What the job waits for before it starts. Once it has begun it goes on,
/// whatever becomes of the set.
pub(super) fn wait(job: &PaddleJob, seen: &Seen, roster: &Roster<'_>) -> Option<Wait> {
    let wanted = job.spec.sample_set_ref.as_ref()?;
    let mut members = roster.members.iter();
    let has_begun = !seen.pods.is_empty()
        || !seen.creating.is_empty()
        || members.any(|member| member.record.is_some());
    if has_begun {
        return None;
    }
    let name = name(wanted);
    let Some(set) = &seen.sample_set else {
        let message = format!("there is no SampleSet {name} in this namespace; create it");
        return Some(Wait {
            reason: "SampleSetMissing",
            message,
        });
    };
    if set.is_going {
        let message = format!("SampleSet {name} is being deleted; create it again");
        return Some(Wait {
            reason: "SampleSetGoing",
            message,
        });
    }
    let cached = set.cached_percent.unwrap_or(0);
    let least = wanted.min_cached_percent;
    let suffices = least.is_some_and(|least| cached >= least);
    match set.phase {
        Some(SampleSetPhase::Ready) => None,
        Some(SampleSetPhase::PartialReady) if suffices => None,
        phase => {
            let phase = phase.map_or_else(|| "not bound".to_owned(), |phase| phase.to_string());
            let least = least.map_or_else(String::new, |least| {
                format!(", or PartialReady with {least}% cached (now {cached}%)")
            });
            Some(Wait {
                reason: "SampleSetNotReady",
                message: format!(
                    "SampleSet {name} is {phase}; the job starts when it is Ready{least}"
                ),
            })
        }
    }
}

/// Says what the job waits for.
pub(super) fn hold(
    plan: &mut Plan,
    job: &PaddleJob,
    roster: &Roster<'_>,
    wait: Wait,
    now: Timestamp,
) {
    let status = &mut plan.status;
    let before = status.phase;
    observe(status, job, roster);
    status.phase = Some(Phase::Pending);
    phase::resume(status, job, before, now);
    set(
        status,
        job,
        condition::DATA_READY,
        false,
        wait.reason,
        wait.message,
        now,
    );
    // Nothing else will say why no pod comes.
    plan.is_urgent = job.status.is_none();
}

/// What can be said of the data of a job on its way.
pub(super) fn describe(status: &mut PaddleJobStatus, job: &PaddleJob, seen: &Seen, now: Timestamp) {
    let (Some(wanted), Some(data)) = (&job.spec.sample_set_ref, &seen.sample_set) else {
        return;
    };
    let name = name(wanted);
    let mut told = status.conditions.iter();
    let is_told = told.any(|told| told.type_ == condition::DATA_READY && told.reason == "Mounted");
    if !is_told {
        let message = format!("workers mount SampleSet {name} at {}", wanted.mount_path);
        set(
            status,
            job,
            condition::DATA_READY,
            true,
            "Mounted",
            message,
            now,
        );
    }
    let (workers, each) = processes(job);
    let all = workers.saturating_mul(each);
    let Some(replicas) = data.replicas.filter(|_| workers > 0) else {
        return;
    };
    if i64::from(replicas) == all {
        let message =
            format!("SampleSet {name} is cached for {replicas} training processes, as the job has");
        set(
            status,
            job,
            condition::CACHE_MATCH,
            true,
            "Matches",
            message,
            now,
        );
    } else {
        let message = format!(
            "the job has {workers} workers with {each} processes each, but SampleSet {name} is cached for {replicas} processes: workers read files that other nodes hold; set spec.warmup.sampler of the SampleSet to match"
        );
        set(
            status,
            job,
            condition::CACHE_MATCH,
            false,
            "ReplicasDiffer",
            message,
            now,
        );
    }
}

/// The workers, and the training processes of each: what the template says, else
/// one per GPU, else one.
fn processes(job: &PaddleJob) -> (i64, i64) {
    let Some(worker) = &job.spec.worker else {
        return (0, 1);
    };
    let template = worker.template.as_ref().map(api::PodTemplate::to_json);
    let template = template.unwrap_or_default();
    let containers = template
        .pointer("/spec/containers")
        .and_then(Value::as_array);
    let containers = containers.map_or(&[][..], Vec::as_slice);
    let names = containers.iter().map(|container| container.get("name"));
    let at = paddle_container(names.map(|name| name?.as_str()));
    let container = containers.get(at).unwrap_or(&Value::Null);
    let number = |value: &Value| {
        let text = value
            .as_str()
            .map(str::to_owned)
            .unwrap_or_else(|| value.to_string());
        text.parse().ok().filter(|number: &i64| *number > 0)
    };
    let env = container
        .get("env")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let named =
        |set: &&Value| set.get("name").and_then(Value::as_str) == Some("PADDLE_NPROC_PER_NODE");
    let told = { env }
        .find(named)
        .and_then(|set| number(set.get("value")?));
    let gpus = || number(container.pointer("/resources/limits/nvidia.com~1gpu")?);
    (i64::from(worker.replicas), told.or_else(gpus).unwrap_or(1))
}

/// Mounts the data into a worker, and puts it where its partition is cached.
pub(super) fn mount(job: &PaddleJob, birth: &Birth<'_>, spec: &mut Map<String, Value>) {
    let Some(wanted) = &job.spec.sample_set_ref else {
        return;
    };
    let name = name(wanted);
    let Some(container) = paddle(spec) else {
        return;
    };
    let path = wanted.mount_path.as_str();
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    let taken = mounts.is_some_and(|mounts| {
        mounts
            .iter()
            .any(|mount| mount.get("mountPath").and_then(Value::as_str) == Some(path))
    });
    // A mount of the user's own at this path stays.
    if !taken {
        push(
            container,
            "volumeMounts",
            json!({"name": VOLUME, "mountPath": path}),
        );
        let claim = names::claim(name);
        push(
            spec,
            "volumes",
            json!({"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}}),
        );
    }
    if birth.rank < birth.partitions {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let expression = json!({
            "key": names::node_label(namespace, name),
            "operator": "In",
            "values": [names::runtime_pod(name, birth.rank)],
        });
        let prefers = wanted.affinity.as_deref() == Some("Preferred");
        place(spec, expression, prefers);
    }
}

/// Adds to the affinity of the template: terms are alternatives, so that the
/// expression goes into each of them.
fn place(spec: &mut Map<String, Value>, expression: Value, prefers: bool) {
    let Some(affinity) =
        object(spec, "affinity").and_then(|affinity| object(affinity, "nodeAffinity"))
    else {
        return;
    };
    if prefers {
        let term = json!({"weight": 100, "preference": {"matchExpressions": [expression]}});
        return push(
            affinity,
            "preferredDuringSchedulingIgnoredDuringExecution",
            term,
        );
    }
    let Some(required) = object(affinity, "requiredDuringSchedulingIgnoredDuringExecution") else {
        return;
    };
    match required
        .get_mut("nodeSelectorTerms")
        .and_then(Value::as_array_mut)
    {
        Some(terms) if !terms.is_empty() => {
            // A term without anything matches no node, and still should not.
            let is_empty = |term: &Map<String, Value>| {
                let len = |key: &str| term.get(key).and_then(Value::as_array).map_or(0, Vec::len);
                len("matchExpressions") + len("matchFields") == 0
            };
            let terms = terms.iter_mut().filter_map(Value::as_object_mut);
            for term in terms.filter(|term| !is_empty(term)) {
                push(term, "matchExpressions", expression.clone());
            }
        }
        _ => drop(required.insert(
            "nodeSelectorTerms".to_owned(),
            json!([{"matchExpressions": [expression]}]),
        )),
    }
}

/// The object at `key`, made if there is nothing.
fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let value = map.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
