//! Partitions come, go and move; what is cached follows them.

use api::{Operation, SampleJobPhase, SampleSetPhase};
use plan::operation::Task;
use plan::sampleset::RuntimePod;

use crate::support::*;

fn warmups(stage: &Stage, from: usize) -> Vec<(i32, i32, bool)> {
    let posts = stage.posts[from..]
        .iter()
        .filter_map(|post| match &post.task {
            Task::Warmup(task) => Some((task.partition, task.partitions, task.evict_others)),
            _ => None,
        });
    posts.collect()
}

/// The pod of partition 1.
fn second(stage: &mut Stage) -> &mut RuntimePod {
    let mut pods = stage.seen.pods.iter_mut();
    pods.find(|pod| pod.partition == 1).unwrap()
}

#[test]
fn every_partition_warms_its_own_share_and_evicts_nothing_the_first_time() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    assert_eq!(warmups(&stage, 0), [(0, 2, false), (1, 2, false)]);
    assert_eq!(
        stage
            .status()
            .runtime_status
            .as_ref()
            .unwrap()
            .runtime_ready
            .as_deref(),
        Some("2/2")
    );
}

#[test]
fn more_partitions_share_out_anew() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let from = stage.posts.len();
    let stage = stage.edit(|set| set.partitions(4)).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert!(stage.phases.contains(&Some(SampleSetPhase::PartialReady)));
    assert_eq!(
        warmups(&stage, from),
        [(0, 4, true), (1, 4, true), (2, 4, true), (3, 4, true)]
    );
    assert_eq!(stage.seen.labelled_nodes.len(), 4);
}

#[test]
fn a_warmup_that_has_lost_its_only_node_keeps_nobody_waiting() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let stage = stage.says(Operation::Warmup, running());
    // It moves, and the node that it moved to is gone too before it is warm.
    let stage = stage.change(|stage| second(stage).node = Some("node-9".to_owned()));
    let stage = stage.settle();
    let lock = stage.status().operation.as_ref();
    assert_eq!(lock.map(|lock| lock.type_), Some(Operation::Warmup));
    let stage = stage.change(|stage| {
        let pod = second(stage);
        (pod.node, pod.ip, pod.is_ready) = (None, None, false);
        stage.servers.remove(&1);
    });
    let stage = stage
        .says(Operation::Sync, succeeded())
        .with(job("a", Operation::Sync))
        .settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
}

#[test]
fn fewer_partitions_drop_what_they_hold_before_they_go() {
    let stage = stage(set("imagenet").partitions(4)).settle();
    let from = stage.posts.len();
    let stage = stage
        .says(Operation::Clear, running())
        .edit(|set| set.partitions(1))
        .settle();
    let cleared: Vec<i32> = stage.posts[from..]
        .iter()
        .map(|post| post.partition)
        .collect();
    assert_eq!(cleared, [1, 2, 3]);
    assert_eq!(
        stage.seen.stateful_set.ours().unwrap().replicas,
        4,
        "not before it is done"
    );
    let stage = stage.turns(succeeded()).settle();
    assert_eq!(stage.seen.stateful_set.ours().unwrap().replicas, 1);
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(warmups(&stage, from), [(0, 1, true)]);
    assert_eq!(stage.seen.labelled_nodes.len(), 1);
    assert_eq!(
        stage
            .status()
            .cache_status
            .as_ref()
            .unwrap()
            .partitions
            .len(),
        1
    );
}

#[test]
fn a_partition_that_moves_is_warmed_where_it_is_now_and_no_other() {
    let stage = stage(set("imagenet").partitions(3)).settle();
    let from = stage.posts.len();
    let stage = stage.change(|stage| {
        stage.servers.remove(&1);
        let pod = second(stage);
        pod.node = Some("node-9".to_owned());
        pod.uid = "pod-1b".to_owned();
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(warmups(&stage, from), [(1, 3, true)]);
    assert_eq!(
        stage.seen.labelled_nodes.get("node-9").unwrap(),
        "imagenet-runtime-1"
    );
    assert!(!stage.seen.labelled_nodes.contains_key("node-1"));
}

#[test]
fn a_missing_server_makes_the_set_partial_and_keeps_its_node() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let from = stage.posts.len();
    let stage = stage.change(|stage| {
        second(stage).is_ready = false;
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
    assert_eq!(stage.told("RuntimeReady").0, "RuntimeMissing");
    assert!(stage.seen.labelled_nodes.contains_key("node-1"));
    let stage = stage.change(|stage| {
        second(stage).is_ready = true;
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(warmups(&stage, from), [], "its cache was never lost");
}

#[test]
fn a_node_whose_label_is_not_as_it_should_be_is_named() {
    let upset = |upset: fn(&mut Stage)| {
        let mut stage = stage(set("imagenet").partitions(2)).settle().change(upset);
        let plan = stage.plan_set();
        stage.apply_set(plan);
        assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
        let (reason, message) = stage.told("RuntimeReady");
        assert_eq!(reason, "NodesNotLabelled");
        let stage = stage.settle();
        assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
        assert_eq!(stage.told("RuntimeReady").0, "AllReady");
        message
    };
    let lost = upset(|stage| {
        let nodes = &mut stage.seen.labelled_nodes;
        nodes.remove("node-1");
        nodes.insert("node-9".to_owned(), "imagenet-runtime-1".to_owned());
    });
    let says = "2 of 2 runtime servers are ready; node node-1 does not carry the label \
                paddlepaddle.org/juicefs-paddle-system.imagenet=imagenet-runtime-1 yet";
    assert_eq!(lost, says);
    let left = upset(|stage| {
        let nodes = &mut stage.seen.labelled_nodes;
        nodes.insert("node-9".to_owned(), "imagenet-runtime-1".to_owned());
    });
    let says = "2 of 2 runtime servers are ready; node node-9 still carries the label \
                paddlepaddle.org/juicefs-paddle-system.imagenet";
    assert_eq!(left, says);
}

#[test]
fn those_that_are_ready_are_warmed_without_waiting_for_the_rest() {
    let stage = stage(set("imagenet").partitions(2)).change(|stage| {
        let mut late = runtime_pod(1);
        late.is_ready = false;
        stage.seen.pods.push(late);
    });
    let stage = stage.settle();
    assert_eq!(warmups(&stage, 0), [(0, 2, false)]);
    assert_eq!(stage.phase(), Some(SampleSetPhase::PartialReady));
    let stage = stage.change(|stage| {
        stage
            .seen
            .pods
            .iter_mut()
            .for_each(|pod| pod.is_ready = true)
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(warmups(&stage, 0), [(0, 2, false), (1, 2, true)]);
}

#[test]
fn a_change_of_the_sampler_warms_anew() {
    let stage = stage(set("imagenet")).settle();
    let from = stage.posts.len();
    let stage = stage.edit(|set| {
        set.edit(|spec| {
            spec.warmup = Some(api::Warmup {
                strategy_name: Some(api::WarmupStrategy::Random),
                ..api::Warmup::default()
            });
        })
    });
    let stage = stage.settle();
    assert_eq!(warmups(&stage, from), [(0, 1, true)]);
}

#[test]
fn a_pod_on_a_lost_node_is_deleted_a_minute_after_its_time() {
    let stage = stage(set("imagenet")).settle();
    let lose = |stage: &mut Stage, ago: i64| {
        let pod = stage.seen.pods.first_mut().unwrap();
        pod.deleted_at = Some(now() - seconds(ago));
        pod.is_node_lost = true;
    };
    let stage = stage.change(|stage| lose(stage, 59));
    assert!(stage.plan_set().pods_deleted.is_empty());
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(1)));
    let stage = stage.change(|stage| lose(stage, 60));
    let plan = stage.plan_set();
    assert_eq!(plan.pods_deleted[0].uid, "pod-0");
    assert!(
        plan.events
            .iter()
            .any(|event| event.message.contains("node-0"))
    );
}
