//! The plans are total: whatever is stored and seen, there is an answer, and
//! doing what it says leads somewhere.

mod arbitrary;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{SampleJob, SampleJobPhase, SampleSetPhase};
use plan::operation::State;
use plan::samplejob::Rival;
use plan::sampleset::Child;
use plan::{samplejob, sampleset};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use self::arbitrary::{
    answer, any_job, any_seen, any_set, number, operation, pod, run, secret_seen, time,
};
use crate::support::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_set_in_any_world_has_a_plan(set in any_set(), seen in any_seen(), at in time(), local in any::<bool>()) {
        let mut settings = settings();
        settings.allow_local_paths = local;
        settings.default_volume_dir = local.then(|| "/state".to_owned());
        let _ = sampleset::asks(&set);
        let _ = sampleset::secrets_needed(&set, &seen, &settings, at);
        let plan = sampleset::plan(&set, &seen, &settings, at);
        let _ = sampleset::urgency(set.status.as_ref(), &plan.status);
        // Nothing is asked of a server without the lock, but that a deleted set be cleared.
        let lock = set.status.as_ref().and_then(|status| status.operation.as_ref());
        for post in &plan.posted {
            prop_assert!(lock.is_some() || set.metadata.deletion_timestamp.is_some(), "{post:?}");
        }
        // Nothing of somebody else is touched.
        for kind in &plan.deleted {
            prop_assert!(kind != &sampleset::Kind::PersistentVolume || seen.volume.ours().is_some());
            prop_assert!(kind != &sampleset::Kind::PersistentVolumeClaim || seen.claim.ours().is_some());
        }
        // The same world again gives the same plan.
        prop_assert_eq!(sampleset::plan(&set, &seen, &settings, at), plan);
    }

    #[test]
    fn any_job_in_any_world_has_a_plan(
        job in any_job(),
        set in option::of(any_set()),
        pods in vec(pod(), 0..3),
        answers in btree_map(number(), answer(), 0..3),
        runs in vec(run(), 0..4),
        secrets in (secret_seen(), secret_seen()),
        at in time(),
    ) {
        let rivals = vec![Rival {
            name: "b".to_owned(),
            uid: "uid-b".to_owned(),
            created: None,
            terminates: false,
            is_blocked: false,
        }];
        let seen = samplejob::Seen {
            set: set.map(Arc::new),
            rivals,
            pods,
            answers,
            volume_secret: secrets.0,
            source_secret: secrets.1,
            runs,
        };
        let _ = samplejob::asks(&job, seen.set.as_deref());
        let _ = samplejob::secrets_needed(&job, &seen);
        let plan = samplejob::plan(&job, &seen, &job_settings(), at);
        let lock = seen.set.as_deref().and_then(|set| set.status.as_ref()?.operation.as_ref());
        for post in &plan.posted {
            prop_assert!(lock.is_some_and(|lock| lock.owner == "uid-a"), "{post:?}");
        }
        if let Some(lock) = lock.filter(|lock| lock.owner != "uid-a") {
            prop_assert!(plan.lock.is_none(), "took the lock of {}", lock.owner);
        }
    }
}

/// What an operation may come to that is posted.
fn outcome() -> impl Strategy<Value = State> {
    prop_oneof![
        Just(State::Queued),
        Just(State::Cancelled),
        Just(running()),
        Just(failed("X", "x")),
        Just(succeeded()),
    ]
}

/// Something that happens to the cluster.
fn upset(stage: &mut Stage, what: u8) {
    match what {
        0 => {
            for server in stage.servers.values_mut() {
                server.operations.clear();
            }
        }
        1 => stage.jobs.truncate(stage.jobs.len().saturating_sub(1)),
        2 => {
            for pod in stage.seen.pods.iter_mut().take(1) {
                pod.node = Some("another".to_owned());
                stage.servers.remove(&pod.partition);
            }
        }
        3 => stage.seen.labelled_nodes.clear(),
        4 => stage.seen.service = Child::Missing,
        _ => stage.seen.pods.clear(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_servers_do_and_users_change_it_settles(
        first in outcome(), second in outcome(), operation in operation(),
        partitions in 1..4_i32, then in 1..4_i32, jobs in vec((operation_job(), any::<bool>()), 0..4),
        upsets in vec((0..6_u8, 0..400_i64), 1..5),
    ) {
        let stage = stage(set("imagenet").partitions(partitions)).says(operation, first);
        let mut stage = stage.settle();
        for (at, (job, terminate)) in jobs.into_iter().enumerate() {
            let mut job = job.created(now() + seconds(at as i64));
            job.metadata.name = Some(format!("job-{at}"));
            job.metadata.uid = Some(format!("uid-{at}"));
            stage = stage.with(if terminate { job.terminate() } else { job });
        }
        let mut stage = stage.settle().says(operation, second).edit(|set| set.partitions(then));
        for (what, wait) in upsets {
            stage = stage.change(|stage| upset(stage, what)).after(wait);
        }
        // In the end everything works, and nothing is left behind.
        let mut stage = stage.change(|stage| stage.answers = BTreeMap::new());
        for _ in 0..6 {
            stage = stage.turns(succeeded()).after(300);
        }
        prop_assert_eq!(stage.phase(), Some(SampleSetPhase::Ready), "{:#?}", stage.status());
        prop_assert_eq!(&stage.status().operation, &None);
        for job in &stage.jobs {
            let phase = job.status.as_ref().and_then(|status| status.phase);
            prop_assert!(phase.is_some_and(SampleJobPhase::is_terminal), "{job:#?}");
        }
        prop_assert!(stage.plan_set().is_idle());
    }
}

fn operation_job() -> impl Strategy<Value = SampleJob> {
    operation().prop_map(|operation| job("x", operation).removes(&["x"]))
}
