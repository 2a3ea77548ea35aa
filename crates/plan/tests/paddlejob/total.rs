//! The plan is total: whatever is stored and seen, there is an answer, and it
//! touches nothing but what is seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{
    Condition, ConditionStatus, PaddleJob, PaddleJobSpec, PaddleJobStatus, Phase, PodReference,
    Role, RoleSpec, RoleStatus, SampleSetReference,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use plan::paddlejob::{
    Address, ConfigMapView, PodGroupView, PodPhase, PodView, PortHolder, SampleSetView, Seen,
    Settings, Training, Trouble, config_map, urgency,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::*;
use crate::template::any_json;

/// Numbers at which something might break.
fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        6 => 0..4,
        1 => select(&[i32::MIN, -1, 2001, i32::MAX - 1, i32::MAX][..]),
        1 => any::<i32>(),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (-200..200_i64).prop_map(|by| now() + seconds(by)),
        1 => select(&[Timestamp::MIN, Timestamp::MAX][..]),
    ]
}

/// Words that mean something, and words that do not.
fn word() -> impl Strategy<Value = String> {
    const WORDS: [&str; 10] = [
        "",
        "PodIP",
        "Service",
        "Host",
        "Always",
        "Never",
        "OnFailure",
        "OnCompletion",
        "Nerver",
        "é",
    ];
    prop_oneof![4 => select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn role() -> impl Strategy<Value = Role> {
    select(&Role::ALL[..])
}

fn phase() -> impl Strategy<Value = Phase> {
    use Phase::*;
    const PHASES: [Phase; 10] = [
        Pending,
        Starting,
        Running,
        Restarting,
        Scaling,
        Suspended,
        Completed,
        Failed,
        Terminating,
        Unknown,
    ];
    select(&PHASES[..])
}

fn role_spec() -> BoxedStrategy<RoleSpec> {
    let template = prop_oneof![
        4 => Just(template()),
        1 => any_json(),
    ];
    (
        number(),
        option::of(number()),
        option::of(number()),
        option::weighted(0.9, template),
    )
        .prop_map(|(replicas, requests, limits, template)| RoleSpec {
            replicas,
            requests,
            limits,
            template: template.map(Into::into),
        })
        .boxed()
}

fn spec() -> BoxedStrategy<PaddleJobSpec> {
    let roles = (
        option::of(role_spec()),
        option::weighted(0.9, role_spec()),
        option::weighted(0.1, role_spec()),
    );
    let words = (option::of(word()), option::of(word()));
    let numbers = (
        option::of(-1..4),
        option::weighted(0.1, number()),
        option::of(number()),
        option::of(prop_oneof![any::<i64>(), 0..100_i64]),
        option::of(number()),
    );
    let rest = (
        option::of(any::<bool>()),
        option::weighted(0.3, prop_oneof![Just("/data".to_owned()), any::<String>()]),
    );
    (roles, words, numbers, rest)
        .prop_map(|(roles, words, numbers, rest)| PaddleJobSpec {
            ps: roles.0,
            worker: roles.1,
            heter: roles.2,
            clean_pod_policy: words.0,
            intranet: words.1,
            with_gloo: numbers.0,
            elastic: numbers.1,
            backoff_limit: numbers.2,
            active_deadline_seconds: numbers.3,
            ttl_seconds_after_finished: numbers.4,
            suspend: rest.0,
            scheduling_policy: None,
            sample_set_ref: rest.1.map(|mount_path| SampleSetReference {
                name: Some("imagenet".to_owned()),
                mount_path,
                ..SampleSetReference::default()
            }),
        })
        .boxed()
}

fn pod_group() -> impl Strategy<Value = PodGroupView> {
    let phase = select(&["", "Pending", "Inqueue", "Running", "Unknown", "x"][..]);
    (0..6, phase, option::of(any::<String>())).prop_map(|(min_member, phase, message)| {
        PodGroupView {
            min_member,
            phase: Some(phase.to_owned()),
            message,
            ..PodGroupView::default()
        }
    })
}

fn sample_set() -> impl Strategy<Value = SampleSetView> {
    use api::SampleSetPhase::{Mount, PartialReady, Ready};
    let phase = option::of(select(&[Mount, PartialReady, Ready][..]));
    let percent = option::of(number());
    let all = (
        phase,
        percent,
        number(),
        option::of(number()),
        any::<bool>(),
    );
    all.prop_map(
        |(phase, cached_percent, partitions, replicas, is_going)| SampleSetView {
            phase,
            cached_percent,
            partitions,
            replicas,
            is_going,
        },
    )
}

fn reference() -> impl Strategy<Value = PodReference> {
    let name = prop_oneof![
        4 => (role(), 0..4).prop_map(|(role, rank)| plan::names::pod("a", role, rank)),
        1 => any::<String>(),
    ];
    (name, 0..3, any::<bool>()).prop_map(|(name, uid, succeeded)| PodReference {
        kind: None,
        namespace: None,
        name,
        uid: format!("uid-{uid}-é"),
        succeeded,
    })
}

fn role_status() -> BoxedStrategy<RoleStatus> {
    (number(), number(), prop::collection::vec(reference(), 0..4))
        .prop_map(|(replicas, count, refs)| RoleStatus {
            replicas,
            pending: count,
            succeeded: count,
            refs,
            ..RoleStatus::default()
        })
        .boxed()
}

fn status() -> BoxedStrategy<PaddleJobStatus> {
    let roles = (
        option::of(role_status()),
        option::of(role_status()),
        option::weighted(0.1, role_status()),
    );
    let times = (option::of(time()), option::of(time()));
    let numbers = (
        option::of(number()),
        option::of(number()),
        any::<Option<i64>>(),
    );
    (option::of(phase()), roles, times, numbers, any::<String>())
        .prop_map(|(phase, roles, times, numbers, message)| PaddleJobStatus {
            phase,
            ps: roles.0,
            worker: roles.1,
            heter: roles.2,
            start_time: times.0.map(Time),
            completion_time: times.1.map(Time),
            restarts: numbers.0,
            attempt: numbers.1,
            observed_generation: numbers.2,
            conditions: [("Running", ""), ("Scheduled", "BackOff")]
                .map(|(type_, reason)| Condition {
                    type_: type_.to_owned(),
                    status: ConditionStatus::Unknown,
                    reason: reason.to_owned(),
                    message: message.clone(),
                    last_transition_time: Time(now()),
                    observed_generation: None,
                })
                .into(),
            ..PaddleJobStatus::default()
        })
        .boxed()
}

fn any_job() -> BoxedStrategy<PaddleJob> {
    let meta = (
        prop_oneof![4 => Just("a".to_owned()), 1 => any::<String>()],
        option::weighted(
            0.9,
            prop_oneof![Just("0a1b2c3d-1".to_owned()), any::<String>()],
        ),
        any::<Option<i64>>(),
        option::weighted(0.1, time()),
        any::<bool>(),
    );
    (meta, spec(), option::weighted(0.8, status()))
        .prop_map(|(meta, spec, status)| PaddleJob {
            metadata: ObjectMeta {
                name: Some(meta.0),
                uid: meta.1,
                generation: meta.2,
                deletion_timestamp: meta.3.map(Time),
                finalizers: meta
                    .4
                    .then(|| vec!["finalizers.paddlepaddle.org".to_owned()]),
                ..ObjectMeta::default()
            },
            spec,
            status,
        })
        .boxed()
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        any::<String>().prop_map(Trouble::Unschedulable),
        any::<String>().prop_map(Trouble::Disrupted),
        any::<String>().prop_map(Trouble::Other),
        (any::<String>(), any::<String>(), any::<String>())
            .prop_map(|(container, reason, message)| Trouble::Waiting(container, reason, message)),
        (any::<String>(), any::<i32>()).prop_map(|(message, code)| Trouble::Exited {
            container: "paddle".to_owned(),
            code,
            reason: "Error".to_owned(),
            message,
        }),
    ]
}

fn any_pod() -> BoxedStrategy<PodView> {
    use PodPhase::*;
    const PHASES: [PodPhase; 5] = [Pending, Running, Succeeded, Failed, Unknown];
    let address = prop_oneof![
        any::<u32>().prop_map(|ip| Address::V4(ip.into())),
        Just(Address::V6Only),
    ];
    let identity = (role(), prop_oneof![8 => 0..4, 1 => any::<i32>()], 0..3);
    let making = (
        option::of(number()),
        option::of(any::<String>()),
        option::of(any::<String>()),
        option::of("[0-4]:[0-4]"),
        any::<Option<u16>>(),
    );
    let state = (
        select(&PHASES[..]),
        option::of("[a-c]"),
        option::of(address),
        any::<[bool; 3]>(),
    );
    let ending = (
        option::of(time()),
        option::of(time()),
        any::<Option<i64>>(),
        option::of(trouble()),
    );
    (identity, making, state, ending)
        .prop_map(|(identity, making, state, ending)| PodView {
            name: plan::names::pod("a", identity.0, identity.1),
            uid: format!("uid-{}-é", identity.2),
            role: identity.0,
            rank: identity.1,
            attempt: making.0,
            key: making.1,
            is_in_gang: making.2.is_some(),
            elastic_range: making.3,
            host_port: making.4,
            woken: making.2,
            phase: state.0,
            node: state.1,
            address: state.2,
            ready: state.3[0],
            started: state.3[1],
            waits: state.3[2],
            created: ending.0,
            deleted_at: ending.1,
            active_deadline: ending.2,
            trouble: ending.3.map(Box::new),
        })
        .boxed()
}

fn any_seen() -> BoxedStrategy<Seen> {
    const KEYS: [&str; 5] = [
        "PADDLE_PORT",
        "PADDLE_TRAINER_ENDPOINTS",
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "PADDLE_OPERATOR_0a1b2c3d_0_1",
        "OTHER",
    ];
    let key = select(&KEYS[..]).prop_map(str::to_owned);
    let value = prop_oneof![
        Just("40000".to_owned()),
        Just("a:1,b:2".to_owned()),
        any::<String>(),
    ];
    let data = prop::collection::btree_map(key, value, 0..4);
    let name = || (role(), 0..4).prop_map(|(role, rank)| plan::names::pod("a", role, rank));
    (
        prop::collection::vec(any_pod(), 0..6),
        prop::collection::btree_set(name(), 0..3),
        prop::collection::btree_set("[a-c]", 0..3),
        option::of(data),
        prop::collection::btree_set(name(), 0..3),
        prop::collection::btree_set("[a-c]", 0..3),
        option::of(sample_set()),
        option::of(pod_group()),
        prop::collection::vec(("[a-z0-9]{1,4}", any::<u16>()), 0..4),
        option::of(any::<bool>()),
    )
        .prop_map(
            |(
                pods,
                creating,
                succeeded,
                data,
                services,
                lost_nodes,
                sample_set,
                pod_group,
                ports,
                is_complete,
            )| Seen {
                pods: pods.into_iter().map(Arc::new).collect(),
                creating,
                succeeded,
                config_map: data.map(|data| Arc::new(ConfigMapView { data })),
                services,
                lost_nodes,
                sample_set,
                pod_group: pod_group.map(Arc::new),
                port_holders: { ports.into_iter() }
                    .map(|(uid, port)| PortHolder {
                        has_begun: port % 2 == 0,
                        uid,
                        port,
                    })
                    .collect(),
                training: is_complete.map(|is_complete| match is_complete {
                    true => Training::Complete,
                    false => Training::Incomplete,
                }),
                told_etcd: None,
            },
        )
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 800,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn there_is_always_an_answer(job in any_job(), seen in any_seen(), waits: bool, volcano: bool, etcd: bool, at in time()) {
        let settings = Settings {
            init_image: waits.then(|| INIT_IMAGE.to_owned()),
            volcano,
            etcd: etcd.then(|| "etcd:2379".to_owned()).into_iter().collect(),
            ..Settings::default()
        };
        let plan = plan::paddlejob::plan(&job, &seen, &settings, at);
        // What is touched is seen, by name and uid.
        let seen_pods: BTreeSet<(&str, &str)> = seen
            .pods
            .iter()
            .map(|pod| (pod.name.as_str(), pod.uid.as_str()))
            .collect();
        for pod in plan.pods_deleted.iter().chain(&plan.pods_stopped) {
            prop_assert!(seen_pods.contains(&(pod.name.as_str(), pod.uid.as_str())));
        }
        for pod in &plan.pods_woken {
            prop_assert!(seen_pods.contains(&(pod.name.as_str(), pod.uid.as_str())));
        }
        prop_assert!(plan.services_deleted.iter().all(|name| seen.services.contains(name)));
        // An end is an end.
        let before = job.status.as_ref().and_then(|status| status.phase);
        if let Some(phase) = before.filter(|phase| phase.is_terminal()) {
            prop_assert_eq!(plan.status.phase, Some(phase));
            prop_assert!(plan.pods_created.is_empty() && plan.services_created.is_empty());
            prop_assert!(plan.config_map.is_none());
        }
        // Nothing is made twice, or beyond what a job may have.
        let created: BTreeSet<String> = plan.created().into_iter().collect();
        prop_assert_eq!(created.len(), plan.pods_created.len());
        prop_assert!(created.len() <= 4000);
        prop_assert!(created.is_disjoint(&seen.creating));
        if let Some(data) = &plan.config_map {
            prop_assert_eq!(&config_map(&job, data)["metadata"]["name"], &serde_json::json!(job.metadata.name));
        }
        for condition in &plan.status.conditions {
            let is_ours = !["Running", "Scheduled"].contains(&condition.type_.as_str());
            prop_assert!(!is_ours || condition.message.len() <= 2048);
        }
        urgency(job.status.as_ref(), &plan);
        // The answer is the same when it is asked for again.
        prop_assert_eq!(plan::paddlejob::plan(&job, &seen, &settings, at), plan);
    }

    /// A status that was written asks for no second one, with nothing new seen.
    #[test]
    fn a_status_is_written_once(job in any_job(), seen in any_seen(), at in time()) {
        let mut job = job;
        let mut last = None;
        // A verdict changes the course, and the course may change once more
        // (a limit is reached); then it is told.
        for _ in 0..6 {
            let plan = plan::paddlejob::plan(&job, &seen, &settings(), at);
            if job.status.as_ref() == Some(&plan.status) {
                return Ok(());
            }
            last = Some(plan.status.clone());
            job.status = Some(plan.status);
        }
        let next = plan::paddlejob::plan(&job, &seen, &settings(), at).status;
        prop_assert_eq!(last, Some(next));
    }
}
