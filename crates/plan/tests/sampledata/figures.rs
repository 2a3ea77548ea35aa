//! How much is cached, when not everybody says so.

use api::Operation;

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

/// As if no server had ever told one.
fn forget_shares(stage: &mut Stage) {
    let status = stage.set.as_mut().unwrap().status.as_mut().unwrap();
    for partition in &mut status.cache_status.as_mut().unwrap().partitions {
        partition.share_bytes = None;
    }
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
        forget_shares(stage);
    });
    assert_eq!(percent(&stage.settle()), Some(75));
}

#[test]
fn a_new_pod_need_not_know_what_the_last_one_was_given() {
    let stage = quarters().change(|stage| {
        for server in stage.servers.values_mut() {
            server.figures.total.as_mut().unwrap().bytes = 16 << 20;
            server.figures.share_bytes = None;
        }
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), Some(100));
    let cache = stage.status().cache_status.clone().unwrap();
    let known = |known: &api::PartitionStatus| (known.percent, known.share_bytes);
    let partitions: Vec<_> = cache.partitions.iter().map(known).collect();
    assert_eq!(partitions, [(Some(100), Some(1 << 20)); 4]);
}

#[test]
fn new_data_is_not_cached_by_what_was_cached_before() {
    let stage = quarters().says(Operation::Warmup, running());
    let stage = stage.with(job("a", Operation::Sync)).change(|stage| {
        for server in stage.servers.values_mut() {
            server.figures.total.as_mut().unwrap().bytes = 16 << 20;
        }
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), Some(25));
    let cache = stage.status().cache_status.as_ref().unwrap();
    assert!(cache.partitions.iter().all(|known| known.percent.is_none()));
    let stage = stage.turns(succeeded()).change(|stage| {
        for server in stage.servers.values_mut() {
            let figures = &mut server.figures;
            (figures.cached_bytes, figures.share_bytes) = (3 << 20, Some(4 << 20));
        }
    });
    assert_eq!(percent(&stage.settle()), Some(75));
}

#[test]
fn what_was_removed_is_no_share_of_a_new_pod() {
    let stage = quarters().change(|stage| {
        for server in stage.servers.values_mut() {
            server.figures.total.as_mut().unwrap().bytes = 2 << 20;
            (server.figures.cached_bytes, server.figures.share_bytes) = (1 << 19, None);
        }
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), Some(50), "as long as nobody says why");
    let stage = stage.with(job("a", Operation::Rmr).removes(&["b"]));
    assert_eq!(percent(&stage.settle()), Some(100));
}

#[test]
fn how_much_of_an_unknown_amount_is_unknown() {
    let stage = quarters().change(|stage| {
        for server in stage.servers.values_mut() {
            (server.figures.total, server.figures.share_bytes) = (None, None);
        }
        forget_shares(stage);
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
        forget_shares(stage);
    });
    let stage = stage.settle();
    assert_eq!(percent(&stage), Some(75));
    let cache = stage.status().cache_status.clone().unwrap();
    assert_eq!(cache.total_files.as_deref(), Some("1,284"));
}
