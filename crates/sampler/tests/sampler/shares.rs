//! What ranks and partitions read.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sampler::{MOST_REPLICAS, Sampler, SamplerError};

fn sampler(replicas: usize, batch_size: usize) -> Sampler {
    Sampler {
        replicas,
        batch_size,
        ..Sampler::default()
    }
}

#[test]
fn ranks_take_a_batch_in_turn_and_share_the_rest() {
    // 11 files are padded to 12: two rounds of 2 × 2, then 2 for each.
    let two = sampler(2, 2);
    assert_eq!(two.indices(11, 0).unwrap(), [0, 1, 4, 5, 8, 9]);
    assert_eq!(two.indices(11, 1).unwrap(), [2, 3, 6, 7, 10, 0]);
    // 10 files: two rounds, then 1 for each.
    assert_eq!(two.indices(10, 0).unwrap(), [0, 1, 4, 5, 8]);
    assert_eq!(two.indices(10, 1).unwrap(), [2, 3, 6, 7, 9]);
    let dropping = Sampler {
        drop_last: true,
        ..two
    };
    assert_eq!(dropping.indices(10, 1).unwrap(), [2, 3, 6, 7]);
}

#[test]
fn one_replica_reads_everything_in_its_order() {
    assert_eq!(sampler(1, 3).indices(5, 0).unwrap(), [0, 1, 2, 3, 4]);
    let shuffled = Sampler {
        shuffle: true,
        epoch: 7,
        ..sampler(1, 3)
    };
    assert_eq!(
        shuffled.indices(10, 0).unwrap(),
        [8, 5, 0, 2, 1, 9, 7, 3, 6, 4]
    );
}

#[test]
fn fewer_files_than_replicas_are_read_more_than_once() {
    let five = sampler(5, 1);
    let read: Vec<_> = (0..5).map(|rank| five.indices(2, rank).unwrap()).collect();
    assert_eq!(read, [[0], [1], [0], [1], [0]]);
}

#[test]
fn a_partition_reads_what_its_ranks_do_batch_by_batch() {
    let four = sampler(4, 2);
    assert_eq!(
        four.partition(16, 0, 2).unwrap(),
        [0, 1, 2, 3, 8, 9, 10, 11]
    );
    assert_eq!(
        four.partition(16, 1, 2).unwrap(),
        [4, 5, 6, 7, 12, 13, 14, 15]
    );
    assert_eq!(
        four.partition(16, 2, 2).unwrap(),
        [0; 0],
        "no rank is left for it"
    );
    assert_eq!(
        four.partition(16, 1, 3).unwrap(),
        [6, 7, 14, 15],
        "one rank is"
    );
    assert_eq!(four.partition(16, usize::MAX, usize::MAX).unwrap(), [0; 0]);
}

#[test]
fn a_partition_holds_a_file_once() {
    assert_eq!(sampler(5, 1).partition(2, 0, 5).unwrap(), [0, 1]);
}

#[test]
fn no_files_no_indices() {
    for shuffle in [false, true] {
        let sampler = Sampler {
            shuffle,
            ..sampler(3, 2)
        };
        assert_eq!(sampler.indices(0, 2).unwrap(), [0; 0]);
        assert_eq!(sampler.partition(0, 0, 1).unwrap(), [0; 0]);
    }
}

#[test]
fn a_batch_larger_than_everything() {
    let huge = sampler(2, usize::MAX);
    assert_eq!(huge.indices(3, 1).unwrap(), [2, 0]);
    let dropping = Sampler {
        drop_last: true,
        ..huge
    };
    assert_eq!(dropping.indices(3, 1).unwrap(), [0; 0]);
}

#[test]
fn what_is_no_sampler_is_refused() {
    let refusal = |sampler: Sampler, files, rank| sampler.indices(files, rank).unwrap_err();
    assert_eq!(refusal(sampler(0, 1), 9, 0), SamplerError::Replicas(0));
    let many = MOST_REPLICAS + 1;
    assert_eq!(
        refusal(sampler(many, 1), 9, 0),
        SamplerError::Replicas(many)
    );
    assert_eq!(refusal(sampler(2, 0), 9, 0), SamplerError::BatchSize);
    let no_such_rank = SamplerError::Rank {
        rank: 2,
        replicas: 2,
    };
    assert_eq!(refusal(sampler(2, 1), 9, 2), no_such_rank);
    assert_eq!(
        no_such_rank.to_string(),
        "the rank is 2; with 2 replicas it must be from 0 to 1"
    );
    for files in [u32::MAX as usize + 1, usize::MAX] {
        assert_eq!(refusal(sampler(2, 1), files, 0), SamplerError::Files(files));
    }
    assert_eq!(
        sampler(2, 1).partition(9, 0, 0),
        Err(SamplerError::RanksPerPartition)
    );
}

fn any_sampler() -> impl Strategy<Value = Sampler> {
    (
        1..12usize,
        1..12usize,
        any::<u32>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(replicas, batch_size, epoch, shuffle, drop_last)| Sampler {
                replicas,
                batch_size,
                epoch,
                shuffle,
                drop_last,
            },
        )
}

fn by_rank(sampler: Sampler, files: usize) -> Vec<Vec<usize>> {
    (0..sampler.replicas)
        .map(|rank| sampler.indices(files, rank).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_ranks_read_equally_many_and_together_everything(
        sampler in any_sampler(),
        files in 0..300usize,
    ) {
        let sampler = Sampler { drop_last: false, ..sampler };
        let read = by_rank(sampler, files);
        let each = files.div_ceil(sampler.replicas);
        prop_assert!(read.iter().all(|indices| indices.len() == each));
        // The padding goes round the data set from its start.
        let mut together = read.concat();
        together.sort_unstable();
        let mut want: Vec<_> = (0..each * sampler.replicas).map(|place| place % files).collect();
        want.sort_unstable();
        prop_assert_eq!(together, want);
    }

    #[test]
    fn only_a_short_last_batch_is_dropped(sampler in any_sampler(), files in 0..300usize) {
        let all = by_rank(Sampler { drop_last: false, ..sampler }, files);
        let kept = by_rank(Sampler { drop_last: true, ..sampler }, files);
        for (all, kept) in all.iter().zip(kept) {
            let batches = all.len() / sampler.batch_size * sampler.batch_size;
            prop_assert_eq!(&all[..batches], kept);
        }
    }

    #[test]
    fn partitions_are_the_union_of_their_ranks(
        sampler in any_sampler(),
        files in 0..300usize,
        per_partition in 1..5usize,
    ) {
        let read = by_rank(sampler, files);
        for (partition, ranks) in read.chunks(per_partition).enumerate() {
            let mut want = Vec::new();
            for step in 0..ranks[0].len().div_ceil(sampler.batch_size) {
                for rank in ranks {
                    want.extend(rank.chunks(sampler.batch_size).nth(step).unwrap());
                }
            }
            let mut seen = BTreeSet::new();
            want.retain(|index| seen.insert(*index));
            prop_assert_eq!(sampler.partition(files, partition, per_partition).unwrap(), want);
        }
    }

    #[test]
    fn any_parameters_give_an_answer(
        replicas in any::<usize>(),
        batch_size in any::<usize>(),
        rank in any::<usize>(),
        files in prop_oneof![0..1000usize, (u32::MAX as usize)..],
    ) {
        let sampler = Sampler { batch_size, shuffle: true, ..sampler(replicas, 1) };
        let _ = sampler.indices(files, rank);
        let _ = sampler.partition(files, rank, batch_size);
    }
}
