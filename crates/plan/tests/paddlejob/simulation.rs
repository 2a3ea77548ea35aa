//! Jobs in a cluster where everything comes late and in any order.
//!
//! What must never happen is checked by the [`World`] itself, in every story.
//! The stories differ in what may happen, and so in what must hold at the end.

mod acts;

use std::collections::BTreeSet;

use api::{PaddleJobSpec, Phase, Role};
use plan::paddlejob::Intranet;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use self::acts::{
    Act, disruptions, habits, jobs, machinery, perform, programs, rendezvous, stories, wishes,
};
use crate::support::kubelet::listed;
use crate::support::world::{Counts, Habits, World};
use crate::support::{Job, job};

/// Nothing happened that must never happen; the diary tells what did.
fn no_faults(world: &World) -> Result<(), TestCaseError> {
    prop_assert!(
        world.faults.is_empty(),
        "{:#?}\nwhat happened:\n{}",
        world.faults,
        world.diary.join("\n")
    );
    Ok(())
}

/// A story of a new job, or of one that runs already: most of what can go
/// wrong does so later.
fn live(job: &Job, habits: Habits, is_new: bool, story: &[Act]) -> World {
    let mut world = World::new(job, habits);
    if !is_new {
        world.settle();
        world.note("-- the story begins");
    }
    for act in story {
        perform(&mut world, act);
    }
    world
}

/// A job in a cluster that has come to rest is where its spec wants it.
fn is_as_wanted(world: &World) -> Result<(), TestCaseError> {
    let diary = world.diary.join("\n");
    let job = world.job.clone().unwrap();
    let (spec, status) = (&job.spec, world.status());
    if spec.suspend == Some(true) {
        prop_assert_eq!(status.phase, Some(Phase::Suspended), "{}", diary);
        prop_assert!(world.pods.is_empty(), "{}", diary);
        prop_assert!(world.pod_group.is_none(), "{}", diary);
        return Ok(());
    }
    prop_assert_eq!(status.phase, Some(Phase::Running), "{}", diary);
    let wanted = Job(job.clone()).wanted();
    let names: BTreeSet<String> = wanted
        .iter()
        .map(|(role, rank)| plan::names::pod("a", *role, *rank))
        .collect();
    let found: BTreeSet<String> = world.all().into_iter().collect();
    prop_assert_eq!(&found, &names, "{}", diary);
    for pod in world.pods.values() {
        prop_assert!(pod.is_training() && pod.ready, "{}\n{}", pod.name, diary);
        prop_assert_eq!(Some(pod.attempt), status.attempt, "{}", diary);
    }
    for role in Role::ALL {
        let replicas = spec.role(role).map(|role| role.replicas);
        let counts = status.role(role);
        prop_assert_eq!(counts.map(|c| c.running), replicas, "{}", diary);
        prop_assert_eq!(counts.map(|c| c.replicas), replicas, "{}", diary);
        let refs = counts.map_or(0, |c| c.refs.len());
        prop_assert_eq!(refs, counts.map_or(0, |c| c.running as usize), "{}", diary);
    }
    prop_assert_eq!(status.observed_generation, job.metadata.generation);
    has_right_lists(world, spec, &names)
}

fn has_right_lists(
    world: &World,
    spec: &PaddleJobSpec,
    names: &BTreeSet<String>,
) -> Result<(), TestCaseError> {
    let diary = world.diary.join("\n");
    let data = &world.config_map.as_ref().unwrap().view;
    let service = Intranet::of(spec) == Intranet::Service;
    for pod in world.pods.values() {
        let host = match service {
            true => format!("{}.default", pod.name),
            false => pod.ip.unwrap().to_string(),
        };
        let found = listed(data, pod.role, pod.rank);
        prop_assert_eq!(found, Some(host.as_str()), "{}", diary);
    }
    let workers = spec.worker.as_ref().unwrap().replicas;
    prop_assert_eq!(&data["PADDLE_TRAINERS_NUM"], &workers.to_string());
    prop_assert_eq!(data["PADDLE_TRAINERS"].split(',').count(), workers as usize);
    let services: BTreeSet<String> = world.services.keys().cloned().collect();
    let wanted = if service {
        names.clone()
    } else {
        BTreeSet::new()
    };
    prop_assert_eq!(services, wanted, "{}", diary);
    Ok(())
}

/// `PROPTEST_CASES` asks for a longer hunt.
fn config(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => asked.cases,
            None => cases,
        },
        failure_persistence: None,
        max_shrink_iters: 10_000,
        ..asked
    }
}

proptest! {
    #![proptest_config(config(100))]

    /// Whatever happens, nothing happens that must not, and the job comes to
    /// rest in a phase in which it can stay.
    #[test]
    fn nothing_bad_ever_happens(
        job in jobs(),
        habits in habits(),
        is_new in any::<bool>(),
        story in stories(prop_oneof![
            30 => machinery(),
            2 => disruptions(),
            2 => wishes(),
            3 => programs(),
            1 => Just(Act::Recreate),
        ]),
    ) {
        let mut world = live(&job, habits, is_new, &story);
        world.settle();
        no_faults(&world)?;
        let phase = world.phase().unwrap();
        let rest = [Phase::Running, Phase::Suspended, Phase::Completed, Phase::Failed];
        prop_assert!(rest.contains(&phase), "{phase}\n{}", world.diary.join("\n"));
    }

    /// While everything about addresses goes wrong, no container starts with a
    /// list that is not right for it.
    #[test]
    fn no_container_starts_with_an_old_list(
        ps in 0..=1,
        workers in 1..=3,
        habits in habits(),
        is_new in any::<bool>(),
        story in stories(rendezvous()),
    ) {
        let job = job("a").workers(workers);
        let job = if ps > 0 { job.ps(ps) } else { job };
        let mut world = live(&job, habits, is_new, &story);
        no_faults(&world)?;
        world.settle();
        no_faults(&world)?;
        is_as_wanted(&world)?;
    }

    /// Pods are taken away, the user changes his mind, the manager dies, and
    /// caches lag: when all comes to rest, every interleaving has led to the
    /// state that the last spec asks for, nothing was counted as a failure, and
    /// no kubelet had to wait for its back-off.
    #[test]
    fn every_interleaving_ends_where_the_spec_says(
        job in jobs(),
        habits in habits(),
        is_new in any::<bool>(),
        story in stories(prop_oneof![30 => machinery(), 2 => disruptions(), 2 => wishes()]),
    ) {
        let mut world = live(&job, habits, is_new, &story);
        world.settle();
        no_faults(&world)?;
        is_as_wanted(&world)?;
        prop_assert_eq!(world.status().restarts, Some(0));
        prop_assert_eq!(world.slow_starts, 0, "{}", world.diary.join("\n"));
    }

    /// A job whose workers end well completes, whatever happened before; then
    /// nothing that happens to its pods or its spec brings it back.
    #[test]
    fn a_job_whose_workers_succeed_completes_for_good(
        job in jobs(),
        habits in habits(),
        story in stories(prop_oneof![
            30 => machinery(),
            2 => disruptions(),
            2 => wishes(),
            2 => (0..4_usize).prop_map(Act::Succeed),
        ]),
        epilogue in stories(prop_oneof![5 => machinery(), 2 => disruptions(), 2 => wishes()]),
    ) {
        let mut world = live(&job, habits, true, &story);
        world.edit(|job| job.spec.suspend = None);
        world.finish();
        prop_assert_eq!(world.phase(), Some(Phase::Completed), "{}", world.diary.join("\n"));
        is_clean(&world)?;
        for act in &epilogue {
            perform(&mut world, act);
        }
        world.settle();
        no_faults(&world)?;
        prop_assert_eq!(world.phase(), Some(Phase::Completed));
    }

    /// One program fails in its first runs: each failure is counted once, in
    /// whatever order the manager learns of things.
    #[test]
    fn every_failure_counts_once(
        ps in 0..=1,
        workers in 1..=3,
        limit in 0..=2,
        failures in 0..=3_i32,
        habits in habits(),
        story in stories(prop_oneof![12 => machinery(), 1 => Just(Act::Fail(0))]),
    ) {
        let job = job("a").workers(workers).backoff_limit(limit);
        let job = if ps > 0 { job.ps(ps) } else { job };
        let mut world = World::new(&job, habits);
        let mut left = failures;
        let mut fail = |world: &mut World| {
            let runs = world.training().contains(&"a-worker-0".to_owned());
            let fails = left > 0 && runs;
            if fails {
                left -= 1;
                world.exit("a-worker-0", 1);
            }
            fails
        };
        for act in &story {
            match act {
                Act::Fail(_) => drop(fail(&mut world)),
                act => perform(&mut world, act),
            }
        }
        world.settle();
        while fail(&mut world) {
            world.settle();
        }
        no_faults(&world)?;
        prop_assert_eq!(world.status().restarts, Some(failures.min(limit)));
        if failures <= limit {
            is_as_wanted(&world)?;
        } else {
            prop_assert_eq!(world.phase(), Some(Phase::Failed));
        }
    }
}

/// What a policy keeps is kept, and nothing of it runs.
fn is_clean(world: &World) -> Result<(), TestCaseError> {
    let spec = &world.job.as_ref().unwrap().spec;
    let keeps = matches!(
        spec.clean_pod_policy.as_deref(),
        Some("Never" | "OnFailure")
    );
    prop_assert!(keeps || world.pods.is_empty());
    prop_assert!(world.pods.values().all(|pod| !pod.is_active()));
    Ok(())
}

/// From create to Running in a cluster where nothing is late, with one pass
/// for each change: the budget of the design.
#[test]
fn a_job_costs_few_writes() {
    let cases = [
        ("Single", job("a").workers(1)),
        ("Collective", job("a").workers(4)),
        ("PS", job("a").ps(2).workers(2)),
        ("PS by name", job("a").ps(2).workers(2).service()),
        ("Collective by name", job("a").workers(3).service()),
    ];
    for (case, job) in cases {
        let pods = job.wanted().len();
        let mut world = World::new(&job, Habits::default());
        for _ in 0..10 * pods {
            world.deliver_all();
            let plan = world.pass_with(Counts::PutOff, None);
            assert!(plan.is_some_and(|plan| plan.events.is_empty()), "{case}");
            world.deliver_all();
            world.pass_with(Counts::PutOff, None);
            world.move_one();
        }
        assert_eq!(world.phase(), Some(Phase::Running), "{case}");
        let writes = |what| world.writes.get(what).copied().unwrap_or(0);
        assert_eq!(writes("pod"), pods, "{case}");
        assert!(writes("wake") <= pods, "{case}: {:?}", world.writes);
        let rest = writes("status") + writes("config map");
        assert!(rest <= 6, "{case}: {:?}", world.writes);
        assert!(world.faults.is_empty(), "{case}: {:#?}", world.diary);
    }
}
