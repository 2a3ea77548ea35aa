//! Gang scheduling by Volcano.

use std::sync::Arc;

use api::{Phase, Role, SchedulingPolicy};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use plan::paddlejob::{Plan, PodGroupView, Seen, Settings};
use serde_json::{Value, json};

use crate::support::*;

fn volcano() -> Settings {
    Settings {
        volcano: true,
        ..settings()
    }
}

fn plan_of(job: &Job, seen: &Seen) -> Plan {
    plan::paddlejob::plan(job, seen, &volcano(), now())
}

fn template_with(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "paddle", "image": "p", "resources": resources}]}})
}

/// Two servers of one core and two workers of half a core each.
fn sized() -> Job {
    let server = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let worker = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "512Mi"}});
    job("a")
        .role(Role::Ps, 2, template_with(server))
        .role(Role::Worker, 2, template_with(worker))
}

fn policy(job: Job, policy: SchedulingPolicy) -> Job {
    job.spec(|spec| spec.scheduling_policy = Some(policy))
}

fn in_gang(pod: Pod) -> Pod {
    pod.ready().edit(|pod| pod.is_in_gang = true)
}

/// What is seen of the PodGroup that the plan for a job writes.
fn group(job: &Job, phase: &str) -> Option<Arc<PodGroupView>> {
    let written = plan_of(job, &nothing()).pod_group.unwrap();
    let meta = serde_json::from_value(written["metadata"].clone()).unwrap();
    let spec = serde_json::from_value(written["spec"].clone()).unwrap();
    let status = api::PodGroupStatus {
        phase: Some(phase.to_owned()),
        ..api::PodGroupStatus::default()
    };
    Some(Arc::new(PodGroupView::of(&meta, &spec, Some(&status))))
}

#[test]
fn the_group_has_a_place_for_everybody_and_comes_first() {
    let plan = plan_of(&sized(), &nothing());
    let group = plan.pod_group.as_ref().unwrap();
    assert_eq!(group["apiVersion"], "scheduling.volcano.sh/v1beta1");
    assert_eq!(group["metadata"]["name"], "a");
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], "PaddleJob");
    assert_eq!(
        group["spec"],
        json!({"minMember": 4, "minResources": {"cpu": "3", "memory": "3Gi"}})
    );
    assert!(plan.pods_created.is_empty());
    assert_eq!(
        plan.condition("Scheduled"),
        "False WaitingForGang: PodGroup a waits until Volcano finds room for 4 pods at once (cpu 3, memory 3Gi)"
    );
}

#[test]
fn the_policy_is_followed() {
    let least = SchedulingPolicy {
        min_available: Some(3),
        queue: Some("big".to_owned()),
        priority_class: Some("high".to_owned()),
        min_resources: None,
    };
    let job = policy(sized(), least.clone());
    // Servers are made first: two of them, and one worker.
    assert_eq!(
        plan_of(&job, &nothing()).pod_group.unwrap()["spec"],
        json!({
            "minMember": 3,
            "minResources": {"cpu": "2500m", "memory": "2560Mi"},
            "queue": "big",
            "priorityClassName": "high",
        })
    );
    let gpus = SchedulingPolicy {
        min_resources: Some([("nvidia.com/gpu".to_owned(), Quantity("8".to_owned()))].into()),
        ..least
    };
    let job = policy(sized(), gpus);
    assert_eq!(
        plan_of(&job, &nothing()).pod_group.unwrap()["spec"]["minResources"],
        json!({"nvidia.com/gpu": "8"})
    );
}

#[test]
fn pods_come_when_the_group_is_let_in() {
    let job = sized();
    for (phase, is_in) in [
        ("", false),
        ("Pending", false),
        ("Inqueue", true),
        ("Running", true),
        // Some run and one is to be replaced.
        ("Unknown", true),
    ] {
        let seen = Seen {
            pod_group: group(&job, phase),
            ..nothing()
        };
        let plan = plan_of(&job, &seen);
        assert_eq!(plan.pod_group, None, "{phase}");
        assert_eq!(
            plan.pods_created.len(),
            if is_in { 4 } else { 0 },
            "{phase}"
        );
    }
}

#[test]
fn pods_name_their_scheduler_and_their_group() {
    let queue = SchedulingPolicy {
        queue: Some("big".to_owned()),
        ..SchedulingPolicy::default()
    };
    let job = policy(sized(), queue);
    let seen = Seen {
        pod_group: group(&job, "Inqueue"),
        ..nothing()
    };
    let plan = plan_of(&job, &seen);
    let pod = plan.pod("a-worker-1");
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
    let annotations = &pod["metadata"]["annotations"];
    for (key, want) in [
        ("scheduling.k8s.io/group-name", "a"),
        ("volcano.sh/task-spec", "worker"),
        ("volcano.sh/job-name", "a"),
        ("volcano.sh/job-version", "0"),
        ("volcano.sh/queue-name", "big"),
    ] {
        assert_eq!(annotations[key], want, "{key}");
    }
}

#[test]
fn what_the_gang_waits_for_is_told() {
    let job = sized();
    let mut waiting = group(&job, "Pending").unwrap().as_ref().clone();
    waiting.message = Some("queue resource quota insufficient".to_owned());
    let seen = Seen {
        pod_group: Some(Arc::new(waiting)),
        ..nothing()
    };
    let plan = plan_of(&job, &seen);
    assert_eq!(plan.phase(), Phase::Pending);
    assert_eq!(
        plan.condition("Scheduled"),
        "False WaitingForGang: PodGroup a waits until Volcano finds room for 4 pods at once (cpu 3, memory 3Gi): queue resource quota insufficient"
    );
}

#[test]
fn the_group_follows_the_size_of_the_job() {
    let running = sized().running();
    let before = group(&sized(), "Running");
    let seen = Seen {
        pod_group: before,
        ..seen(&running, in_gang)
    };
    assert_eq!(plan_of(&running, &seen).pod_group, None);
    let larger = running.scaled(Role::Worker, 3);
    let plan = plan_of(&larger, &seen);
    assert_eq!(
        plan.pod_group.unwrap()["spec"],
        json!({"minMember": 5, "minResources": {"cpu": "3500m", "memory": "3584Mi"}})
    );
}

/// Volcano writes the whole object, with amounts in its own form.
#[test]
fn amounts_in_another_form_are_the_same() {
    let job = sized();
    let mut rewritten = group(&job, "Inqueue").unwrap().as_ref().clone();
    rewritten.min_resources = map(&[("cpu", "3000m"), ("memory", "3072Mi")]);
    let seen = Seen {
        pod_group: Some(Arc::new(rewritten)),
        ..nothing()
    };
    assert_eq!(plan_of(&job, &seen).pod_group, None);
}

/// Volcano and others may add to a PodGroup what we do not set.
#[test]
fn what_others_set_stays() {
    let job = job("a").workers(2);
    let mut default = group(&job, "Inqueue").unwrap().as_ref().clone();
    default.queue = Some("default".to_owned());
    default.min_resources = map(&[("cpu", "1")]);
    let seen = Seen {
        pod_group: Some(Arc::new(default)),
        ..nothing()
    };
    assert_eq!(plan_of(&job, &seen).pod_group, None);
}

/// But what we set ourselves goes when the user takes it back.
#[test]
fn what_is_taken_back_goes() {
    let with = SchedulingPolicy {
        queue: Some("big".to_owned()),
        priority_class: Some("high".to_owned()),
        ..SchedulingPolicy::default()
    };
    let seen = Seen {
        pod_group: group(&policy(sized(), with), "Pending"),
        ..nothing()
    };
    let written = plan_of(&sized(), &seen).pod_group.unwrap();
    let spec = written["spec"].as_object().unwrap();
    for field in ["queue", "priorityClassName"] {
        assert_eq!(spec.get(field), Some(&Value::Null), "{field}");
    }
    let applied = &written["metadata"]["annotations"]["batch.paddlepaddle.org/applied"];
    assert_eq!(applied, "minResources");
}

/// The template names another scheduler by now.
#[test]
fn the_group_goes_when_its_job_leaves_volcano() {
    let other = json!({"spec": {
        "schedulerName": "mine",
        "containers": [{"name": "paddle", "image": "p"}],
    }});
    let left = sized().role(Role::Worker, 2, other).attempt(1);
    let mut seen = Seen {
        pod_group: group(&sized(), "Running"),
        ..nothing()
    };
    assert!(plan_of(&left, &seen).pod_group_deleted);
    let running = left.attempt(0).running();
    seen.pods = crate::support::seen(&running, in_gang).pods;
    assert!(
        !plan_of(&running, &seen).pod_group_deleted,
        "its pods are still there"
    );
}

#[test]
fn the_group_goes_when_the_job_ends_or_is_suspended() {
    let job = sized();
    let group = group(&job, "Running");
    for (job, goes) in [
        (job.clone().ended(Phase::Completed, now()), true),
        (job.clone().ended(Phase::Failed, now()), true),
        (job.clone().suspend(true).phase(Phase::Suspended), true),
        (job.clone().running(), false),
    ] {
        let seen = Seen {
            pod_group: group.clone(),
            ..seen(&job, in_gang)
        };
        assert_eq!(plan_of(&job, &seen).pod_group_deleted, goes);
        assert!(!plan_of(&job, &nothing()).pod_group_deleted);
    }
}

#[test]
fn other_schedulers_are_left_alone() {
    let named = |name: &str| {
        json!({"spec": {
            "schedulerName": name,
            "containers": [{"name": "paddle", "image": "p"}],
        }})
    };
    for (name, is_gang) in [("volcano", true), ("", true), ("mine", false)] {
        let job = job("a").ps(1).role(Role::Worker, 1, named(name));
        let plan = plan_of(&job, &nothing());
        assert_eq!(plan.pod_group.is_some(), is_gang, "{name}");
        assert_eq!(plan.pods_created.is_empty(), is_gang, "{name}");
    }
}

/// One that joined them later would wait until all of them have a place in the group.
#[test]
fn pods_from_before_volcano_stay_without_it() {
    let running = sized().running();
    let old = seen(&running, Pod::ready).without("worker-1");
    let plan = plan_of(&running, &old);
    assert_eq!(plan.pod_group, None);
    let pod = plan.pod("a-worker-1");
    assert!(pod["spec"].get("schedulerName").is_none());
    assert!(
        pod["metadata"]["annotations"]
            .get("volcano.sh/job-name")
            .is_none()
    );
    let next = sized().attempt(1);
    let plan = plan_of(&next, &nothing());
    assert!(plan.pod_group.is_some(), "the next attempt is a gang");
}

#[test]
fn a_policy_that_has_no_effect_is_told_of() {
    let job = policy(sized(), SchedulingPolicy::default());
    let plan = job.plan(&nothing());
    assert_eq!(plan.pod_group, None);
    assert_eq!(plan.told(), ["Ignored"]);
    assert!(plan.events[0].message.contains("--scheduling=volcano"));
    assert!(plan_of(&job, &nothing()).told().is_empty());
}

/// It had no effect when the job was accepted.
#[test]
fn a_manager_with_volcano_looks_again_at_what_one_without_accepted() {
    let wrong = SchedulingPolicy {
        min_available: Some(5),
        ..SchedulingPolicy::default()
    };
    let job = policy(sized(), wrong).recorded();
    let condition = plan_of(&job, &nothing()).condition("Scheduled");
    assert!(condition.starts_with("False InvalidSpec: "), "{condition}");
}

#[test]
fn more_than_all_pods_can_not_be_asked_for() {
    for least in [0, -1, 5] {
        let wrong = SchedulingPolicy {
            min_available: Some(least),
            ..SchedulingPolicy::default()
        };
        let job = policy(sized(), wrong);
        let without = job.plan(&nothing());
        assert_eq!(without.pods_created.len(), 4, "it has no effect");
        let plan = plan_of(&job, &nothing());
        assert_eq!(
            plan.condition("Scheduled"),
            format!(
                "False InvalidSpec: spec.schedulingPolicy.minAvailable is {least}; it must be 1 to 4, the number of pods"
            )
        );
    }
}
