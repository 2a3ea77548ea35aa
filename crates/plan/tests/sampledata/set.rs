//! The way of a set from nothing to Ready, and what it waits for.

use api::{Operation, SampleSetPhase};
use k8s_openapi::api::core::v1::Toleration;
use plan::Urgency;
use plan::sampleset::{Child, Kind, refuse, urgency};

use crate::support::*;

#[test]
fn the_set_of_the_tutorial_becomes_ready_through_every_phase() {
    use SampleSetPhase::*;
    let stage = stage(set("imagenet")).settle();
    let phases = [Bound, Mount, Syncing, PartialReady, Ready].map(Some);
    assert_eq!(stage.phases[1..], phases);
    let cache = stage.status().cache_status.clone().unwrap();
    assert_eq!(cache.total_size.as_deref(), Some("58 MiB"));
    assert_eq!(cache.total_files.as_deref(), Some("1,284"));
    assert_eq!(cache.cached_size.as_deref(), Some("58 MiB"));
    assert_eq!(cache.cached_percent, Some(100));
    assert_eq!(cache.disk_avail.as_deref(), Some("12 GiB"));
    assert_eq!(cache.disk_usage_rate.as_deref(), Some("40.0%"));
    assert_eq!(cache.partitions[0].node.as_deref(), Some("node-0"));
    assert_eq!(cache.partitions[0].percent, Some(100));
    let runtime = stage.status().runtime_status.clone().unwrap();
    assert_eq!(runtime.runtime_ready.as_deref(), Some("1/1"));
    assert_eq!(stage.seen.labelled_nodes["node-0"], "imagenet-runtime-0");
    assert_eq!(stage.posted(0), [Operation::Sync, Operation::Warmup]);
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_settled_set_asks_for_nothing_and_never_wakes() {
    let stage = stage(set("imagenet").partitions(3)).settle();
    let plan = stage.plan_set();
    assert!(plan.is_idle(), "{plan:#?}");
    assert_eq!(plan.wake_at, None);
    assert_eq!(Some(&plan.status), stage.set().status.as_ref());
    assert_eq!(urgency(Some(stage.status()), &plan.status), Urgency::Never);
}

#[test]
fn the_finalizer_comes_before_everything_else() {
    let mut set = set("imagenet");
    set.metadata.finalizers = Some(vec![
        "paddlepaddle.org/sampleset-imagenet".to_owned(),
        "somebody/else".to_owned(),
    ]);
    let plan = stage(set).plan_set();
    let finalizers = ["somebody/else", "batch.paddlepaddle.org/sampleset"];
    assert_eq!(plan.finalizers.unwrap(), finalizers);
    assert!(plan.created.is_empty() && plan.server_secret.is_none());
}

#[test]
fn without_the_driver_a_set_says_so_and_looks_again() {
    let stage = stage(set("imagenet"))
        .change(|stage| stage.seen.has_csi_driver = false)
        .settle();
    assert_eq!(stage.phase(), None);
    let (reason, message) = stage.told("Bound");
    assert_eq!(reason, "NoCsiDriver");
    assert!(
        message.contains("install the JuiceFS CSI driver"),
        "{message}"
    );
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
    let stage = stage
        .change(|stage| stage.seen.has_csi_driver = true)
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn a_missing_secret_is_waited_for_and_read_again() {
    let stage = stage(set("imagenet"))
        .change(|stage| stage.secrets.clear())
        .settle();
    assert_eq!(stage.told("Bound").0, "SecretMissing");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
    let lacking = secret(&REDIS[..3]);
    let stage = stage.change(|stage| drop(stage.secrets.insert("imagenet".to_owned(), lacking)));
    let stage = stage.after(10);
    let (reason, message) = stage.told("Bound");
    assert_eq!(reason, "SecretKeyMissing");
    assert!(message.contains("has no metaurl"), "{message}");
    let stage =
        stage.change(|stage| drop(stage.secrets.insert("imagenet".to_owned(), secret(&REDIS))));
    assert_eq!(stage.after(10).phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn no_secret_is_read_once_the_set_is_ready() {
    let stage = stage(set("imagenet")).settle();
    let needed =
        plan::sampleset::secrets_needed(stage.set(), &stage.seen, &stage.settings, stage.now);
    assert_eq!(needed, plan::sampleset::SecretsNeeded::default());
}

#[test]
fn a_name_that_is_taken_is_a_condition_and_never_adopted() {
    let stage = stage(set("imagenet"))
        .change(|stage| stage.seen.claim = Child::Foreign)
        .settle();
    let (reason, message) = stage.told("Bound");
    assert_eq!(reason, "NameTaken");
    assert!(
        message.contains("PersistentVolumeClaim imagenet"),
        "{message}"
    );
    assert!(stage.seen.volume.is_missing());
}

#[test]
fn a_set_without_a_bound_volume_or_with_a_pod_in_trouble_says_so() {
    let stage = stage(set("imagenet"))
        .change(|stage| stage.works = false)
        .settle();
    assert_eq!(stage.phase(), None);
    assert_eq!(stage.told("Bound").0, "VolumeNotBound");
    let stage = stage.change(|stage| {
        stage.seen.claim = Child::Ours(plan::sampleset::VolumeView {
            is_bound: true,
            ..Default::default()
        });
        let mut pod = runtime_pod(0);
        pod.is_ready = false;
        pod.node = None;
        pod.trouble = Some("not schedulable: 0/1 nodes are available".to_owned());
        stage.seen.pods.push(pod);
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Bound));
    let (reason, message) = stage.told("RuntimeReady");
    assert_eq!(reason, "PodInTrouble");
    assert!(
        message.contains("imagenet-runtime-0: not schedulable"),
        "{message}"
    );
}

#[test]
fn partitions_without_a_node_are_counted_and_it_is_said_what_helps() {
    let stage = stage(set("imagenet").partitions(4)).settle();
    let stage = stage.change(|stage| {
        for pod in stage.seen.pods.iter_mut().skip(2) {
            (pod.is_ready, pod.node, pod.ip) = (false, None, None);
            pod.trouble = Some("0/2 nodes are available".to_owned());
        }
    });
    let (reason, message) = stage.settle().told("RuntimeReady");
    assert_eq!(reason, "NodesMissing");
    let says = "no node for 2 of 4 partitions: 0/2 nodes are available; each needs one of its \
                own: add nodes (local: --nodes 4) or lower spec.partitions";
    assert_eq!(message, says);
}

#[test]
fn a_server_that_has_not_answered_yet_is_no_trouble() {
    let silent = |is_known: bool| {
        let stage = stage(set("imagenet")).says(Operation::Sync, running());
        let stage = stage.settle().change(|stage| {
            if is_known {
                stage.servers.get_mut(&0).unwrap().is_silent = true;
            } else {
                stage.seen.pods[0].ip = None;
                stage.servers.clear();
            }
        });
        let mut stage = stage;
        let plan = stage.plan_set();
        stage.apply_set(plan);
        stage.told("Synced").1
    };
    assert_eq!(silent(false), "imagenet-runtime-0 has not answered yet");
    assert_eq!(
        silent(true),
        "imagenet-runtime-0 does not answer: connection refused"
    );
}

#[test]
fn a_set_whose_volume_has_the_data_only_warms() {
    let stage = stage(set("imagenet").no_sync()).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.posted(0), [Operation::Warmup]);
    assert_eq!(stage.told("Synced").0, "NotWanted");
}

#[test]
fn a_full_disk_is_named_when_data_is_not_cached() {
    let on_disk = |cached: u64, avail: u64| {
        let stage = stage(set("imagenet")).settle();
        let stage = stage.change(|stage| {
            let figures = &mut stage.servers.get_mut(&0).unwrap().figures;
            (figures.cached_bytes, figures.disk_avail) = (cached, avail);
        });
        stage.settle().told("Warm").1
    };
    let told = on_disk(1 << 20, 2 << 30);
    assert_eq!(
        told,
        "the warmup has ended; 1% of the data is cached, because the disk of imagenet-runtime-0 has only 2.0 GiB of 20 GiB free and free-space-ratio keeps 10% of it free"
    );
    let told = on_disk(1 << 20, 12 << 30);
    assert_eq!(told, "the warmup has ended; 1% of the data is cached");
    let told = on_disk(58 << 20, 2 << 30);
    assert_eq!(told, "the warmup has ended; 100% of the data is cached");
}

#[test]
fn without_warmup_a_set_is_ready_after_the_sync() {
    let lazy = set("imagenet").edit(|spec| {
        spec.warmup = Some(api::Warmup {
            enabled: Some(false),
            ..api::Warmup::default()
        });
    });
    let stage = stage(lazy).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.posted(0), [Operation::Sync]);
    assert_eq!(stage.told("Warm").0, "NotWanted");
}

/// A volume that outlived its claim is bound to no other.
#[test]
fn a_claim_that_was_deleted_comes_back_with_another_volume() {
    let stage = stage(set("imagenet")).settle().change(|stage| {
        stage.seen.claim = Child::Missing;
        stage.seen.volume = Child::Ours(plan::sampleset::VolumeView {
            is_released: true,
            ..Default::default()
        });
    });
    let plan = stage.plan_set();
    assert_eq!(plan.deleted, [Kind::PersistentVolume]);
    let stage = stage.settle();
    assert_eq!(stage.told("Bound").0, "Bound");
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

/// All that does not make up the volume follows the spec all the same.
#[test]
fn servers_keep_the_caches_of_their_volume_and_follow_the_rest_of_the_spec() {
    let path = |path: &str| api::Cache {
        levels: vec![api::CacheLevel {
            path: Some(path.to_owned()),
            ..Default::default()
        }],
    };
    let made = set("imagenet").edit(|spec| spec.cache = Some(path("/mnt/a")));
    let stage = stage(made).settle();
    let stage = stage.edit(|set| {
        set.edit(|spec| {
            spec.cache = Some(path("/etc"));
            spec.tolerations = Some(vec![Toleration {
                key: Some("gpu".to_owned()),
                ..Default::default()
            }]);
        })
    });
    let patched = stage.plan_set().patched;
    let [servers] = patched.as_slice() else {
        panic!("{patched:?}");
    };
    let pod = &servers.value["spec"]["template"]["spec"];
    assert_eq!(pod["tolerations"][0]["key"], "gpu");
    let mounted = pod["volumes"].to_string();
    assert!(
        mounted.contains("/mnt/a") && !mounted.contains("/etc"),
        "{mounted}"
    );
    let stage = stage.settle().change(|stage| {
        stage.seen.stateful_set = Child::Missing;
        stage.seen.volume = Child::Missing;
    });
    let created = stage.plan_set().created;
    let made: Vec<String> = created.iter().map(|made| made.value.to_string()).collect();
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|made| made.contains("/mnt/a")), "{made:?}");
    assert!(!made.iter().any(|made| made.contains("/etc")), "{made:?}");
}

#[test]
fn changes_of_the_volume_are_not_applied_and_said_to_be_so() {
    let stage = stage(set("imagenet")).settle();
    let stage = stage
        .edit(|set| set.edit(|spec| spec.secret_ref = secret_ref("other")))
        .settle();
    assert_eq!(stage.told("SpecChangeIgnored").0, "VolumeExists");
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.status().volume.as_ref().unwrap().secret, "imagenet");
    let stage = stage
        .edit(|set| set.edit(|spec| spec.secret_ref = secret_ref("imagenet")))
        .settle();
    assert_eq!(stage.told("SpecChangeIgnored").0, "AsMade");
}

#[test]
fn figures_alone_may_wait_and_a_phase_may_not() {
    let stage = stage(set("imagenet")).settle();
    let old = stage.status().clone();
    let stage = stage.change(|stage| stage.servers.get_mut(&0).unwrap().figures.cached_bytes = 80);
    let new = stage.plan_set().status;
    assert_eq!(
        new.cache_status.as_ref().unwrap().cached_size.as_deref(),
        Some("80 B")
    );
    assert_eq!(urgency(Some(&old), &new), Urgency::Eventually);
    assert_eq!(urgency(None, &new), Urgency::Now);
}

#[test]
fn disks_alone_are_told_of_twice_a_minute() {
    let stage = stage(set("imagenet")).settle().change(|stage| {
        stage.servers.get_mut(&0).unwrap().figures.disk_avail = 5 << 30;
    });
    let plan = stage.plan_set();
    assert_eq!(plan.status, *stage.status());
    assert_eq!(plan.wake_at, Some(now() + seconds(30)));
    let stage = stage.after(30).settle();
    let told = stage.status().cache_status.clone().unwrap();
    assert_eq!(told.disk_avail.as_deref(), Some("5.0 GiB"));
    let stage = stage.change(|stage| {
        stage.servers.get_mut(&0).unwrap().figures.disk_used += 1 << 30;
    });
    let told = stage.plan_set().status;
    assert_ne!(told, *stage.status(), "a twentieth of the disk");
}

#[test]
fn why_a_pod_does_not_start_is_looked_at_soon() {
    let stage = stage(set("imagenet")).settle();
    assert_eq!(stage.plan_set().wake_at, None);
    let stage = stage.change(|stage| stage.seen.pods[0].is_ready = false);
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(3)));
}

#[test]
fn why_no_pod_is_made_is_looked_at_soon_and_quoted() {
    let stage = stage(set("imagenet").partitions(2)).settle();
    let stage = stage.change(|stage| {
        stage.works = false;
        stage.seen.pods.truncate(1);
    });
    let mut stage = stage.settle();
    assert_eq!(stage.told("RuntimeReady").0, "RuntimeMissing");
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(3)));
    let refusal = "create Pod imagenet-runtime-1 in StatefulSet imagenet-runtime failed error: \
                   pods \"imagenet-runtime-1\" is forbidden: exceeded quota: small";
    stage.seen.pod_refusal = Some(refusal.to_owned());
    let stage = stage.settle();
    let (reason, message) = stage.told("RuntimeReady");
    assert_eq!(reason, "PodRefused");
    let says = "1 of 2 runtime servers are ready; StatefulSet imagenet-runtime: ";
    assert_eq!(message, format!("{says}{refusal}"));
    assert_eq!(stage.plan_set().wake_at, Some(now() + seconds(10)));
    // What was seen while the pod was missing says nothing once it is there.
    let stage = stage.change(|stage| stage.seen.pods.push(runtime_pod(1)));
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.plan_set().wake_at, None);
}

#[test]
fn what_the_api_server_refuses_is_said_until_it_does_not() {
    let stage = stage(set("imagenet")).settle();
    let before = stage.status().clone();
    let mut status = before.clone();
    refuse(&mut status, stage.set(), Some("Service a: no"), now());
    let said = status
        .conditions
        .iter()
        .find(|said| said.type_ == "Refused");
    let said = said.map(|said| (said.reason.as_str(), said.message.as_str()));
    assert_eq!(said, Some(("ByApiServer", "Service a: no")));
    refuse(&mut status, stage.set(), None, now());
    assert_eq!(status, before);
}

#[test]
fn a_silent_server_is_named_and_its_figures_stay() {
    let stage = stage(set("imagenet")).settle();
    let stage = stage
        .change(|stage| stage.servers.get_mut(&0).unwrap().is_silent = true)
        .settle();
    let cache = stage.status().cache_status.clone().unwrap();
    assert_eq!(cache.total_size.as_deref(), Some("58 MiB"));
    assert_eq!(
        cache.error_massage.as_deref(),
        Some("imagenet-runtime-0: connection refused")
    );
}

#[test]
fn local_mode_gives_a_set_without_secret_a_volume_of_its_own() {
    let local = set("imagenet")
        .edit(|spec| spec.secret_ref = None)
        .source("file:///home/me/images");
    let stage = stage(local).change(|stage| {
        stage.settings.allow_local_paths = true;
        stage.settings.default_volume_dir = Some("/state/volumes".to_owned());
    });
    let stage = stage.settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(
        stage.status().volume.as_ref().unwrap().secret,
        "imagenet-volume"
    );
    let paths =
        "/state/volumes/paddle-system.imagenet/blocks:/state/volumes/paddle-system.imagenet";
    assert_eq!(
        stage
            .seen
            .stateful_set
            .ours()
            .unwrap()
            .local_paths
            .as_deref(),
        Some(paths)
    );
}

#[test]
fn a_secret_of_somebody_else_is_not_taken_for_that_of_a_local_volume() {
    let stage = stage(set("imagenet").edit(|spec| spec.secret_ref = None)).change(|stage| {
        stage.settings.allow_local_paths = true;
        stage.settings.default_volume_dir = Some("/state/volumes".to_owned());
        stage
            .secrets
            .insert("imagenet-volume".to_owned(), secret(&REDIS));
    });
    let stage = stage.settle();
    assert_eq!(stage.told("Bound").0, "NameTaken");
    assert!(stage.seen.volume.is_missing());
}
