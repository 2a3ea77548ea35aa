//! Jobs that train on a SampleSet.

use api::{Phase, Role, SampleSetPhase, SampleSetReference};
use plan::paddlejob::{SampleSetView, Seen};
use serde_json::{Value, json};

use crate::support::*;

const LABEL: &str = "paddlepaddle.org/juicefs-default.imagenet";

/// A job of one server and three workers on the SampleSet `imagenet`.
pub fn trains(edit: impl FnOnce(&mut SampleSetReference)) -> Job {
    let mut wanted = SampleSetReference {
        name: Some("imagenet".to_owned()),
        mount_path: "/mnt/imagenet".to_owned(),
        ..SampleSetReference::default()
    };
    edit(&mut wanted);
    job("a")
        .ps(1)
        .workers(3)
        .spec(|spec| spec.sample_set_ref = Some(wanted))
}

/// The set in this phase, with so much cached.
pub fn data(phase: SampleSetPhase, percent: i32) -> Seen {
    Seen {
        sample_set: Some(SampleSetView {
            phase: Some(phase),
            cached_percent: Some(percent),
            partitions: 2,
            replicas: Some(3),
            is_going: false,
        }),
        ..nothing()
    }
}

fn spec(pods: &[Value], name: &str) -> Value {
    let mut pods = pods.iter();
    let pod = pods.find(|pod| pod["metadata"]["name"] == name).unwrap();
    pod["spec"].clone()
}

#[test]
fn a_job_waits_for_its_data_and_says_for_what() {
    let waits = |seen: &Seen| {
        let plan = trains(|_| ()).plan(seen);
        assert!(plan.is_idle());
        assert_eq!(plan.phase(), Phase::Pending);
        assert_eq!(plan.status.start_time, None);
        assert!(plan.is_urgent);
        plan.condition("DataReady")
    };
    assert_eq!(
        waits(&nothing()),
        "False SampleSetMissing: there is no SampleSet imagenet in this namespace; create it"
    );
    assert_eq!(
        waits(&data(SampleSetPhase::Syncing, 0)),
        "False SampleSetNotReady: SampleSet imagenet is Syncing; the job starts when it is Ready"
    );
    waits(&data(SampleSetPhase::PartialReady, 99));
    let mut going = data(SampleSetPhase::Ready, 100);
    going.sample_set.as_mut().unwrap().is_going = true;
    assert!(waits(&going).contains("being deleted"));
}

#[test]
fn a_part_of_the_data_may_do() {
    let half = || trains(|wanted| wanted.min_cached_percent = Some(50));
    let plan = half().plan(&data(SampleSetPhase::PartialReady, 49));
    assert!(plan.condition("DataReady").contains("50% cached (now 49%)"));
    let plan = half().plan(&data(SampleSetPhase::PartialReady, 50));
    assert_eq!(plan.pods_created.len(), 4);
    let plan = half().plan(&data(SampleSetPhase::Syncing, 50));
    assert!(plan.is_idle());
}

#[test]
fn workers_mount_the_data_where_their_partition_is() {
    let plan = trains(|_| ()).plan(&data(SampleSetPhase::Ready, 100));
    let worker = spec(&plan.pods_created, "a-worker-1");
    assert_eq!(
        worker["volumes"],
        json!([{"name": "sample-set", "persistentVolumeClaim": {"claimName": "imagenet"}}])
    );
    assert_eq!(
        worker["containers"][0]["volumeMounts"],
        json!([{"name": "sample-set", "mountPath": "/mnt/imagenet"}])
    );
    let terms = worker.pointer(
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    assert_eq!(
        terms.unwrap(),
        &json!([{"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["imagenet-runtime-1"]}]}])
    );
    // There is no third partition: its worker is free, and mounts all the same.
    let surplus = spec(&plan.pods_created, "a-worker-2");
    assert_eq!(surplus.get("affinity"), None);
    assert_eq!(surplus["volumes"][0]["name"], "sample-set");
    let server = spec(&plan.pods_created, "a-ps-0");
    assert_eq!(
        (server.get("affinity"), server.get("volumes")),
        (None, None)
    );
    assert!(plan.condition("DataReady").starts_with("True Mounted"));
}

#[test]
fn the_affinity_of_the_user_holds_too() {
    let required = json!([
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {},
    ]);
    let template = json!({"spec": {
        "containers": [{"name": "paddle", "image": "paddle:3"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": required,
        }}},
    }});
    let job = trains(|_| ()).role(Role::Worker, 1, template);
    let plan = job.plan(&data(SampleSetPhase::Ready, 100));
    let worker = spec(&plan.pods_created, "a-worker-0");
    let terms = worker
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
        .unwrap();
    assert_eq!(terms[0]["matchExpressions"][0]["key"], "zone");
    assert_eq!(terms[0]["matchExpressions"][1]["key"], LABEL);
    assert_eq!(terms[1]["matchExpressions"][0]["key"], LABEL);
    assert_eq!(terms[2], json!({}));
}

#[test]
fn a_preference_is_no_requirement() {
    let job = trains(|wanted| wanted.affinity = Some("Preferred".to_owned()));
    let plan = job.plan(&data(SampleSetPhase::Ready, 100));
    let worker = spec(&plan.pods_created, "a-worker-0");
    let affinity = &worker["affinity"]["nodeAffinity"];
    assert_eq!(
        affinity.get("requiredDuringSchedulingIgnoredDuringExecution"),
        None
    );
    let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(preferred["preference"]["matchExpressions"][0]["key"], LABEL);
}

#[test]
fn what_has_begun_goes_on_whatever_becomes_of_the_set() {
    let job = trains(|_| ()).running();
    let mut world = seen(&job, Pod::ready);
    world.sample_set = data(SampleSetPhase::Syncing, 0).sample_set;
    assert_eq!(job.plan(&world).phase(), Phase::Running);
    world.sample_set = None;
    assert_eq!(job.plan(&world).phase(), Phase::Running);
}

#[test]
fn a_cache_for_another_number_of_processes_is_told() {
    let plan = trains(|_| ()).plan(&data(SampleSetPhase::Ready, 100));
    assert!(plan.condition("CacheMatch").starts_with("True Matches"));
    let template = |container: Value| json!({"spec": {"containers": [container]}});
    let by_variable = template(json!({
        "name": "paddle",
        "env": [{"name": "PADDLE_NPROC_PER_NODE", "value": "8"}],
    }));
    let by_gpu = template(json!({
        "name": "paddle",
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }));
    for template in [by_variable, by_gpu] {
        let job = trains(|_| ()).role(Role::Worker, 3, template);
        let told = job
            .plan(&data(SampleSetPhase::Ready, 100))
            .condition("CacheMatch");
        assert!(
            told.starts_with("False ReplicasDiffer: the job has 3 workers with 8"),
            "{told}"
        );
    }
}

#[test]
fn references_that_can_not_work_are_refused() {
    let refused = |edit: fn(&mut SampleSetReference)| {
        let plan = trains(edit).plan(&data(SampleSetPhase::Ready, 100));
        assert!(plan.is_idle());
        plan.condition("Scheduled")
    };
    assert!(refused(|wanted| wanted.name = None).contains("name is missing"));
    assert!(
        refused(|wanted| wanted.namespace = Some("other".to_owned()))
            .contains("namespace is other")
    );
    assert!(
        refused(|wanted| wanted.mount_path = "data".to_owned()).contains("mountPath is \"data\"")
    );
    assert!(refused(|wanted| wanted.min_cached_percent = Some(101)).contains("must be 0 to 100"));
    let plan = trains(|wanted| wanted.affinity = Some("Strict".to_owned()))
        .plan(&data(SampleSetPhase::Ready, 100));
    assert!(
        plan.events
            .iter()
            .any(|event| event.message.contains("acts as Required"))
    );
}
