//! How much there is and how much of it is cached, as the servers count it.

use api::{CacheStatus, PartitionStatus, RuntimeStatus, SampleSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::humane::{count, rate, size};
use super::world::Seen;
use crate::operation::{CacheFigures, percent};

/// The figures of all partitions, and who is ready.
pub(super) fn observe(
    status: &mut SampleSetStatus,
    seen: &Seen,
    partitions: i32,
    name: impl Fn(i32) -> String,
    now: Timestamp,
) {
    let ready = (0..partitions)
        .filter(|partition| seen.ready(*partition))
        .count();
    status.runtime_status = Some(RuntimeStatus {
        runtime_ready: Some(format!("{ready}/{partitions}")),
        spec_replicas: Some(partitions),
        ready_replicas: i32::try_from(ready).ok(),
    });
    let old = status.cache_status.take();
    let new = cache_status(old.clone().unwrap_or_default(), seen, partitions, name);
    status.cache_status = match old {
        Some(old) if old == new => Some(old),
        None if new == CacheStatus::default() => None,
        _ => Some(CacheStatus {
            last_update_time: Some(Time(now)),
            ..new
        }),
    };
}

fn cache_status(
    old: CacheStatus,
    seen: &Seen,
    partitions: i32,
    name: impl Fn(i32) -> String,
) -> CacheStatus {
    let figures = |partition: i32| seen.answers.get(&partition)?.cache.as_ref();
    let all: Vec<&CacheFigures> = (0..partitions).filter_map(figures).collect();
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
    let is_whole = usize::try_from(partitions) == Ok(all.len());
    let shares = is_whole.then(|| shares_percent(&all)).flatten();
    new.cached_percent = shares.or_else(|| part(cached, total?.bytes));
    new.disk_size = Some(size(disk));
    new.disk_used = Some(size(used));
    new.disk_avail = Some(size(sum(|figures| figures.disk_avail)));
    new.disk_usage_rate = Some(rate(used, disk));
    new
}

/// How much of what the partitions should hold they do hold, if each knows its share.
/// TOTAL can't tell as well: it counts whole blocks of 4 KiB.
fn shares_percent(all: &[&CacheFigures]) -> Option<i32> {
    let mut sums = (0_u64, 0_u64);
    for figures in all {
        let share = figures.share_bytes?;
        sums.0 = sums.0.saturating_add(figures.cached_bytes.min(share));
        sums.1 = sums.1.saturating_add(share);
    }
    part(sums.0, sums.1)
}

fn partition_status(old: &CacheStatus, seen: &Seen, partition: i32) -> Option<PartitionStatus> {
    let mut known = old.partitions.iter();
    let known = known.find(|known| known.partition == partition).cloned();
    let figures = seen
        .answers
        .get(&partition)
        .and_then(|answer| answer.cache.as_ref());
    let node = seen.pod(partition).and_then(|pod| pod.node.clone());
    if known.is_none() && figures.is_none() && node.is_none() {
        return None;
    }
    let mut known = known.unwrap_or_default();
    known.partition = partition;
    known.node = node.or(known.node);
    if let Some(figures) = figures {
        known.cached = Some(size(figures.cached_bytes));
        let share = figures.share_bytes;
        known.percent = share.and_then(|share| part(figures.cached_bytes.min(share), share));
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
