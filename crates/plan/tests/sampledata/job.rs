//! What a SampleJob asks for, waits for and says.

use api::{Operation, SampleJobPhase, SyncOptions};
use plan::Urgency;
use plan::operation::{State, Task};
use plan::samplejob::urgency;

use crate::support::*;

fn ready() -> Stage {
    stage(set("imagenet").partitions(2)).settle()
}

#[test]
fn a_job_for_no_set_waits_and_says_so() {
    let mut stage = ready().with(job("a", Operation::Clear).edit(|spec| {
        spec.sample_set_ref.as_mut().unwrap().name = Some("other".to_owned());
    }));
    stage.step();
    let stage = stage.settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Pending));
    let (reason, message) = stage.job_told("a", "Waiting");
    assert_eq!(reason, "SampleSetMissing");
    assert!(message.contains("no SampleSet other"), "{message}");
}

#[test]
fn a_job_waits_until_the_volume_is_mounted() {
    let stage = stage(set("imagenet")).change(|stage| stage.works = false);
    let stage = stage.with(job("a", Operation::Sync)).settle();
    assert_eq!(stage.job_told("a", "Waiting").0, "SampleSetNotMounted");
}

#[test]
fn rmr_evicts_everywhere_removes_once_and_is_counted() {
    let stage = ready().says(Operation::Clear, running());
    let from = stage.posts.len();
    let stage = stage
        .with(job("a", Operation::Rmr).removes(&["./n01514859/"]))
        .settle();
    let posted = |stage: &Stage| {
        let posts = stage.posts[from..].iter();
        let posts = posts.map(|post| (post.partition, post.id.clone(), post.task.clone()));
        posts.collect::<Vec<_>>()
    };
    let paths = vec!["n01514859".to_owned()];
    let clear = Task::Clear {
        paths: paths.clone(),
    };
    assert_eq!(posted(&stage), [(1, "uid-a-evict".to_owned(), clear)]);
    let stage = stage.turns(succeeded()).settle();
    let rest = [
        (0, "uid-a".to_owned(), Task::Rmr { paths }),
        (1, "uid-a-recount".to_owned(), Task::Recount),
    ];
    assert_eq!(posted(&stage)[1..], rest);
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
}

#[test]
fn a_warmup_takes_what_it_does_not_set_from_the_set() {
    let random = set("imagenet").partitions(2).edit(|spec| {
        spec.warmup = Some(api::Warmup {
            strategy_name: Some(api::WarmupStrategy::Random),
            sampler: Some(api::Sampler {
                ranks_per_partition: Some(8),
                batch_size: Some(32),
                ..api::Sampler::default()
            }),
            ..api::Warmup::default()
        });
    });
    let options = api::WarmupOptions {
        sampler: Some(api::Sampler {
            epoch: Some(3),
            ..api::Sampler::default()
        }),
        partitions: Some(7),
        file: Some("train_list.txt".to_owned()),
        ..api::WarmupOptions::default()
    };
    let stage = stage(random).settle();
    let from = stage.posts.len();
    let stage =
        stage.with(job("a", Operation::Warmup).edit(|spec| spec.warmup_options = Some(options)));
    let stage = stage.settle();
    let Task::Warmup(task) = &stage.posts[from + 1].task else {
        panic!("no warmup");
    };
    assert_eq!((task.partition, task.partitions, task.replicas), (1, 2, 16));
    assert_eq!((task.batch_size, task.epoch, task.threads), (32, 3, 50));
    assert_eq!(task.order, api::SampleOrder::List);
    assert_eq!(task.strategy, api::WarmupStrategy::Random);
    assert!(
        stage
            .job_told("a", "OptionsIgnored")
            .1
            .contains("warmupOptions.partitions is 7")
    );
    assert!(
        stage
            .job("a")
            .status
            .as_ref()
            .unwrap()
            .message
            .as_deref()
            .unwrap()
            .contains("100% of")
    );
}

#[test]
fn a_sync_names_options_that_have_no_effect_and_passes_on_the_rest() {
    let options = SyncOptions {
        source: Some("bos://public.hkg.bcebos.com/imagenet".to_owned()),
        destination: Some("train/".to_owned()),
        http_port: Some(6070),
        threads: Some(3),
        ..SyncOptions::default()
    };
    let stage = ready();
    let from = stage.posts.len();
    let stage = stage.with(job("a", Operation::Sync).edit(|spec| {
        spec.sync_options = Some(options);
        spec.secret_ref = secret_ref("imagenet");
    }));
    let stage = stage.settle();
    let Task::Sync(task) = &stage.posts[from].task else {
        panic!("no sync");
    };
    assert_eq!(task.source, "bos://public.hkg.bcebos.com/imagenet/");
    assert_eq!(task.destination, "train/");
    assert_eq!(
        (task.options.threads, task.options.http_port),
        (Some(3), None)
    );
    assert!(
        stage
            .job_told("a", "OptionsIgnored")
            .1
            .contains("http-port is 6070")
    );
}

#[test]
fn what_can_not_work_fails_at_once_with_what_would_be_right() {
    for (path, says) in [
        ("../x", "'..' is not allowed"),
        ("/", "absolute"),
        ("", "empty"),
        ("a\nb", "line break"),
    ] {
        let stage = ready()
            .with(job("a", Operation::Rmr).removes(&[path]))
            .settle();
        let (reason, message) = stage.job_told("a", "Failed");
        assert_eq!(reason, "InvalidSpec");
        assert!(
            message.contains(says) && message.contains("rmrOptions.paths[0]"),
            "{message}"
        );
        assert!(
            stage
                .posted(0)
                .iter()
                .all(|posted| *posted != Operation::Rmr)
        );
    }
    let stage = ready().with(job("a", Operation::Rmr)).settle();
    assert!(
        stage
            .job_told("a", "Failed")
            .1
            .contains("at least one path")
    );
}

#[test]
fn a_path_with_spaces_and_quotes_is_an_ordinary_path() {
    let stage = ready()
        .with(job("a", Operation::Rmr).removes(&["it's \"mine\" $(x); ok"]))
        .settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
}

#[test]
fn a_refused_job_is_looked_at_again_when_it_was_corrected() {
    let stage = ready()
        .with(job("a", Operation::Rmr).removes(&["../x"]))
        .settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Failed));
    let stage = stage.change(|stage| {
        let corrected = stage.job("a").clone().removes(&["x"]);
        *stage.job_mut("a") = corrected;
    });
    let stage = stage.settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    assert_eq!(stage.job_told("a", "Failed").0, "Corrected");
}

#[test]
fn secrets_of_other_namespaces_and_managers_are_refused() {
    let foreign = job("a", Operation::Sync).edit(|spec| {
        spec.secret_ref = secret_ref("imagenet");
        spec.secret_ref.as_mut().unwrap().namespace = Some("kube-system".to_owned());
    });
    let managed = job("b", Operation::Sync).edit(|spec| {
        spec.sync_options = Some(SyncOptions {
            manager: Some("10.0.0.1".to_owned()),
            ..SyncOptions::default()
        });
    });
    let stage = ready().with(foreign).with(managed).settle();
    assert!(
        stage
            .job_told("a", "Failed")
            .1
            .contains("namespace is kube-system")
    );
    assert!(
        stage
            .job_told("b", "Failed")
            .1
            .contains("manager is not supported")
    );
}

#[test]
fn progress_is_summed_and_a_silent_server_named() {
    let stage = ready()
        .says(Operation::Warmup, running())
        .with(job("a", Operation::Warmup))
        .settle();
    let progress = stage.job("a").status.clone().unwrap().progress.unwrap();
    assert_eq!(
        (progress.files, progress.total_files, progress.percent),
        (Some(20), Some(200), Some(10))
    );
    let stage = stage
        .change(|stage| stage.servers.get_mut(&1).unwrap().is_silent = true)
        .settle();
    let status = stage.job("a").status.clone().unwrap();
    assert_eq!(status.phase, Some(SampleJobPhase::Running));
    assert!(
        status
            .message
            .unwrap()
            .contains("imagenet-runtime-1 does not answer")
    );
    assert_eq!(stage.plan_job("a").wake_at, Some(now() + seconds(10)));
}

#[test]
fn a_failure_on_one_server_ends_the_job_on_all() {
    let stage = ready()
        .says(Operation::Warmup, running())
        .with(job("a", Operation::Warmup))
        .settle();
    let stage = stage.change(|stage| {
        let server = stage.servers.get_mut(&1).unwrap();
        server
            .operations
            .insert("uid-a".to_owned(), failed("DiskFull", "no space left"));
    });
    let stage = stage.settle();
    assert_eq!(
        stage.job_told("a", "Failed"),
        (
            "DiskFull".to_owned(),
            "imagenet-runtime-1: no space left".to_owned()
        )
    );
    assert_eq!(stage.servers[&0].operations["uid-a"], State::Cancelled);
    assert_eq!(stage.status().operation, None);
}

#[test]
fn a_job_goes_when_its_time_to_live_is_over() {
    let short = job("a", Operation::Clear).edit(|spec| spec.ttl_seconds_after_finished = Some(60));
    let stage = ready().with(short).settle();
    assert_eq!(stage.plan_job("a").wake_at, Some(now() + seconds(60)));
    assert!(stage.after(60).jobs.is_empty());
}

#[test]
fn the_finalizer_of_the_go_operator_is_removed_on_sight() {
    let mut old = job("a", Operation::Clear);
    old.metadata.finalizers = Some(vec!["paddlepaddle.org/samplejob-a".to_owned()]);
    let plan = ready().with(old).plan_job("a");
    assert_eq!(plan.finalizers, Some(Vec::new()));
}

#[test]
fn a_local_source_must_lie_in_that_of_the_set() {
    let stage = stage(set("imagenet").source("file:///data/images")).change(|stage| {
        stage.settings.allow_local_paths = true;
        stage.job_settings.allow_local_paths = true;
    });
    let from = |uri: &str| {
        let source = Some(uri.to_owned());
        SyncOptions {
            source,
            ..SyncOptions::default()
        }
    };
    let stage = stage.settle();
    let within = job("a", Operation::Sync)
        .edit(|spec| spec.sync_options = Some(from("file:///data/images/train")));
    let outside = job("b", Operation::Sync)
        .edit(|spec| spec.sync_options = Some(from("file:///data/images2")));
    let stage = stage.with(within).with(outside).settle();
    assert_eq!(stage.job_phase("a"), Some(SampleJobPhase::Succeeded));
    assert!(
        stage
            .job_told("b", "Failed")
            .1
            .contains("spec.source.uri of the SampleSet")
    );
}

#[test]
fn progress_alone_may_wait_and_a_phase_may_not() {
    let stage = ready().says(Operation::Clear, running());
    let stage = stage.with(job("a", Operation::Clear)).settle();
    let old = stage.job("a").status.as_ref();
    let mut new = old.unwrap().clone();
    assert_eq!(urgency(old, &new), Urgency::Never);
    new.progress = Some(api::Progress::default());
    new.message = Some("half of it".to_owned());
    assert_eq!(urgency(old, &new), Urgency::Eventually);
    new.phase = Some(SampleJobPhase::Succeeded);
    assert_eq!(urgency(old, &new), Urgency::Now);
    assert_eq!(urgency(None, &new), Urgency::Now);
}
