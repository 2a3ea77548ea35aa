//! Gang scheduling by Volcano: a PodGroup says how many pods of a job must find a place at
//! once, and no pod is made before Volcano has let it in.

use std::collections::{BTreeMap, BTreeSet};

use api::{PaddleJob, PodGroupSpec, PodGroupStatus, Role, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quantity::Quantity;
use serde_json::{Map, Value, json};

use super::elastic;
use super::mode::{replicas, wanted};
use super::pods::{common_labels, owner};
use super::roster::Roster;
use super::world::Seen;
use super::{Plan, Settings};

/// The scheduler, as pods name it.
pub const SCHEDULER: &str = "volcano";

/// What is seen of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodGroupView {
    /// How many pods must find a place at once.
    pub min_member: i32,
    /// What they take together.
    pub min_resources: BTreeMap<String, String>,
    /// Its queue.
    pub queue: Option<String>,
    /// Its priority class.
    pub priority_class: Option<String>,
    /// Which of the fields we have set that may be left out: its annotation
    /// [`APPLIED`](api::labels::APPLIED).
    pub applied: String,
    /// How far Volcano is with it.
    pub phase: Option<String>,
    /// Why it waits.
    pub message: Option<String>,
}

impl PodGroupView {
    /// What is to be known of a PodGroup.
    pub fn of(
        meta: &ObjectMeta,
        spec: &PodGroupSpec,
        status: Option<&PodGroupStatus>,
    ) -> PodGroupView {
        let annotations = meta.annotations.as_ref();
        let applied = annotations.and_then(|all| all.get(labels::APPLIED));
        let conditions = status.map(|status| status.conditions.as_slice());
        let mut conditions = conditions.unwrap_or_default().iter().rev();
        let waits = conditions.find(|c| c.type_ == "Unschedulable" && c.status == "True");
        let amounts = spec.min_resources.iter().flatten();
        PodGroupView {
            min_member: spec.min_member.unwrap_or(0),
            min_resources: amounts
                .map(|(resource, amount)| (resource.clone(), amount.0.clone()))
                .collect(),
            queue: spec.queue.clone(),
            priority_class: spec.priority_class_name.clone(),
            applied: applied.cloned().unwrap_or_default(),
            phase: status.and_then(|status| status.phase.clone()),
            message: waits.and_then(|waits| waits.message.clone()),
        }
    }

    /// Whether Volcano has let it in: there is room, and its pods may be made.
    fn is_admitted(&self) -> bool {
        !matches!(self.phase.as_deref(), None | Some("" | "Pending"))
    }
}

/// Whether the pods of this attempt are a gang. Those that were made before Volcano was
/// turned on are none, and one that joined them later would wait for all of them.
pub(super) fn is_gang(job: &PaddleJob, roster: &Roster<'_>, settings: &Settings) -> bool {
    is_for_volcano(job, settings) && roster.present().all(|pod| pod.is_in_gang)
}

/// Whether Volcano schedules the job. One whose template names another scheduler is left
/// to that one.
pub(super) fn is_for_volcano(job: &PaddleJob, settings: &Settings) -> bool {
    settings.volcano && schedulers(job).iter().all(|name| name == SCHEDULER)
}

/// The schedulers that the templates name.
pub(super) fn schedulers(job: &PaddleJob) -> BTreeSet<String> {
    let named = |role: Role| {
        let template = job.spec.role(role)?.template.as_ref()?.to_json();
        let name = template.pointer("/spec/schedulerName")?.as_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    Role::ALL.into_iter().filter_map(named).collect()
}

/// Keeps the PodGroup of a gang in step with the job; says what the job waits for, if no pod may be
/// made yet.
pub(super) fn follow(plan: &mut Plan, job: &PaddleJob, seen: &Seen) -> Option<String> {
    let wanted = wanted_spec(job);
    let group = seen.pod_group.as_deref();
    if group.is_none_or(|group| differs(group, &wanted)) {
        plan.pod_group = Some(build(job, group, &wanted));
    }
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let all = wanted.min_member;
    if group.is_some_and(PodGroupView::is_admitted) {
        return None;
    }
    let mut needs: Vec<String> = { wanted.min_resources.iter() }
        .map(|(resource, amount)| format!("{resource} {amount}"))
        .collect();
    needs.extend(wanted.queue.map(|queue| format!("queue {queue}")));
    let needs = Some(needs.join(", ")).filter(|needs| !needs.is_empty());
    // Volcano says why in its own words only when there are pods.
    let said = group.and_then(|group| group.message.clone());
    let told: String = [
        needs.map(|needs| format!(" ({needs})")),
        said.map(|said| format!(": {said}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(format!(
        "PodGroup {name} waits until Volcano finds room for {all} pods at once{told}"
    ))
}

/// A job that has ended, or is suspended, holds no place in a queue.
pub(super) fn dissolve(plan: &mut Plan, seen: &Seen) {
    plan.pod_group_deleted = seen.pod_group.is_some();
}

/// What a pod of the gang carries.
pub(super) fn annotations(job: &PaddleJob, role: Role) -> Map<String, Value> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let policy = job.spec.scheduling_policy.as_ref();
    let queue = policy.and_then(|policy| policy.queue.as_deref());
    Map::from_iter([
        (labels::POD_GROUP.to_owned(), name.into()),
        (labels::VOLCANO_TASK.to_owned(), role.as_str().into()),
        (labels::VOLCANO_JOB.to_owned(), name.into()),
        (labels::VOLCANO_VERSION.to_owned(), "0".into()),
        (
            labels::VOLCANO_QUEUE.to_owned(),
            queue.unwrap_or_default().into(),
        ),
    ])
}

fn wanted_spec(job: &PaddleJob) -> PodGroupView {
    let policy = job.spec.scheduling_policy.clone().unwrap_or_default();
    let total: i32 = Role::ALL
        .iter()
        .map(|role| replicas(&job.spec, *role))
        .sum();
    // An elastic job trains with fewer workers too.
    let least = elastic::range(&job.spec).map_or(total, |range| range.least);
    let min_member = policy.min_available.unwrap_or(least);
    let given = policy.min_resources.map(|amounts| {
        let amounts = amounts.into_iter();
        amounts
            .map(|(resource, amount)| (resource, amount.0))
            .collect()
    });
    let mut wanted = PodGroupView {
        min_member,
        min_resources: given.unwrap_or_else(|| needs(job, min_member)),
        queue: policy.queue.filter(|queue| !queue.is_empty()),
        priority_class: policy.priority_class.filter(|class| !class.is_empty()),
        ..PodGroupView::default()
    };
    let set: Vec<&str> = { optional(&wanted).into_iter() }
        .filter_map(|(field, value)| value.map(|_| field))
        .collect();
    wanted.applied = set.join(",");
    wanted
}

/// The fields that may be left out, and then are Volcano's or somebody else's to set.
fn optional(group: &PodGroupView) -> [(&'static str, Option<Value>); 3] {
    let amounts = Some(&group.min_resources).filter(|amounts| !amounts.is_empty());
    [
        ("minResources", amounts.map(|amounts| json!(amounts))),
        ("queue", group.queue.as_ref().map(|queue| json!(queue))),
        (
            "priorityClassName",
            group.priority_class.as_ref().map(|class| json!(class)),
        ),
    ]
}

/// Whether a PodGroup is not what it should be. What we do not set, Volcano may, and it may
/// write amounts in another form.
fn differs(seen: &PodGroupView, wanted: &PodGroupView) -> bool {
    let other = |seen: &Option<String>, wanted: &Option<String>| {
        wanted.is_some() && seen.as_ref() != wanted.as_ref()
    };
    let amounts = |group: &PodGroupView| -> Vec<(String, Option<i128>)> {
        let amounts = group.min_resources.iter();
        let read = |amount: &str| Some(Quantity::parse(amount)?.nano());
        amounts
            .map(|(resource, amount)| (resource.clone(), read(amount)))
            .collect()
    };
    seen.min_member != wanted.min_member
        || seen.applied != wanted.applied
        || !wanted.min_resources.is_empty() && amounts(seen) != amounts(wanted)
        || other(&seen.queue, &wanted.queue)
        || other(&seen.priority_class, &wanted.priority_class)
}

/// What so many pods request together, those first that are made first.
fn needs(job: &PaddleJob, pods: i32) -> BTreeMap<String, String> {
    let count = usize::try_from(pods).unwrap_or(0);
    let each = Role::ALL.map(|role| {
        let template = job.spec.role(role).and_then(|role| role.template.as_ref());
        requests(&template.map(api::PodTemplate::to_json).unwrap_or_default())
    });
    let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
    for (role, _) in wanted(&job.spec).take(count) {
        let at = Role::ALL.iter().position(|other| *other == role);
        let pod = at.and_then(|at| each.get(at));
        for (resource, amount) in pod.into_iter().flatten() {
            add(&mut sum, resource, *amount);
        }
    }
    let sum = sum.into_iter();
    sum.map(|(resource, amount)| (resource, amount.to_string()))
        .collect()
}

fn add(sum: &mut BTreeMap<String, Quantity>, resource: &str, amount: Quantity) {
    let entry = sum.entry(resource.to_owned());
    entry
        .and_modify(|sum| *sum = sum.plus(amount))
        .or_insert(amount);
}

/// What a pod of this template requests: its containers together, or an init container if
/// that needs more. A limit without a request is one.
fn requests(template: &Value) -> BTreeMap<String, Quantity> {
    let containers = |of: &str| -> Vec<BTreeMap<String, Quantity>> {
        let list = template.pointer(of).and_then(Value::as_array);
        list.into_iter().flatten().map(request).collect()
    };
    let mut sum = BTreeMap::new();
    for (resource, amount) in containers("/spec/containers").into_iter().flatten() {
        add(&mut sum, &resource, amount);
    }
    for (resource, amount) in containers("/spec/initContainers").into_iter().flatten() {
        let most = sum.entry(resource).or_insert(amount);
        if amount.nano() > most.nano() {
            *most = amount;
        }
    }
    sum
}

fn request(container: &Value) -> BTreeMap<String, Quantity> {
    let of = |which: &str| {
        let amounts = container.pointer(which).and_then(Value::as_object);
        let amounts = amounts.into_iter().flatten();
        amounts.filter_map(|(resource, amount)| Some((resource.clone(), Quantity::read(amount)?)))
    };
    // The later of two entries wins.
    of("/resources/limits")
        .chain(of("/resources/requests"))
        .collect()
}

/// The PodGroup as it should be. What we once set and do no longer is null: it goes.
fn build(job: &PaddleJob, seen: Option<&PodGroupView>, wanted: &PodGroupView) -> Value {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let mut set = common_labels(name);
    set.insert(labels::RES_NAME.to_owned(), name.into());
    let was_set =
        |field: &str| seen.is_some_and(|seen| seen.applied.split(',').any(|it| it == field));
    let mut spec = Map::from_iter([("minMember".to_owned(), json!(wanted.min_member))]);
    for (field, value) in optional(wanted) {
        if value.is_some() || was_set(field) {
            spec.insert(field.to_owned(), json!(value));
        }
    }
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": set,
            "annotations": {labels::APPLIED: wanted.applied},
            "ownerReferences": [owner(job)],
        },
        "spec": spec,
    })
}

/// What in the policy can't work, where it has an effect.
pub(super) fn fault(job: &PaddleJob, settings: &Settings) -> Option<String> {
    let policy = job.spec.scheduling_policy.as_ref();
    let least = policy.and_then(|policy| policy.min_available)?;
    let roles = Role::ALL.iter();
    let total: i64 = roles
        .map(|role| i64::from(replicas(&job.spec, *role)))
        .sum();
    let is_wrong = least < 1 || i64::from(least) > total;
    (is_wrong && is_for_volcano(job, settings)).then(|| {
        format!(
            "spec.schedulingPolicy.minAvailable is {least}; it must be 1 to {total}, the number of pods"
        )
    })
}
