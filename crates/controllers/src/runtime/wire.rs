//! What plans say, in the words of the cache runtime servers, and back.

use api::{SampleOrder, WarmupStrategy};
use cache_api::{Cache, Clear, Job, JobState, Order, Rmr, Sampler, Sync, Task, Warmup};
use plan::operation::{self, CacheFigures, Done, Listing, State, SyncTask, Total, WarmupTask};

/// What a server is to do.
pub(super) fn task(task: &operation::Task) -> Task {
    match task {
        operation::Task::Sync(sync) => Task::Sync(sync_of(sync)),
        operation::Task::Warmup(warmup) => Task::Warmup(warmup_of(warmup)),
        operation::Task::Clear { paths } => Task::Clear(Clear {
            paths: paths.clone(),
        }),
        operation::Task::Rmr { paths } => Task::Rmr(Rmr {
            paths: paths.clone(),
        }),
        operation::Task::Recount => Task::Recount,
    }
}

fn sync_of(task: &SyncTask) -> Sync {
    let options = &task.options;
    let is_set = |flag: Option<bool>| flag.unwrap_or_default();
    Sync {
        source: task.source.clone(),
        destination: task.destination.clone(),
        start: options.start.clone(),
        end: options.end.clone(),
        exclude: options.exclude.clone(),
        include: options.include.clone(),
        threads: options.threads.map(number),
        bwlimit: options.bwlimit.map(number),
        update: is_set(options.update),
        force_update: is_set(options.force_update),
        perms: is_set(options.perms),
        dirs: is_set(options.dirs),
        dry: is_set(options.dry),
        delete_src: is_set(options.delete_src),
        delete_dst: is_set(options.delete_dst),
        no_https: is_set(options.no_https),
    }
}

fn warmup_of(task: &WarmupTask) -> Warmup {
    Warmup {
        partition: number(task.partition.into()),
        sampler: Sampler {
            ranks_per_partition: number(task.ranks_per_partition.into()),
            replicas: number(task.replicas.into()),
            batch_size: number(task.batch_size.into()),
            epoch: number(task.epoch.into()),
            shuffle: task.strategy == WarmupStrategy::Random,
            drop_last: task.drop_last,
            order: match task.order {
                SampleOrder::All => Order::All,
                SampleOrder::List => Order::List,
                SampleOrder::Folder => Order::Folder,
                SampleOrder::Image => Order::Image,
            },
        },
        paths: task.paths.clone(),
        file: task.file.clone(),
        threads: Some(number(task.threads)),
        evict_others: task.evict_others,
    }
}

/// What the server says of a job.
pub(super) fn state(job: &Job) -> State {
    match &job.state {
        JobState::Queued => State::Queued,
        JobState::NeedsCredentials => State::NeedsCredentials,
        JobState::Running => State::Running(progress(job)),
        JobState::Succeeded(outcome) => State::Succeeded(Done {
            listing: outcome.listing.map(|listing| Listing {
                count: signed(listing.files),
                crc: listing.crc32,
            }),
            files: signed(job.progress.files),
            bytes: signed(outcome.share.unwrap_or(job.progress.bytes)),
            cached_bytes: outcome.cached.map_or(0, signed),
        }),
        JobState::Failed(failure) => State::Failed {
            reason: failure.reason.clone(),
            message: failure.message.clone(),
        },
        JobState::Cancelled => State::Cancelled,
    }
}

fn progress(job: &Job) -> api::Progress {
    let progress = job.progress;
    let (done, all) = match (progress.total_bytes, progress.total_files) {
        (Some(total), _) => (progress.bytes, total),
        (None, Some(total)) => (progress.files, total),
        (None, None) => (0, 0),
    };
    let percent = done.saturating_mul(100).checked_div(all);
    api::Progress {
        files: Some(signed(progress.files)),
        total_files: progress.total_files.map(signed),
        bytes: Some(signed(progress.bytes)),
        total_bytes: progress.total_bytes.map(signed),
        percent: percent.and_then(|percent| i32::try_from(percent.min(100)).ok()),
    }
}

/// What the server says of its cache.
pub(super) fn figures(cache: &Cache) -> CacheFigures {
    CacheFigures {
        total: cache.total.map(|total| Total {
            bytes: total.bytes,
            files: total.files,
        }),
        cached_bytes: cache.cached,
        disk_size: cache.disk.size,
        disk_used: cache.disk.used,
        disk_avail: cache.disk.avail,
        share_bytes: cache.share,
        error: cache.error.clone(),
    }
}

/// What can't be one was refused by the API server.
fn number(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
