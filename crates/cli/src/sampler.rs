//! `paddle-operator sampler`: what a training process reads, so that anyone can compare it with
//! Paddle.

use std::io::{self, BufWriter, ErrorKind, Write};

use ::sampler::Sampler;

/// A `paddle.io.DistributedBatchSampler`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many files the data set has
    #[arg(long)]
    files: usize,
    /// num_replicas: all training processes
    #[arg(long)]
    replicas: usize,
    /// rank of the process whose indices are printed
    #[arg(long)]
    rank: usize,
    /// batch_size of each process
    #[arg(long, default_value_t = 1)]
    batch_size: usize,
    /// The epoch; the first is 0
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// shuffle=True
    #[arg(long)]
    shuffle: bool,
    /// drop_last=True
    #[arg(long)]
    drop_last: bool,
}

/// Prints the indices that the rank reads, one per line, in its order.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let sampler = Sampler {
        replicas: args.replicas,
        batch_size: args.batch_size,
        epoch: args.epoch,
        shuffle: args.shuffle,
        drop_last: args.drop_last,
    };
    let indices = sampler.indices(args.files, args.rank)?;
    match print(&indices) {
        // Who reads has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

fn print(indices: &[usize]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for index in indices {
        writeln!(out, "{index}")?;
    }
    out.flush()
}
