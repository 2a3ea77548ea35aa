//! Mode, phase, counts and conditions of a job on its way.

use api::{Phase, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Urgency;
use plan::paddlejob::{Address, PodPhase, Seen, Trouble, urgency};

use crate::support::*;

#[test]
fn mode() {
    let cases = [
        (job("a").ps(1).workers(1), "PS"),
        (job("a").ps(1), "PS"),
        (job("a").workers(2), "Collective"),
        (job("a").workers(1), "Single"),
    ];
    for (job, want) in cases {
        let plan = job.plan(&nothing());
        assert_eq!(plan.status.mode.as_deref(), Some(want));
    }
}

#[test]
fn phase_follows_the_pods() {
    let new = job("a").ps(1).workers(2);
    let running = new.clone().running();
    let restarting = new.clone().recorded().phase(Phase::Restarting);
    let all = |state: fn(Pod) -> Pod| seen(&new, state);
    let cases: [(&str, &Job, Seen, Phase); 12] = [
        ("nothing is there", &new, nothing(), Phase::Pending),
        ("created", &new, all(Pod::created), Phase::Pending),
        (
            "one has no node",
            &new,
            all(Pod::scheduled).pod("worker-1", |p| p.edit(|p| p.node = None)),
            Phase::Pending,
        ),
        ("all have nodes", &new, all(Pod::scheduled), Phase::Starting),
        ("all have started", &new, all(Pod::started), Phase::Starting),
        ("all are ready", &new, all(Pod::ready), Phase::Running),
        (
            "one is done, the others are ready",
            &new,
            all(Pod::ready).pod("worker-0", Pod::succeeded),
            Phase::Running,
        ),
        (
            "running, and one is not ready any more",
            &running,
            all(Pod::ready).pod("worker-0", |p| p.edit(|p| p.ready = false)),
            Phase::Running,
        ),
        (
            "running, and a worker is replaced",
            &running,
            all(Pod::ready).without("worker-0"),
            Phase::Running,
        ),
        (
            "restarting, and not yet there",
            &restarting,
            all(Pod::started),
            Phase::Restarting,
        ),
        (
            "restarting, and all are ready",
            &restarting,
            all(Pod::ready),
            Phase::Running,
        ),
        (
            "every worker is done",
            &running,
            all(Pod::ready)
                .pod("worker-0", Pod::succeeded)
                .pod("worker-1", Pod::succeeded),
            Phase::Completed,
        ),
    ];
    for (case, job, seen, want) in cases {
        assert_eq!(job.plan(&seen).phase(), want, "{case}");
    }
}

#[test]
fn pods_are_counted() {
    let job = job("a").ps(1).workers(6).running();
    let seen = seen(&job, Pod::ready)
        .pod("worker-0", |p| p.edit(|p| p.phase = PodPhase::Unknown))
        .pod("worker-1", |p| {
            p.edit(|p| (p.phase, p.node, p.ready) = (PodPhase::Pending, None, false))
        })
        .pod("worker-2", |p| p.edit(|p| p.ready = false))
        .pod("worker-3", Pod::succeeded)
        .pod("worker-4", Pod::evicted);
    let status = job.plan(&seen).status;
    let worker = status.worker.unwrap();
    let counts = [
        worker.replicas,
        worker.pending,
        worker.starting,
        worker.running,
        worker.failed,
        worker.succeeded,
        worker.unknown,
    ];
    assert_eq!(counts, [6, 1, 1, 1, 1, 1, 1]);
    assert_eq!(status.ps.unwrap().running, 1);
    let refs: Vec<(&str, bool)> = worker
        .refs
        .iter()
        .map(|r| (r.uid.as_str(), r.succeeded))
        .collect();
    let want: Vec<(String, bool)> = (0..6)
        .map(|rank| (uid(&format!("a-worker-{rank}")), rank == 3))
        .collect();
    assert_eq!(
        refs,
        want.iter()
            .map(|(uid, done)| (uid.as_str(), *done))
            .collect::<Vec<_>>()
    );
}

#[test]
fn the_status_of_a_new_job() {
    let plan = job("a").ps(1).workers(2).plan(&nothing());
    let status = plan.status;
    assert_eq!(status.start_time, Some(Time(now())));
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!((status.restarts, status.attempt), (Some(0), Some(0)));
    assert_eq!(
        status.selector.as_deref(),
        Some("batch.paddlepaddle.org/job-name=a,batch.paddlepaddle.org/role=worker")
    );
    assert_eq!(plan.pods_created.len(), 3);
}

/// Gang scheduling needs them all, and servers are wanted first.
#[test]
fn all_pods_are_created_at_once_servers_first() {
    let plan = job("a").ps(2).workers(2).plan(&nothing());
    assert_eq!(
        plan.created(),
        ["a-ps-0", "a-ps-1", "a-worker-0", "a-worker-1"]
    );
    assert!(plan.config_map.is_none());
    assert!(plan.services_created.is_empty());
}

/// Pods of a huge template come in portions of some 8 MiB, so that the manager
/// never holds 2,000 copies of it.
#[test]
fn huge_pods_are_created_in_portions() {
    let huge = |bytes: usize| {
        let mut template = template();
        template["metadata"]["annotations"]["big"] = "x".repeat(bytes).into();
        job("a").role(Role::Worker, 4, template)
    };
    let born = |job: &Job| job.plan(&nothing()).created().len();
    assert_eq!(born(&huge(1 << 20)), 4);
    let job = huge(5 << 20);
    assert_eq!(born(&job), 2);
    let half = seen(&job, Pod::created)
        .without("worker-0")
        .without("worker-1");
    assert_eq!(job.plan(&half).created(), ["a-worker-0", "a-worker-1"]);
}

#[test]
fn in_service_mode_names_and_lists_come_with_the_pods() {
    let named = |job: Job| job.service().plan(&nothing());
    let plan = named(job("a").ps(1).workers(1));
    let services: Vec<String> = plan.services_created.iter().map(name_of).collect();
    assert_eq!(services, ["a-ps-0", "a-worker-0"]);
    assert!(plan.config_map.unwrap().contains_key(FIRST_KEY));
    // Who has no init container to wait for names starts when they are in DNS.
    let plan = named(job("a").workers(2));
    assert_eq!(plan.services_created.len(), 2);
    assert_eq!(plan.config_map, None);
}

#[test]
fn conditions_say_why() {
    let new = job("a").workers(2);
    let trouble = |trouble: Trouble| move |p: Pod| p.edit(|p| p.trouble = Some(Box::new(trouble)));
    let unschedulable = Trouble::Unschedulable("0/3 nodes: no GPU".to_owned());
    let no_image = Trouble::Waiting(
        "paddle".to_owned(),
        "ErrImagePull".to_owned(),
        "no such image".to_owned(),
    );
    let all = |state: fn(Pod) -> Pod| seen(&new, state);
    let cases = [
        (
            all(Pod::created).pod("worker-1", trouble(unschedulable)),
            "False Unschedulable: pod a-worker-1: not schedulable: 0/3 nodes: no GPU",
            "False Pending: not every pod has a node yet",
        ),
        (
            all(Pod::created),
            "False WaitingForNodes: not every pod has a node yet",
            "False Pending: not every pod has a node yet",
        ),
        (
            all(Pod::scheduled),
            "True AllScheduled: every pod has a node",
            "False Starting: every pod has a node; not every container is ready yet",
        ),
        (
            all(Pod::scheduled).pod("worker-1", |p| p.edit(|p| p.waits = true)),
            "True AllScheduled: every pod has a node",
            "False Starting: every pod has a node; not every container is ready yet: kubectl logs a-worker-1 -c coord-paddle says what that pod waits for",
        ),
        (
            all(Pod::scheduled).pod("worker-0", trouble(no_image)),
            "True AllScheduled: every pod has a node",
            "False ContainerWaiting: pod a-worker-0: container paddle waits, ErrImagePull: no such image",
        ),
        (
            all(Pod::ready),
            "True AllScheduled: every pod has a node",
            "True AllReady: every container is, or was, ready",
        ),
    ];
    for (seen, want_scheduled, want_running) in cases {
        let plan = new.plan(&seen);
        assert_eq!(plan.condition("Scheduled"), want_scheduled);
        assert_eq!(plan.condition("Running"), want_running);
    }
}

/// A container that crashes keeps a job from the phase Running, and not in it; the status
/// tells of it anyway.
#[test]
fn a_container_that_crashes_is_told() {
    let crashing = |p: Pod| {
        p.started().edit(|p| {
            let (name, reason) = ("paddle".to_owned(), "CrashLoopBackOff".to_owned());
            p.ready = false;
            p.trouble = Some(Box::new(Trouble::Waiting(name, reason, String::new())));
        })
    };
    let new = job("a").workers(2);
    let all = seen(&new, Pod::ready).pod("worker-1", crashing);
    let plan = new.plan(&all);
    let told = "False ContainerWaiting: pod a-worker-1: container paddle waits, CrashLoopBackOff";
    assert_eq!(plan.phase(), Phase::Starting);
    assert_eq!(plan.condition("Running"), told);
    let plan = new.running().plan(&all);
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(plan.condition("Running"), told);
}

#[test]
fn pods_whose_first_address_is_ipv6_are_sent_to_service_mode() {
    let six = |p: Pod| p.scheduled().edit(|p| p.address = Some(Address::V6Only));
    let job = job("a").workers(1).recorded();
    let plan = job.plan(&seen(&job, six));
    assert_eq!(
        plan.condition("Running"),
        "False IPv6Only: the first address of pod a-worker-0 is IPv6, and Paddle splits endpoints at ':'; use intranet: Service"
    );
    assert!(plan.config_map.is_none());
    let named = job.service();
    let plan = named.plan(&seen(&named, six));
    assert!(!plan.condition("Running").contains("IPv6"));
    assert!(plan.config_map.is_some());
}

#[test]
fn a_job_that_is_deleted_is_terminating_and_makes_nothing() {
    let job = job("a")
        .workers(2)
        .running()
        .edit(|job| job.metadata.deletion_timestamp = Some(Time(now())));
    let plan = job.plan(&nothing());
    assert_eq!(plan.phase(), Phase::Terminating);
    assert!(plan.is_idle());
}

#[test]
fn transition_times_move_only_with_the_condition() {
    let job = job("a").workers(1);
    let first = job.plan(&seen(&job, Pod::ready));
    let then = job.clone().status(|status| *status = first.status.clone());
    let later = now() + seconds(60);
    assert_eq!(
        then.plan_at(&seen(&then, Pod::ready), later).status,
        first.status
    );
}

#[test]
fn parameter_servers_that_still_run_count_as_succeeded() {
    let job = job("a").ps(2).workers(1).running();
    let seen = seen(&job, Pod::ready).pod("worker-0", Pod::succeeded);
    let plan = job.plan(&seen);
    assert_eq!(plan.phase(), Phase::Completed);
    let ps = plan.status.ps.clone().unwrap();
    assert_eq!((ps.running, ps.succeeded), (0, 2));
    assert_eq!(
        plan.condition("Complete"),
        "True Completed: every worker succeeded"
    );
    assert_eq!(
        plan.condition("Running"),
        "False Completed: the job is Completed"
    );
    assert_eq!(plan.status.completion_time, Some(Time(now())));
    assert_eq!(plan.told(), ["Completed"]);
}

/// Servers never end by themselves, but where there is nothing else, they count.
#[test]
fn a_job_of_servers_completes_with_them() {
    let job = job("a").ps(2).running();
    let one = seen(&job, Pod::ready).pod("ps-0", Pod::succeeded);
    assert_eq!(job.plan(&one).phase(), Phase::Running);
    let both = job.plan(&one.pod("ps-1", Pod::succeeded));
    assert_eq!(both.phase(), Phase::Completed);
    assert_eq!(
        both.condition("Complete"),
        "True Completed: every parameter server succeeded"
    );
}

/// A pod that is done is not missed, even when somebody has deleted it.
#[test]
fn what_succeeded_once_is_done() {
    let job = job("a").workers(2).running().succeeded("worker-0");
    let all = seen(&job, Pod::ready).without("worker-0");
    let plan = job.plan(&all);
    assert_eq!(plan.phase(), Phase::Running);
    assert!(plan.created().is_empty());
    assert_eq!(plan.status.worker.as_ref().unwrap().succeeded, 1);
    let plan = job.plan(&all.pod("worker-1", Pod::succeeded));
    assert_eq!(plan.phase(), Phase::Completed);
}

/// Counts and wording may wait; a phase, a condition, and what others wait
/// for may not.
#[test]
fn what_may_wait() {
    let job = job("a").ps(1).workers(2);
    let first = job.plan(&seen(&job, Pod::created));
    let told = job.clone().status(|status| *status = first.status.clone());
    let of = |seen: &Seen| urgency(told.0.status.as_ref(), &told.plan(seen));
    let created = seen(&told, Pod::created);
    assert_eq!(urgency(None, &first), Urgency::Eventually);
    let trouble = Trouble::Unschedulable("no GPU".to_owned());
    let stuck = |pod: Pod| pod.edit(|pod| pod.trouble = Some(Box::new(trouble)));
    let stuck = created.clone().pod("worker-0", stuck);
    assert_eq!(urgency(None, &job.plan(&stuck)), Urgency::Now);
    assert_eq!(of(&created), Urgency::Never);
    let one = created.clone().pod("worker-0", Pod::scheduled);
    assert_eq!(of(&one), Urgency::Eventually);
    // Running often overtakes it.
    assert_eq!(of(&seen(&told, Pod::scheduled)), Urgency::Soon);
    assert_eq!(of(&seen(&told, Pod::ready)), Urgency::Now, "a phase");
    // All addresses are known, and one pod is not on record: the ConfigMap waits.
    let unrecorded = told
        .clone()
        .phase(Phase::Running)
        .status(|status| status.worker.as_mut().unwrap().refs.clear());
    let addressed = seen(&unrecorded, Pod::addressed);
    let plan = unrecorded.plan(&addressed);
    assert!(plan.is_urgent);
    assert_eq!(urgency(unrecorded.0.status.as_ref(), &plan), Urgency::Now);
    assert_eq!(plan.phase(), Phase::Running);
    assert_eq!(
        plan.status.role(Role::Worker).unwrap().refs.len(),
        2,
        "and is on record now"
    );
}

#[test]
fn what_never_comes_is_named() {
    let job = job("a").ps(1).workers(1);
    let world = seen(&job, Pod::scheduled).pod("ps-0", Pod::succeeded);
    assert_eq!(
        job.plan(&world).condition("Running"),
        "False Starting: pod a-ps-0 has ended, and workers wait for it: a parameter server has to serve until they end"
    );
    let mut template = template();
    template["spec"]["schedulerName"] = "volcano".into();
    let named = job.clone().role(Role::Worker, 1, template);
    let scheduled = |job: &Job| job.plan(&seen(job, Pod::created)).condition("Scheduled");
    let told = "False WaitingForNodes: not every pod has a node yet";
    assert_eq!(scheduled(&job), told);
    assert_eq!(
        scheduled(&named),
        format!("{told}: the scheduler volcano has to find one")
    );
}
