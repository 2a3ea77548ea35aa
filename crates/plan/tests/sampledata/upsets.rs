//! Whatever happens between the operator, its users and its servers, one operation is
//! under way at a time (the stage checks it after each step), and in the end all is done.

use api::{Operation, SampleJobPhase, SampleSetPhase};
use plan::operation::State;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::*;

/// Something that happens.
#[derive(Clone, Debug)]
enum Upset {
    /// A server does not answer until they all do again.
    Silence(i32),
    Hear,
    /// So many requests do not arrive.
    LosePosts(usize),
    /// What is under way comes to this.
    Turn(State),
    /// A server loses its pod.
    LosePod(i32),
    CreateJob(Operation),
    DeleteJob,
    TerminateJob,
    /// A job is made to name a set that does not exist.
    RenameSet,
    /// The spec of the set can't work until it is healed.
    Spoil,
    Heal,
    ChangeSource(bool),
    Resize(i32),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    select(&[Sync, Warmup, Clear, Rmr][..])
}

fn outcome() -> impl Strategy<Value = State> {
    prop_oneof![
        Just(State::NeedsCredentials),
        Just(running()),
        Just(failed("X", "x")),
        Just(succeeded()),
    ]
}

fn upset() -> impl Strategy<Value = Upset> {
    prop_oneof![
        3 => (0..3).prop_map(Upset::Silence),
        2 => Just(Upset::Hear),
        1 => (1..4_usize).prop_map(Upset::LosePosts),
        2 => outcome().prop_map(Upset::Turn),
        1 => (0..3).prop_map(Upset::LosePod),
        3 => operation().prop_map(Upset::CreateJob),
        2 => Just(Upset::DeleteJob),
        2 => Just(Upset::TerminateJob),
        1 => Just(Upset::RenameSet),
        1 => Just(Upset::Spoil),
        1 => Just(Upset::Heal),
        1 => any::<bool>().prop_map(Upset::ChangeSource),
        1 => (1..4).prop_map(Upset::Resize),
    ]
}

fn file(stage: Stage, file: Option<&str>) -> Stage {
    let file = file.map(str::to_owned);
    stage.edit(|set| set.edit(|spec| spec.warmup.get_or_insert_default().file = file))
}

fn edit_last(stage: Stage, edit: impl FnOnce(&mut api::SampleJobSpec)) -> Stage {
    stage.change(|stage| {
        if let Some(last) = stage.jobs.last_mut() {
            *last = last.clone().edit(edit);
        }
    })
}

fn happen(stage: Stage, upset: Upset, number: usize) -> Stage {
    match upset {
        Upset::Silence(partition) if stage.servers.contains_key(&partition) => {
            stage.silence(partition)
        }
        Upset::Silence(_) => stage,
        Upset::Hear => stage.hear(),
        Upset::LosePosts(count) => stage.change(|stage| stage.lost_posts = count),
        Upset::Turn(state) => stage.turns(state),
        Upset::LosePod(lost) => {
            stage.change(|stage| stage.seen.pods.retain(|pod| pod.partition != lost))
        }
        Upset::CreateJob(operation) => {
            let created = stage.now;
            let name = format!("job-{number}");
            let job = job(&name, operation).removes(&["x"]).created(created);
            stage.with(job)
        }
        Upset::DeleteJob => stage.change(|stage| drop(stage.jobs.pop())),
        Upset::TerminateJob => edit_last(stage, |spec| spec.terminate = Some(true)),
        Upset::RenameSet => edit_last(stage, |spec| {
            spec.sample_set_ref.get_or_insert_default().name = Some("other".to_owned());
        }),
        Upset::Spoil => file(stage, Some("../list")),
        Upset::Heal => file(stage, None),
        Upset::ChangeSource(other) => {
            let bucket = if other { "other" } else { "one" };
            let uri = format!("s3://{bucket}/data");
            stage.edit(|set| set.source(&uri))
        }
        Upset::Resize(partitions) => stage.edit(|set| set.partitions(partitions)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn one_operation_at_a_time_and_all_is_done_in_the_end(
        partitions in 1..4_i32,
        upsets in vec((upset(), 0..8_usize, 0..40_i64), 1..16),
    ) {
        let mut stage = stage(set("imagenet").partitions(partitions)).settle();
        for operation in [Operation::Sync, Operation::Warmup, Operation::Clear, Operation::Rmr] {
            stage = stage.says(operation, running());
        }
        for (number, (upset, steps, wait)) in upsets.into_iter().enumerate() {
            stage = happen(stage, upset, number);
            for _ in 0..steps {
                stage.step();
            }
            stage.now += seconds(wait);
        }
        stage.answers.clear();
        stage.lost_posts = 0;
        let mut stage = file(stage.hear(), None);
        for _ in 0..10 {
            stage = stage.turns(succeeded()).after(300);
        }
        prop_assert_eq!(stage.phase(), Some(SampleSetPhase::Ready), "{:#?}", stage.status());
        prop_assert_eq!(&stage.status().operation, &None);
        for job in &stage.jobs {
            let named = job.spec.sample_set_ref.as_ref().and_then(|set| set.name.as_deref());
            let phase = job.status.as_ref().and_then(|status| status.phase);
            let is_over = phase.is_some_and(SampleJobPhase::is_terminal);
            prop_assert!(is_over || named == Some("other"), "{job:#?}");
        }
        prop_assert!(stage.plan_set().is_idle());
    }
}
