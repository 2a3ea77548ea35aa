//! How much there is and how much of it is cached, as the servers count it.

use api::{CacheStatus, Operation, PartitionStatus, RuntimeStatus, SampleSetStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::humane::{count, rate, size};
use super::world::Seen;
use crate::operation::{CacheFigures, percent};

/// How often small changes of disks are told while nothing else changes: others fill and empty
/// them too, all the time.
const DISKS_EVERY: SignedDuration = SignedDuration::from_secs(30);
/// What is no small change, in percent of a disk.
const LARGE_CHANGE: f64 = 1.0;

/// The figures of all partitions, and who is ready. Returns when to tell of disks that have
/// changed and were told of too lately.
pub(super) fn observe(
    status: &mut SampleSetStatus,
    seen: &Seen,
    partitions: i32,
    name: impl Fn(i32) -> String,
    now: Timestamp,
) -> Option<Timestamp> {
    let ready = (0..partitions)
        .filter(|partition| seen.ready(*partition))
        .count();
    status.runtime_status = Some(RuntimeStatus {
        runtime_ready: Some(format!("{ready}/{partitions}")),
        spec_replicas: Some(partitions),
        ready_replicas: i32::try_from(ready).ok(),
    });
    let mut old = status.cache_status.take();
    let operation = status.operation.as_ref().map(|lock| lock.type_);
    if operation == Some(Operation::Rmr) {
        // Less than it was; a server that knows its own tells how much.
        let partitions = old.iter_mut().flat_map(|old| &mut old.partitions);
        partitions.for_each(|known| known.share_bytes = None);
    }
    let new = cache_status(old.clone().unwrap_or_default(), seen, partitions, name);
    let due = old.as_ref().and_then(|old| disks_due(old, &new));
    let due = due.filter(|due| *due > now);
    status.cache_status = match old {
        Some(old) if old == new || due.is_some() => Some(old),
        None if new == CacheStatus::default() => None,
        _ => Some(CacheStatus {
            last_update_time: Some(Time(now)),
            ..new
        }),
    };
    due
}

/// When to tell of disks, if nothing but what is used of them has changed, by a little.
fn disks_due(old: &CacheStatus, new: &CacheStatus) -> Option<Timestamp> {
    let told = CacheStatus {
        disk_used: new.disk_used.clone(),
        disk_avail: new.disk_avail.clone(),
        disk_usage_rate: new.disk_usage_rate.clone(),
        ..old.clone()
    };
    let is_alone = old != new && told == *new;
    let rate = |of: &CacheStatus| {
        let rate = of.disk_usage_rate.as_deref()?;
        rate.trim_end_matches('%').parse::<f64>().ok()
    };
    let is_small = rate(old)
        .zip(rate(new))
        .is_none_or(|(old, new)| (old - new).abs() < LARGE_CHANGE);
    let last = old.last_update_time.as_ref();
    let last = last.filter(|_| is_alone && is_small)?;
    last.0.checked_add(DISKS_EVERY).ok()
}

fn cache_status(
    old: CacheStatus,
    seen: &Seen,
    partitions: i32,
    name: impl Fn(i32) -> String,
) -> CacheStatus {
    let all = (0..partitions).filter_map(|partition| figures(seen, partition));
    let all: Vec<&CacheFigures> = all.collect();
    let silent = (0..partitions).find_map(|partition| {
        let answer = seen.answers.get(&partition)?;
        let told = answer.cache.as_ref().and_then(|cache| cache.error.as_ref());
        let error = answer.error.as_ref().or(told)?;
        Some(format!("{}: {error}", name(partition)))
    });
    let mut new = CacheStatus {
        error_massage: silent,
        partitions: (0..partitions)
            .filter_map(|partition| partition_status(&old, seen, partition))
            .collect(),
        ..old
    };
    if all.is_empty() {
        return new;
    }
    let sum = |pick: fn(&CacheFigures) -> u64| {
        all.iter()
            .fold(0_u64, |sum, figures| sum.saturating_add(pick(figures)))
    };
    // The first server that has counted it speaks for the volume, as all see the same.
    let total = all.iter().find_map(|figures| figures.total);
    let cached = sum(|figures| figures.cached_bytes);
    let cached = total.map_or(cached, |total| cached.min(total.bytes));
    let (disk, used) = (sum(|f| f.disk_size), sum(|f| f.disk_used));
    if let Some(total) = total {
        new.total_size = Some(size(total.bytes));
        new.total_files = Some(count(total.files));
    }
    new.cached_size = Some(size(cached));
    new.disk_size = Some(size(disk));
    new.disk_used = Some(size(used));
    new.disk_avail = Some(size(sum(|figures| figures.disk_avail)));
    new.disk_usage_rate = Some(rate(used, disk));
    new
}

/// How much is cached, in percent. What a partition should hold its server knows from the last
/// warmup, so that counts only for one that is warm: there may be new data since, or fewer
/// partitions.
pub(super) fn judge(
    status: &mut SampleSetStatus,
    seen: &Seen,
    partitions: i32,
    is_warm: impl Fn(&PartitionStatus) -> bool,
    now: Timestamp,
) {
    let Some(cache) = &mut status.cache_status else {
        return;
    };
    let mut new = cache.clone();
    let all = (0..partitions).filter_map(|partition| figures(seen, partition));
    let all: Vec<&CacheFigures> = all.collect();
    for known in &mut new.partitions {
        if let Some(figures) = figures(seen, known.partition) {
            let share = share(known).filter(|_| is_warm(known));
            known.percent = share.and_then(|share| part(figures.cached_bytes.min(share), share));
        }
    }
    if !all.is_empty() {
        let is_whole = usize::try_from(partitions) == Ok(all.len());
        let shares = is_whole.then(|| shares_percent(&new.partitions, seen, is_warm));
        let total = all.iter().find_map(|figures| figures.total);
        let cached = all.iter().fold(0_u64, |sum, figures| {
            sum.saturating_add(figures.cached_bytes)
        });
        let of_all = || part(cached.min(total?.bytes), total?.bytes);
        new.cached_percent = shares.flatten().or_else(of_all);
    }
    if new != *cache {
        new.last_update_time = Some(Time(now));
        *cache = new;
    }
}

/// How much of what the partitions should hold they do hold, if each knows its share.
/// TOTAL can't tell as well: it counts whole blocks of 4 KiB.
fn shares_percent(
    partitions: &[PartitionStatus],
    seen: &Seen,
    is_warm: impl Fn(&PartitionStatus) -> bool,
) -> Option<i32> {
    let mut sums = (0_u64, 0_u64);
    for known in partitions {
        let share = share(known).filter(|_| is_warm(known))?;
        let cached = figures(seen, known.partition)?.cached_bytes;
        sums.0 = sums.0.saturating_add(cached.min(share));
        sums.1 = sums.1.saturating_add(share);
    }
    part(sums.0, sums.1)
}

fn share(known: &PartitionStatus) -> Option<u64> {
    u64::try_from(known.share_bytes?).ok()
}

/// What the server of a partition counts.
fn figures(seen: &Seen, partition: i32) -> Option<&CacheFigures> {
    seen.answers.get(&partition)?.cache.as_ref()
}

fn partition_status(old: &CacheStatus, seen: &Seen, partition: i32) -> Option<PartitionStatus> {
    let mut known = old.partitions.iter();
    let known = known.find(|known| known.partition == partition).cloned();
    let figures = figures(seen, partition);
    let node = seen.pod(partition).and_then(|pod| pod.node.clone());
    if known.is_none() && figures.is_none() && node.is_none() {
        return None;
    }
    let mut known = known.unwrap_or_default();
    known.partition = partition;
    known.node = node.or(known.node);
    if let Some(figures) = figures {
        // A server whose pod is a new one does not know what the last one was given.
        let told = figures
            .share_bytes
            .and_then(|share| i64::try_from(share).ok());
        known.share_bytes = told.or(known.share_bytes);
        known.cached = Some(size(figures.cached_bytes));
    }
    Some(known)
}

/// A part in percent; nothing of nothing is all of it.
fn part(part: u64, whole: u64) -> Option<i32> {
    if whole == 0 {
        return Some(100);
    }
    percent(i64::try_from(part).ok(), i64::try_from(whole).ok())
}
