//! What is refused in the spec of a set, and in what words.

use api::{Cache, CacheLevel, Csi, JuiceFsMountOptions, SampleSet, SampleSetPhase};

use crate::support::*;

fn refused(set: SampleSet) -> String {
    let stage = stage(set).settle();
    assert_eq!(stage.phase(), None);
    assert!(stage.seen.volume.is_missing() && stage.posts.is_empty());
    let (reason, message) = stage.told("Accepted");
    assert_eq!(reason, "InvalidSpec");
    assert_eq!(
        stage
            .events
            .iter()
            .filter(|event| event.reason == "InvalidSpec")
            .count(),
        1
    );
    message
}

fn options(edit: impl FnOnce(&mut JuiceFsMountOptions)) -> SampleSet {
    let mut options = JuiceFsMountOptions::default();
    edit(&mut options);
    set("imagenet").edit(|spec| {
        spec.csi = Some(Csi {
            driver: None,
            juicefs_mount_options: Some(options),
        });
    })
}

fn level(path: &str) -> SampleSet {
    set("imagenet").edit(|spec| {
        spec.cache = Some(Cache {
            levels: vec![CacheLevel {
                path: Some(path.to_owned()),
                ..CacheLevel::default()
            }],
        });
    })
}

#[test]
fn sources() {
    for (uri, says) in [
        ("ks3://bucket/imagenet", "use its S3 endpoint"),
        ("gopher://bucket/imagenet", "no scheme"),
        ("file:///data/images", "--allow-local-paths"),
    ] {
        let message = refused(set("imagenet").source(uri));
        assert!(message.contains(says), "{message}");
    }
    let message = refused(set("imagenet").source("s3://AKIA:sesame@bucket/x"));
    assert!(
        message.contains("secretRef") && !message.contains("sesame"),
        "{message}"
    );
    let message = refused(set("imagenet").edit(|spec| spec.source = None));
    assert!(message.contains("spec.source.uri is missing"), "{message}");
}

#[test]
fn mount_options_and_caches() {
    let message = refused(options(|options| {
        options.sub_dir = Some("a,writeback".to_owned())
    }));
    assert!(message.contains("sub-dir is \"a,writeback\""), "{message}");
    let message = refused(options(|options| options.sub_dir = Some("../x".to_owned())));
    assert!(
        message.contains("sub-dir is \"../x\", which could leave"),
        "{message}"
    );
    let message = refused(options(|options| {
        options.free_space_ratio = Some("1.5".to_owned())
    }));
    assert!(message.contains("below 1"), "{message}");
    for path in ["/etc", "/mnt/../etc", "/data2", "relative"] {
        let message = refused(level(path));
        assert!(message.contains("lies below none of"), "{message}");
    }
    assert_eq!(
        stage(level("/mnt/a:/mnt/b")).settle().phase(),
        Some(SampleSetPhase::Ready)
    );
}

#[test]
fn secrets() {
    let message = refused(set("imagenet").edit(|spec| spec.secret_ref = None));
    assert!(
        message.contains("name, storage, bucket and metaurl"),
        "{message}"
    );
    let foreign = set("imagenet").edit(|spec| {
        spec.secret_ref.as_mut().unwrap().namespace = Some("kube-system".to_owned());
    });
    let message = refused(foreign);
    assert!(
        message.contains("only a Secret of the namespace paddle-system"),
        "{message}"
    );
}

#[test]
fn a_local_volume_needs_leave() {
    let sqlite = [
        REDIS[0],
        ("storage", "file"),
        ("bucket", "/data/x"),
        ("metaurl", "sqlite3:///data/x.db"),
    ];
    let stage = stage(set("imagenet")).change(|stage| {
        stage.secrets.insert("imagenet".to_owned(), secret(&sqlite));
    });
    let stage = stage.settle();
    assert_eq!(stage.told("Bound").0, "SecretInvalid");
    let stage = stage
        .change(|stage| stage.settings.allow_local_paths = true)
        .settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
}

#[test]
fn partitions_and_samplers() {
    assert!(refused(set("imagenet").partitions(0)).contains("spec.partitions is 0"));
    let message = refused(set("imagenet").edit(|spec| {
        spec.warmup = Some(api::Warmup {
            paths: vec!["../x".to_owned()],
            ..api::Warmup::default()
        });
    }));
    assert!(message.contains("warmup paths[0]"), "{message}");
}

#[test]
fn a_spec_that_is_broken_later_keeps_the_phase_and_starts_nothing() {
    let stage = stage(set("imagenet")).settle();
    let posts = stage.posts.len();
    let stage = stage.edit(|set| set.source("gopher://bucket/x")).settle();
    assert_eq!(stage.phase(), Some(SampleSetPhase::Ready));
    assert_eq!(stage.told("Accepted").0, "InvalidSpec");
    assert_eq!(stage.posts.len(), posts);
    let stage = stage
        .edit(|set| set.source("bos://public.hkg.bcebos.com/imagenet/demo"))
        .settle();
    assert_eq!(stage.told("Accepted").0, "Valid");
}
