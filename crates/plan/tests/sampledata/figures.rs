//! How much is cached, when not everybody says so.

use crate::support::*;

fn percent(stage: &Stage) -> Option<i32> {
    let cache = stage.status().cache_status.as_ref();
    cache.and_then(|cache| cache.cached_percent)
}

/// Four partitions, each of which holds its quarter of 4 MiB.
fn quarters() -> Stage {
    let stage = stage(set("imagenet").partitions(4)).settle();
    let stage = stage.change(|stage| {
        for server in stage.servers.values_mut() {
            server.figures.total.as_mut().unwrap().bytes = 4 << 20;
            server.figures.cached_bytes = 1 << 20;
            server.figures.share_bytes = Some(1 << 20);
        }
    });
    stage.settle()
}

#[test]
fn what_partitions_without_a_server_should_hold_is_not_cached() {
    let stage = quarters();
    assert_eq!(percent(&stage), Some(100));
    let stage = stage.change(|stage| {
        for pod in stage.seen.pods.iter_mut().skip(2) {
            pod.is_ready = false;
        }
        stage.servers.retain(|partition, _| *partition < 2);
    });
    assert_eq!(percent(&stage.settle()), Some(50));
}

#[test]
fn a_partition_that_has_not_been_warmed_yet_counts_as_well() {
    let stage = quarters().change(|stage| {
        let figures = &mut stage.servers.get_mut(&3).unwrap().figures;
        (figures.cached_bytes, figures.share_bytes) = (0, None);
    });
    assert_eq!(percent(&stage.settle()), Some(75));
}

#[test]
fn how_much_of_an_unknown_amount_is_unknown() {
    let stage = quarters().change(|stage| {
        for server in stage.servers.values_mut() {
            (server.figures.total, server.figures.share_bytes) = (None, None);
        }
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), None);
    let cache = stage.status().cache_status.clone().unwrap();
    assert_eq!(cache.cached_size.as_deref(), Some("4.0 MiB"));
    assert_eq!(
        cache.total_size.as_deref(),
        Some("4.0 MiB"),
        "as last counted"
    );
}

#[test]
fn whoever_has_counted_the_data_speaks_for_all() {
    let stage = quarters().change(|stage| {
        let figures = &mut stage.servers.get_mut(&0).unwrap().figures;
        (figures.total, figures.share_bytes) = (None, None);
        figures.cached_bytes = 0;
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), Some(75));
    let cache = stage.status().cache_status.clone().unwrap();
    assert_eq!(cache.total_files.as_deref(), Some("1,284"));
}
