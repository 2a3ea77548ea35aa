//! `paddle.io.DistributedBatchSampler`: which indices each training process reads.

use std::fmt;
use std::mem;
use std::ops::Range;

use crate::mt19937;

/// Far more than any training has. Short data sets are padded until every replica has its
/// sample, so replicas alone can take memory.
pub const MOST_REPLICAS: usize = 1 << 20;

/// A `DistributedBatchSampler` with the parameters that a training gave it.
///
/// Without `shuffle` this is also what is read in sequence: Paddle's `SequenceSampler` is the
/// same with one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// `num_replicas`: all training processes.
    pub replicas: usize,
    /// `batch_size` of each process.
    pub batch_size: usize,
    /// The epoch, which seeds the shuffle. Paddle counts from 0.
    pub epoch: u32,
    /// `shuffle`.
    pub shuffle: bool,
    /// `drop_last`: a last batch that is not full is left out.
    pub drop_last: bool,
}

/// One process that reads one by one, in order.
impl Default for Sampler {
    fn default() -> Sampler {
        Sampler {
            replicas: 1,
            batch_size: 1,
            epoch: 0,
            shuffle: false,
            drop_last: false,
        }
    }
}

/// Parameters that no sampler can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplerError {
    /// There are too few or too many replicas.
    Replicas(usize),
    /// A batch holds nothing.
    BatchSize,
    /// A partition has no ranks.
    RanksPerPartition,
    /// A rank that is not one of the replicas.
    Rank {
        /// The rank that was asked for.
        rank: usize,
        /// How many there are.
        replicas: usize,
    },
    /// More files than indices of 32 bits.
    Files(usize),
}

impl fmt::Display for SamplerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SamplerError::Replicas(replicas) => write!(
                f,
                "the number of replicas is {replicas}; it must be from 1 to {MOST_REPLICAS}"
            ),
            SamplerError::BatchSize => write!(f, "the batch size is 0; it must be at least 1"),
            SamplerError::RanksPerPartition => {
                write!(
                    f,
                    "the number of ranks per partition is 0; it must be at least 1"
                )
            }
            SamplerError::Rank { rank, replicas } => write!(
                f,
                "the rank is {rank}; with {replicas} replicas it must be from 0 to {}",
                replicas.saturating_sub(1)
            ),
            SamplerError::Files(files) => write!(
                f,
                "{files} files are too many; there can be about {}",
                u32::MAX
            ),
        }
    }
}

impl std::error::Error for SamplerError {}

impl Sampler {
    /// What a rank reads of so many files in this epoch, in the order in which it reads.
    ///
    /// An index may occur twice: the data set is padded so that all ranks read equally many.
    ///
    /// # Errors
    ///
    /// When the parameters can't be those of a sampler, or the rank is not one of the replicas.
    pub fn indices(&self, files: usize, rank: usize) -> Result<Vec<usize>, SamplerError> {
        if rank >= self.replicas && self.replicas > 0 {
            let replicas = self.replicas;
            return Err(SamplerError::Rank { rank, replicas });
        }
        self.share(files, rank..rank.saturating_add(1))
    }

    /// What the ranks of a partition read of so many files in this epoch: each index once, in
    /// the order in which it is first read when all ranks take a batch at a time.
    ///
    /// Partition `p` holds the ranks from `p × ranks_per_partition`, as many as there are: none
    /// for a partition behind the last rank.
    ///
    /// # Errors
    ///
    /// When the parameters can't be those of a sampler.
    pub fn partition(
        &self,
        files: usize,
        partition: usize,
        ranks_per_partition: usize,
    ) -> Result<Vec<usize>, SamplerError> {
        if ranks_per_partition == 0 {
            return Err(SamplerError::RanksPerPartition);
        }
        let first = partition.saturating_mul(ranks_per_partition);
        let end = first.saturating_add(ranks_per_partition);
        let ranks = first.min(self.replicas)..end.min(self.replicas);
        let mut share = self.share(files, ranks)?;
        let padded = self.total(files)? as usize > files;
        if padded {
            let mut seen = vec![false; files];
            share.retain(|index| {
                let seen = seen.get_mut(*index);
                seen.is_some_and(|seen| !mem::replace(seen, true))
            });
        }
        Ok(share)
    }

    /// What neighbouring ranks read, batch by batch.
    fn share(&self, files: usize, ranks: Range<usize>) -> Result<Vec<usize>, SamplerError> {
        let total = self.total(files)?;
        let places = self.places(total as usize, ranks);
        if !self.shuffle {
            return Ok(places.map(|place| place % files).collect());
        }
        // Padding comes before the shuffle.
        let mut order: Vec<u32> = (0..files as u32).cycle().take(total as usize).collect();
        mt19937::shuffle(&mut order, self.epoch);
        let read = places.filter_map(|place| order.get(place));
        Ok(read.map(|index| *index as usize).collect())
    }

    /// So many samples are read by all ranks together, padding included. All are numbered by
    /// 32 bits.
    fn total(&self, files: usize) -> Result<u32, SamplerError> {
        if !(1..=MOST_REPLICAS).contains(&self.replicas) {
            return Err(SamplerError::Replicas(self.replicas));
        }
        if self.batch_size == 0 {
            return Err(SamplerError::BatchSize);
        }
        let each = files.div_ceil(self.replicas);
        let total = each.checked_mul(self.replicas);
        let total = total.and_then(|total| u32::try_from(total).ok());
        total.ok_or(SamplerError::Files(files))
    }

    /// The places in the common order that neighbouring ranks read.
    ///
    /// Rank after rank takes a batch, so those of neighbours are one stretch in each round. What
    /// is too little for a round is cut into one short batch for each.
    fn places(&self, total: usize, ranks: Range<usize>) -> impl Iterator<Item = usize> {
        let batch = self.batch_size;
        // If this saturates there is no whole round, and no product below is taken.
        let round = batch.saturating_mul(self.replicas);
        let rest = total % round;
        let whole = total - rest;
        let short = if self.drop_last {
            0
        } else {
            rest / self.replicas
        };
        let last = whole + ranks.start * short..whole + ranks.end * short;
        (0..whole)
            .step_by(round)
            .flat_map(move |start| start + ranks.start * batch..start + ranks.end * batch)
            .chain(last)
    }
}
