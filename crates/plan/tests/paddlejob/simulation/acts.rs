//! What may happen in a story, and how often.

use api::{Role, RoleSpec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::world::{Counts, Habits, Kind, World};
use crate::support::{Job, job, never_restarted, seconds, template};

/// Something that happens. Numbers choose among the pods that it can happen to.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Everything moves on by one.
    Round,
    // The manager and its caches.
    Pass,
    LazyPass,
    FailedPass(usize),
    CrashedPass(usize),
    Restart,
    Deliver(Kind),
    CatchUp(Kind),
    Relist(Kind),
    // The scheduler, the kubelets and the garbage collector.
    Schedule(usize),
    Address(usize),
    Start(usize),
    Try,
    EndWait(usize),
    Ready(usize),
    Stop(usize),
    Remove(usize),
    CollectGarbage,
    // Volcano.
    Admit,
    HoldBack,
    // Programs.
    Succeed(usize),
    Fail(usize),
    // What happens to pods.
    UserDeletes(usize),
    Evict(usize),
    Vanish(usize),
    KillNode(usize),
    // The user.
    Scale(Role, i32),
    Suspend(bool),
    Harmless(i32),
    Recreate,
    // Time.
    Later(i64),
}

fn on(
    world: &mut World,
    which: fn(&World) -> Vec<String>,
    index: usize,
    act: impl FnOnce(&mut World, &str),
) {
    let names = which(world);
    if !names.is_empty() {
        act(world, &names[index % names.len()]);
    }
}

pub(super) fn perform(world: &mut World, act: &Act) {
    match *act {
        Act::Round => world.round(),
        Act::Pass => drop(world.pass()),
        Act::LazyPass => drop(world.pass_with(Counts::PutOff, None)),
        Act::FailedPass(writes) => drop(world.pass_with(Counts::Write, Some(writes))),
        Act::CrashedPass(writes) => {
            world.pass_with(Counts::Write, Some(writes));
            world.restart_manager();
        }
        Act::Restart => world.restart_manager(),
        Act::Deliver(kind) => drop(world.deliver(kind)),
        Act::CatchUp(kind) => while world.deliver(kind) {},
        Act::Relist(kind) => world.relist(kind),
        Act::Schedule(i) => on(world, World::unscheduled, i, World::schedule),
        Act::Address(i) => on(world, World::without_address, i, World::give_address),
        Act::Start(i) => on(world, World::startable, i, World::start),
        Act::Try => world.give_up_waiting(),
        Act::EndWait(i) => on(world, World::patient, i, World::end_wait),
        Act::Ready(i) => on(world, World::unready, i, World::make_ready),
        Act::Stop(i) => on(world, World::stopping, i, World::stop),
        Act::Remove(i) => on(world, World::terminating, i, World::remove),
        Act::CollectGarbage => world.collect_garbage(),
        Act::Admit => world.admit(),
        Act::HoldBack => world.hold_back(),
        Act::Succeed(i) => on(world, World::training, i, |w, name| w.exit(name, 0)),
        Act::Fail(i) => on(world, World::training, i, |w, name| w.exit(name, 1)),
        Act::UserDeletes(i) => on(world, World::all, i, World::user_deletes),
        Act::Evict(i) => on(world, World::evictable, i, World::evict),
        Act::Vanish(i) => on(world, World::all, i, World::vanish),
        Act::KillNode(i) => on(world, World::all, i, World::kill_node),
        Act::Scale(role, to) => world.edit(|job| {
            // Pods that were made before any status tells of them are made
            // for the mode that the job has: it can't be seen later that they
            // are of another.
            let begun = job.status.as_ref().is_some_and(|s| s.start_time.is_some());
            let changes_mode = role == Role::Ps && job.spec.ps.is_some() != (to > 0);
            if changes_mode && !begun {
                return;
            }
            let wanted = job.spec.worker.clone().map(|worker| RoleSpec {
                replicas: to,
                ..worker
            });
            match role {
                Role::Ps => job.spec.ps = wanted.filter(|_| to > 0),
                _ => job.spec.worker = wanted,
            }
        }),
        Act::Suspend(suspend) => world.edit(|job| job.spec.suspend = Some(suspend)),
        // Long enough that no story gets there.
        Act::Harmless(ttl) => {
            world.edit(|job| job.spec.ttl_seconds_after_finished = Some(1_000_000 + ttl));
        }
        Act::Recreate => world.recreate(),
        Act::Later(by) => world.now += seconds(by),
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    select(&Kind::ALL[..])
}

/// What every story has: caches that lag, a manager that fails and restarts,
/// a cluster that moves when it likes.
pub(super) fn machinery() -> impl Strategy<Value = Act> {
    let i = 0..4_usize;
    prop_oneof![
        6 => Just(Act::Round),
        9 => Just(Act::Pass),
        3 => Just(Act::LazyPass),
        4 => (0..6_usize).prop_map(Act::FailedPass),
        1 => (0..6_usize).prop_map(Act::CrashedPass),
        1 => Just(Act::Restart),
        8 => kinds().prop_map(Act::Deliver),
        10 => kinds().prop_map(Act::CatchUp),
        1 => kinds().prop_map(Act::Relist),
        6 => i.clone().prop_map(Act::Schedule),
        6 => i.clone().prop_map(Act::Address),
        6 => i.clone().prop_map(Act::Start),
        2 => Just(Act::Try),
        3 => i.clone().prop_map(Act::EndWait),
        4 => i.clone().prop_map(Act::Ready),
        1 => i.clone().prop_map(Act::Stop),
        5 => i.prop_map(Act::Remove),
        1 => Just(Act::CollectGarbage),
        4 => Just(Act::Admit),
        1 => Just(Act::HoldBack),
        1 => (1..100_i64).prop_map(Act::Later),
    ]
}

/// Pods that are taken away.
pub(super) fn disruptions() -> impl Strategy<Value = Act> {
    let i = 0..4_usize;
    prop_oneof![
        i.clone().prop_map(Act::UserDeletes),
        i.clone().prop_map(Act::Evict),
        i.clone().prop_map(Act::Vanish),
        i.prop_map(Act::KillNode),
    ]
}

/// What users do while a job runs.
pub(super) fn wishes() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..=3).prop_map(|to| Act::Scale(Role::Worker, to)),
        // None at all makes it a Collective job.
        1 => (0..=2).prop_map(|to| Act::Scale(Role::Ps, to)),
        2 => any::<bool>().prop_map(Act::Suspend),
        1 => (0..3).prop_map(Act::Harmless),
    ]
}

pub(super) fn programs() -> impl Strategy<Value = Act> {
    let i = 0..4_usize;
    prop_oneof![i.clone().prop_map(Act::Succeed), i.prop_map(Act::Fail),]
}

/// What matters while pods look for each other: addresses that come one by
/// one, pods that vanish and come back, statuses that do not get through.
pub(super) fn rendezvous() -> impl Strategy<Value = Act> {
    let i = 0..4_usize;
    prop_oneof![
        5 => Just(Act::Round),
        5 => Just(Act::Pass),
        5 => (0..6_usize).prop_map(Act::FailedPass),
        2 => Just(Act::LazyPass),
        1 => Just(Act::Restart),
        4 => Just(Act::CatchUp(Kind::Job)),
        6 => Just(Act::CatchUp(Kind::Pod)),
        2 => Just(Act::Deliver(Kind::Pod)),
        4 => i.clone().prop_map(Act::Schedule),
        6 => i.clone().prop_map(Act::Address),
        6 => i.clone().prop_map(Act::Start),
        5 => i.clone().prop_map(Act::Vanish),
        1 => i.prop_map(Act::KillNode),
        2 => (1..=3).prop_map(|to| Act::Scale(Role::Worker, to)),
        2 => (0..9).prop_map(Act::Harmless),
    ]
}

pub(super) fn stories(act: impl Strategy<Value = Act>) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act, 0..120)
}

pub(super) fn habits() -> impl Strategy<Value = Habits> {
    let any = any::<bool>;
    (any(), any(), any()).prop_map(|(lazy_kubelet, waits, volcano)| Habits {
        lazy_kubelet,
        waits,
        volcano,
        ..Habits::default()
    })
}

pub(super) fn jobs() -> impl Strategy<Value = Job> {
    const POLICIES: [&str; 4] = ["Always", "Never", "OnFailure", "OnCompletion"];
    let policy = prop::option::of(select(&POLICIES[..]).prop_map(str::to_owned));
    let intranet = select(&["PodIP", "Service", "Host"][..]);
    // Who is never restarted waits for names in an init container.
    let workers = (1..=3, select(vec![template(), never_restarted()]));
    (0..=2, workers, intranet, 0..=2, policy).prop_map(|(ps, workers, intranet, limit, policy)| {
        let (replicas, template) = workers;
        let job = job("a").role(Role::Worker, replicas, template);
        let job = job.backoff_limit(limit);
        let job = if ps > 0 { job.ps(ps) } else { job };
        job.spec(|spec| {
            spec.intranet = Some(intranet.to_owned());
            spec.clean_pod_policy = policy;
        })
    })
}
