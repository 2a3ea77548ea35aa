//! Anything that may be stored or seen, likely things more often than others.

use api::{
    AttemptStatus, CacheStatus, Operation, OperationStatus, PartitionStatus, SampleJob,
    SampleJobPhase, SampleJobStatus, SampleSet, SampleSetPhase, SampleSetStatus, SyncOptions,
    VolumeStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::operation::{Answer, CacheFigures, Done, Listing, State, Total};
use plan::samplejob::Run;
use plan::sampleset::{
    Child, RuntimePod, SecretSeen, Seen, ServiceView, StatefulSetView, VolumeView,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::*;

pub fn number() -> impl Strategy<Value = i32> {
    prop_oneof![6 => 0..4, 1 => select(&[i32::MIN, -1, 2001, i32::MAX][..])]
}

fn long() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..4_i64, 1 => any::<i64>()]
}

pub fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (-400..400_i64).prop_map(|by| now() + seconds(by)),
        1 => select(&[Timestamp::MIN, Timestamp::MAX][..]),
    ]
}

fn word() -> impl Strategy<Value = String> {
    const WORDS: [&str; 12] = [
        "",
        "imagenet",
        "a",
        "../x",
        "/mnt/a",
        "s3://bucket/x",
        "file:///data",
        "é",
        "0a1b2c3d-1-sync",
        "uid-a",
        SET_UID,
        "* * * * *",
    ];
    prop_oneof![6 => select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    select(&[Sync, Warmup, Clear, Rmr][..])
}

fn state() -> impl Strategy<Value = State> {
    let done = (long(), long(), long(), any::<u32>()).prop_map(|(files, bytes, count, crc)| {
        State::Succeeded(Done {
            listing: Some(Listing { count, crc }),
            files,
            bytes,
            cached_bytes: bytes,
        })
    });
    prop_oneof![
        Just(State::NotFound),
        Just(State::Queued),
        Just(State::NeedsCredentials),
        Just(State::Cancelled),
        Just(running()),
        Just(failed("X", "x")),
        option::of(Just("x".to_owned())).prop_map(|message| State::Unreachable { message }),
        done,
    ]
}

fn lock() -> impl Strategy<Value = OperationStatus> {
    let rest = (
        option::of(operation()),
        option::of(number()),
        option::of(word()),
    );
    (word(), operation(), word(), rest).prop_map(|(id, type_, owner, rest)| OperationStatus {
        id,
        type_,
        owner,
        follow_up: rest.0,
        partitions: rest.1,
        key: rest.2,
    })
}

fn attempt() -> impl Strategy<Value = AttemptStatus> {
    (
        option::of(word()),
        option::of(long()),
        number(),
        option::of(time()),
    )
        .prop_map(|(key, generation, failures, time)| AttemptStatus {
            key,
            generation,
            failures,
            time: time.map(Time),
        })
}

fn status() -> BoxedStrategy<SampleSetStatus> {
    use SampleSetPhase::*;
    const PHASES: [SampleSetPhase; 7] = [
        Bound,
        Mount,
        Syncing,
        SyncFailed,
        PartialReady,
        Ready,
        Unknown,
    ];
    let partition = (
        number(),
        option::of(word()),
        option::of(word()),
        option::of(any::<i64>()),
    )
        .prop_map(|(partition, node, warmed, share_bytes)| PartitionStatus {
            partition,
            node,
            warmed,
            share_bytes,
            ..PartitionStatus::default()
        });
    (
        option::of(select(&PHASES[..])),
        option::of(lock()),
        option::of(attempt()),
        option::of(attempt()),
        option::of(word()),
        vec(partition, 0..4),
        option::of(long()),
    )
        .prop_map(
            |(phase, operation, sync, warmup, volume, partitions, started)| SampleSetStatus {
                phase,
                operation,
                sync,
                warmup,
                operations_started: started,
                volume: volume.map(|secret| VolumeStatus {
                    key: secret.clone(),
                    secret,
                    ..VolumeStatus::default()
                }),
                cache_status: Some(CacheStatus {
                    partitions,
                    ..CacheStatus::default()
                }),
                ..SampleSetStatus::default()
            },
        )
        .boxed()
}

pub fn any_set() -> BoxedStrategy<SampleSet> {
    (
        option::of(number()),
        option::of(word()),
        option::of(any::<bool>()),
        option::of(status()),
        option::weighted(0.2, time()),
        any::<bool>(),
        word(),
    )
        .prop_map(
            |(partitions, uri, no_sync, status, deleted, finalized, name)| {
                let mut set = set("imagenet").edit(|spec| {
                    spec.partitions = partitions;
                    spec.no_sync = no_sync;
                    spec.source.as_mut().unwrap().uri = uri;
                });
                if !name.is_empty() {
                    set.metadata.name = Some(name);
                }
                set.status = status;
                set.metadata.deletion_timestamp = deleted.map(Time);
                set.metadata.finalizers =
                    finalized.then(|| vec![api::labels::SET_FINALIZER.to_owned()]);
                set
            },
        )
        .boxed()
}

fn child<T: Clone + std::fmt::Debug + 'static>(
    ours: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Child<T>> {
    prop_oneof![
        Just(Child::Missing),
        Just(Child::Foreign),
        ours.prop_map(Child::Ours),
    ]
    .boxed()
}

fn volume() -> impl Strategy<Value = VolumeView> {
    any::<(bool, bool, bool)>().prop_map(|(is_bound, is_released, is_going)| VolumeView {
        is_bound,
        is_released,
        is_going,
    })
}

pub fn pod() -> impl Strategy<Value = RuntimePod> {
    (
        number(),
        option::of(word()),
        any::<bool>(),
        option::of(word()),
        option::weighted(0.2, time()),
        any::<bool>(),
    )
        .prop_map(
            |(partition, node, is_ready, trouble, deleted_at, is_node_lost)| RuntimePod {
                node,
                is_ready,
                trouble,
                deleted_at,
                is_running: is_ready,
                is_node_lost,
                ..runtime_pod(partition)
            },
        )
}

pub fn answer() -> impl Strategy<Value = Answer> {
    const NUMBERS: [u64; 4] = [0, 1, 58 << 20, u64::MAX];
    let figures = (
        option::of(select(&NUMBERS[..])),
        select(&NUMBERS[..]),
        select(&NUMBERS[..]),
        option::of(select(&NUMBERS[..])),
    )
        .prop_map(
            |(total, cached_bytes, disk_size, share_bytes)| CacheFigures {
                total: total.map(|bytes| Total {
                    bytes,
                    files: bytes,
                }),
                cached_bytes,
                disk_size,
                disk_used: disk_size,
                disk_avail: disk_size,
                share_bytes,
                error: None,
            },
        );
    (
        option::of(figures),
        option::weighted(0.1, word()),
        btree_map(word(), state(), 0..5),
    )
        .prop_map(|(cache, error, operations)| Answer {
            cache,
            error,
            operations,
        })
}

pub fn secret_seen() -> impl Strategy<Value = Option<SecretSeen>> {
    let present = |count: usize| Some(SecretSeen::Present(secret(&REDIS[..count])));
    prop_oneof![
        Just(None),
        Just(Some(SecretSeen::Missing)),
        (0..5_usize).prop_map(present),
    ]
}

pub fn any_seen() -> BoxedStrategy<Seen> {
    let stateful_set = (
        option::of(word()),
        option::of(word()),
        number(),
        any::<bool>(),
    )
        .prop_map(
            |(applied, local_paths, replicas, is_going)| StatefulSetView {
                applied,
                local_paths,
                replicas,
                is_going,
            },
        );
    let service = option::of(word()).prop_map(|applied| ServiceView {
        applied,
        is_going: false,
    });
    let children = (
        child(Just(())),
        child(volume()),
        child(volume()),
        child(service),
        child(stateful_set),
    );
    let rest = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        option::of(word()),
    );
    (
        children,
        vec(pod(), 0..4),
        btree_map(word(), word(), 0..4),
        btree_map(number(), answer(), 0..4),
        (secret_seen(), secret_seen()),
        rest,
    )
        .prop_map(
            |(children, pods, labelled_nodes, answers, secrets, rest)| Seen {
                volume_secret: secrets.0,
                source_secret: secrets.1,
                server_secret: children.0,
                volume: children.1,
                claim: children.2,
                service: children.3,
                stateful_set: children.4,
                pods,
                pod_refusal: rest.3,
                labelled_nodes,
                has_csi_driver: rest.0,
                everything_goes: rest.1,
                jobs: Default::default(),
                owner_is_gone: rest.2,
                answers,
            },
        )
        .boxed()
}

pub fn any_job() -> BoxedStrategy<SampleJob> {
    use SampleJobPhase::*;
    const PHASES: [SampleJobPhase; 6] = [Pending, Running, Succeeded, Failed, Scheduled, Unknown];
    let status = (
        option::of(select(&PHASES[..])),
        option::of(time()),
        option::of(any::<bool>()),
    )
        .prop_map(|(phase, time, terminates)| SampleJobStatus {
            phase,
            terminates,
            completion_time: time.map(Time),
            ..SampleJobStatus::default()
        });
    (
        option::of(operation()),
        option::weighted(0.3, word()),
        (option::of(word()), option::of(word()), option::of(word())),
        (
            option::of(long()),
            option::of(number()),
            option::of(number()),
        ),
        option::of(any::<bool>()),
        option::of(status),
        option::of(time()),
    )
        .prop_map(|(type_, schedule, words, numbers, flag, status, created)| {
            let mut job = job("a", Operation::Sync).edit(|spec| {
                spec.type_ = type_;
                spec.schedule = schedule;
                spec.time_zone = words.0;
                spec.terminate = flag;
                spec.starting_deadline_seconds = numbers.0;
                spec.ttl_seconds_after_finished = numbers.1;
                spec.failed_jobs_history_limit = numbers.2;
                spec.sync_options = Some(SyncOptions {
                    source: words.1,
                    destination: words.2,
                    ..SyncOptions::default()
                });
            });
            job.status = status;
            job.metadata.creation_timestamp = created.map(Time);
            job
        })
        .boxed()
}

pub fn run() -> impl Strategy<Value = Run> {
    use SampleJobPhase::*;
    (
        word(),
        option::of(select(&[Pending, Running, Succeeded, Failed][..])),
        option::of(time()),
    )
        .prop_map(|(name, phase, ended)| Run {
            uid: name.clone(),
            name,
            due: None,
            created: ended,
            phase,
            ended,
            is_going: false,
        })
}
