//! Caches are stale by nature. One test for each rule of the design that says
//! what follows from it; rule (f) has a file of its own.

use api::{Phase, Role};

use crate::support::world::{Habits, Kind, World};
use crate::support::*;

fn world(job: &Job) -> World {
    World::new(job, Habits::default())
}

/// A manager that does not wait for its own writes is as stale as can be.
fn forgetful(job: &Job) -> World {
    let habits = Habits {
        remembers_writes: false,
        ..Habits::default()
    };
    World::new(job, habits)
}

fn no_faults(world: &World) {
    assert!(world.faults.is_empty(), "{:#?}", world.diary);
}

/// The end may still be refused by the API server; pods that were deleted
/// would be missed then.
#[test]
fn rule_a_pods_are_cleaned_only_when_the_cached_job_has_ended() {
    let job = job("a").ps(1).workers(1).running();
    let done = seen(&job, Pod::ready).pod("worker-0", Pod::succeeded);
    let plan = job.plan(&done);
    assert_eq!(plan.phase(), Phase::Completed);
    assert!(plan.is_idle());
    let ended = job.status(|status| *status = plan.status);
    assert_eq!(ended.plan(&done).deleted(), ["a-ps-0", "a-worker-0"]);
}

#[test]
fn rule_a_an_end_that_was_refused_costs_nothing() {
    let mut world = world(&job("a").workers(1));
    world.settle();
    world.exit("a-worker-0", 1);
    world.deliver_all();
    // The user edits the job before the end is written: the write is refused.
    world.edit(|job| job.spec.backoff_limit = Some(1));
    world.pass();
    assert_eq!(world.phase(), Some(Phase::Running));
    assert_eq!(world.all(), ["a-worker-0"]);
    // With the new limit the job starts again instead.
    world.settle();
    assert_eq!(world.phase(), Some(Phase::Running));
    assert_eq!(world.status().restarts, Some(1));
    no_faults(&world);
}

#[test]
fn rule_b_a_status_from_a_stale_cache_is_refused() {
    let mut world = forgetful(&job("a").workers(2).cleans("Never"));
    world.settle();
    for name in world.training() {
        world.exit(&name, 0);
    }
    while world.deliver(Kind::Pod) {}
    world.pass();
    assert_eq!(world.phase(), Some(Phase::Completed));
    // The cached job still runs, and one of its pods is gone: by what is
    // cached, the job would have to start again.
    world.vanish("a-worker-0");
    while world.deliver(Kind::Pod) {}
    let plan = world.pass().unwrap();
    assert_eq!(plan.phase(), Phase::Restarting);
    assert_eq!(world.phase(), Some(Phase::Completed));
    world.settle();
    assert_eq!(world.phase(), Some(Phase::Completed));
    no_faults(&world);
}

/// Why a manager waits until its cache shows its own last status: what is
/// replaced alone is replaced without a verdict.
#[test]
fn rule_b_a_manager_that_knows_of_its_own_write_makes_nothing_for_an_ended_job() {
    let story = |mut world: World| {
        world.settle();
        world.exit("a-worker-0", 0);
        while world.deliver(Kind::Pod) {}
        world.pass();
        assert_eq!(world.phase(), Some(Phase::Completed));
        world.vanish("a-worker-0");
        while world.deliver(Kind::Pod) {}
        world.pass();
        world
    };
    let job = job("a").ps(1).workers(1).cleans("Never");
    assert_eq!(story(forgetful(&job)).faults.len(), 1);
    no_faults(&story(world(&job)));
}

#[test]
fn rule_c_a_pod_on_record_that_is_not_seen_is_lost() {
    let job = job("a").workers(2).running();
    let plan = job.plan(&seen(&job, Pod::ready).without("worker-1"));
    assert_eq!(plan.phase(), Phase::Restarting);
}

#[test]
fn rule_c_a_pod_that_is_not_yet_seen_is_not_lost() {
    let job = job("a").workers(2).recorded();
    let forgotten = job
        .clone()
        .status(|status| drop(status.worker.as_mut().unwrap().refs.pop()));
    let one = seen(&job, Pod::addressed).without("worker-1");
    let plan = forgotten.plan(&one.clone().creating("a-worker-1"));
    assert!(plan.created().is_empty());
    assert_ne!(plan.phase(), Phase::Restarting);
    // Never created: it is made, and nothing starts again.
    let plan = forgotten.plan(&one);
    assert_eq!(plan.created(), ["a-worker-1"]);
    assert_ne!(plan.phase(), Phase::Restarting);
}

/// The manager may have seen it succeed and go before the status said so.
#[test]
fn rule_c_a_pod_that_had_succeeded_is_not_lost() {
    for job in [
        job("a").workers(2).running(),
        job("a").ps(1).workers(2).running(),
    ] {
        let mut gone = seen(&job, Pod::ready).without("worker-1");
        let record = job.0.status.as_ref().unwrap().worker.as_ref().unwrap();
        gone.succeeded.insert(record.refs[1].uid.clone());
        let plan = job.plan(&gone);
        assert!(plan.created().is_empty());
        assert_eq!(plan.phase(), Phase::Running);
        let workers = plan.status.worker.as_ref().unwrap();
        assert_eq!((workers.succeeded, workers.refs[1].succeeded), (1, true));
        // Nobody else knows it any more.
        assert!(plan.is_urgent);
    }
}

/// Also a successor that is being created is not lost, although the record
/// names its predecessor.
#[test]
fn rule_c_a_successor_that_is_being_created_is_not_lost() {
    let job = job("a").ps(1).workers(1).running();
    let gone = seen(&job, Pod::ready).without("worker-0");
    assert_eq!(job.plan(&gone).created(), ["a-worker-0"]);
    let creating = gone.creating("a-worker-0");
    assert!(job.plan(&creating).created().is_empty());
}

#[test]
fn rule_c_a_new_manager_finds_what_the_old_one_made() {
    let mut world = world(&job("a").workers(3));
    world.deliver_all();
    // It dies after two pods, before any status.
    world.interrupted_pass(2);
    assert_eq!(world.all().len(), 2);
    world.restart_manager();
    world.settle();
    assert_eq!(world.phase(), Some(Phase::Running));
    assert_eq!(world.status().attempt, Some(0));
    assert_eq!(world.writes["pod"], 3);
    no_faults(&world);
}

#[test]
fn rule_d_restarts_are_raised_before_pods_are_deleted() {
    let job = job("a").workers(2).backoff_limit(3).running();
    let failed = seen(&job, Pod::ready).pod("worker-0", |p| p.failed(1));
    let plan = job.plan(&failed);
    assert_eq!(plan.status.restarts, Some(1));
    assert!(plan.deleted().is_empty());
    let raised = job.status(|status| *status = plan.status);
    let plan = raised.plan(&failed);
    assert_eq!(plan.status.restarts, Some(1), "and only once");
    assert_eq!(plan.deleted(), ["a-worker-0", "a-worker-1"]);
}

#[test]
fn rule_d_new_pods_wait_until_the_old_ones_are_gone() {
    let job = job("a").workers(2).attempt(1);
    let old = pod(&job, Role::Worker, 1).ready().attempt(0);
    let plan = job.plan(&nothing().with(old.clone()));
    assert!(plan.created().is_empty());
    assert_eq!(plan.deleted(), ["a-worker-1"]);
    let plan = job.plan(&nothing().with(old.terminating(now())));
    assert!(plan.is_idle(), "it goes already");
    let plan = job.plan(&nothing());
    assert_eq!(plan.created(), ["a-worker-0", "a-worker-1"]);
    let attempt = "batch.paddlepaddle.org/attempt";
    let annotations = &plan.pods_created[0]["metadata"]["annotations"];
    assert_eq!(annotations[attempt], "1", "pods carry their attempt");
}

/// What is being created may belong to the attempt that is over.
#[test]
fn rule_d_new_pods_wait_until_unseen_ones_are_seen() {
    let job = job("a").ps(1).workers(1).attempt(1);
    let plan = job.plan(&nothing().creating("a-worker-0"));
    assert!(plan.created().is_empty());
}

#[test]
fn rule_d_a_pod_of_a_later_attempt_means_that_the_job_is_stale() {
    let job = job("a").workers(2).running();
    let ahead = seen(&job, |p| p.ready().attempt(1));
    let plan = job.plan(&ahead);
    assert!(plan.is_idle());
    assert_eq!(Some(plan.status), job.0.status);
}

/// A pod of an old attempt that succeeds after all does not complete the new one.
#[test]
fn rule_d_old_attempts_do_not_count() {
    let job = job("a").workers(1).attempt(1);
    let old = pod(&job, Role::Worker, 0).succeeded().attempt(0);
    let plan = job.plan(&nothing().with(old));
    assert_eq!(plan.phase(), Phase::Pending);
    assert_eq!(plan.deleted(), ["a-worker-0"]);
    assert_eq!(plan.status.worker.unwrap().succeeded, 0);
}

/// The former job of the same name has pods still: they are neither adopted
/// nor deleted, and the new job starts when they are gone.
#[test]
fn rule_e_a_name_that_is_taken_is_a_condition() {
    let mut world = world(&job("a").workers(2));
    world.settle();
    let former: Vec<String> = world.pods.values().map(|pod| pod.uid.clone()).collect();
    world.recreate();
    for _ in 0..5 {
        world.deliver_all();
        world.pass();
    }
    let present: Vec<String> = world.pods.values().map(|pod| pod.uid.clone()).collect();
    assert_eq!(present, former);
    assert!(world.pods.values().all(|pod| pod.deleted_at.is_none()));
    let status = world.status();
    let condition = status.conditions.iter().find(|c| c.type_ == "Scheduled");
    assert_eq!(condition.unwrap().reason, "NameTaken");
    assert!(status.worker.unwrap().refs.is_empty());
    world.settle();
    assert_eq!(world.phase(), Some(Phase::Running));
    no_faults(&world);
}

/// Pods that keep their uid and change their address end in a job whose lists
/// are right.
#[test]
fn a_pod_that_moves_is_found_again() {
    for (job, want_attempt) in [
        (job("a").workers(2), 1),
        (job("a").ps(1).workers(2), 0),
        (job("a").workers(2).service(), 0),
    ] {
        let mut world = world(&job);
        world.settle();
        world.reboot("a-worker-1");
        world.settle();
        assert_eq!(world.phase(), Some(Phase::Running));
        assert_eq!(world.status().attempt, Some(want_attempt));
        let data = &world.config_map.as_ref().unwrap().view;
        let ip = world.pods["a-worker-1"].ip.unwrap().to_string();
        let named = data["PADDLE_TRAINERS"].contains("a-worker-1.default");
        assert!(named || data["PADDLE_TRAINERS"].ends_with(&ip), "{data:?}");
        no_faults(&world);
    }
}

/// A node that the template names turns every pod away, for an hour: 9 rests
/// that grow to 256 s, and then one each 5 min.
#[test]
fn a_job_that_no_node_takes_spares_the_cluster() {
    let mut world = world(&job("a").workers(2));
    let end = world.now + seconds(3600);
    while world.now < end {
        world.deliver_all();
        world.pass();
        for name in world.unscheduled() {
            world.schedule(&name);
            world.evict(&name);
        }
        for name in world.terminating() {
            world.remove(&name);
        }
        world.now += seconds(1);
    }
    let attempts = world.status().attempt.unwrap();
    assert!((15..=20).contains(&attempts), "{attempts}");
    assert!(world.writes["pod"] <= 42, "{:?}", world.writes);
    no_faults(&world);
}

/// With the caches up to date, a plan for what was just done is to do nothing.
#[test]
fn planning_after_applying_does_nothing() {
    for job in [
        job("a").workers(1),
        job("a").workers(3),
        job("a").ps(2).workers(2),
        job("a").ps(2).workers(2).service(),
    ] {
        let mut world = world(&job);
        for _ in 0..12 {
            world.deliver_all();
            // A status needs a pass of its own, and what follows from it another.
            for _ in 0..3 {
                world.pass();
                world.deliver_all();
            }
            let before = world.status();
            let plan = world.pass().unwrap();
            assert!(plan.is_idle(), "{plan:#?}");
            assert_eq!(plan.status, before);
            world.move_one();
        }
        no_faults(&world);
    }
}
