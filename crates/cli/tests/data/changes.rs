//! Data that changes while workers have it mounted.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use api::{PaddleJob, PaddleJobStatus, Phase, SampleJobPhase, SampleSetPhase, SampleSetStatus};
use serde_json::json;

use crate::bed::{Bed, NAMESPACE, fill};

/// Two states of the same data set.
fn folders(bucket: &Path) {
    fill(&bucket.join("first/train"), 20, 1000);
    fill(&bucket.join("second/train"), 20, 1001);
}

/// What each of two workers finds: the number of files, and their sizes.
async fn found(bed: &Bed) -> [String; 2] {
    let look = "cd /mnt/data && ls train | wc -l && cat train/* | wc -c";
    let pods = bed.pods();
    let mut found = [const { String::new() }; 2];
    for (worker, found) in found.iter_mut().enumerate() {
        let name = format!("reader-worker-{worker}");
        let (said, succeeded) = pods.exec(&name, &["sh", "-c", look]).await;
        assert!(succeeded, "{said}");
        *found = said.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    found
}

#[tokio::test]
async fn workers_on_every_node_find_what_a_sync_has_replaced() {
    let bed = Bed::start(2, folders).await;
    bed.create_ready_set("data", "first", 2).await;
    bed.create(json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "spec": {
            "sampleSetRef": {"name": "data", "mountPath": "/mnt/data"},
            "worker": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "paddle", "image": "any", "command": ["sleep", "infinity"]},
            ]}}},
        },
    }))
    .await;
    let runs = |status: &PaddleJobStatus| status.phase == Some(Phase::Running);
    bed.status::<PaddleJob>("reader", "Running", runs).await;
    assert_eq!(found(&bed).await, ["20 20000"; 2]);

    // The folder is made anew by one server; the other node is not told.
    let removes = json!({"type": "rmr", "sampleSetRef": {"name": "data"},
        "rmrOptions": {"paths": ["train"]}});
    for (name, job) in [
        ("replace", sync(&bed, "second")),
        ("remove", removes),
        ("restore", sync(&bed, "first")),
    ] {
        bed.create_job(name, job).await;
        bed.job_is(name, SampleJobPhase::Succeeded).await;
        let is_done = |status: &SampleSetStatus| {
            status.phase == Some(SampleSetPhase::Ready) && status.operation.is_none()
        };
        bed.set("data", "Ready again", is_done).await;
        match name {
            "replace" => assert_eq!(found(&bed).await, ["20 20020"; 2]),
            "restore" => assert_eq!(found(&bed).await, ["20 20000"; 2]),
            _ => {}
        }
    }
    bed.delete::<PaddleJob>("reader").await;
    bed.gone::<PaddleJob>("reader").await;
    bed.end().await;
}

fn sync(bed: &Bed, folder: &str) -> serde_json::Value {
    json!({"type": "sync", "sampleSetRef": {"name": "data"},
        "syncOptions": {"source": bed.s3.folder(folder)}})
}

#[tokio::test]
async fn what_was_removed_is_not_missing_in_the_caches() {
    let fill = |bucket: &Path| {
        fill(&bucket.join("data/a"), 20, 9000);
        fill(&bucket.join("data/b"), 20, 9000);
    };
    let bed = Bed::start(2, fill).await;
    bed.create_ready_set("data", "data", 2).await;
    let is = |files: &str, percent: i32| {
        let files = files.to_owned();
        move |status: &SampleSetStatus| {
            let cache = status.cache_status.clone().unwrap_or_default();
            let mut partitions = cache.partitions.iter();
            cache.total_files.as_deref() == Some(&files)
                && cache.cached_percent == Some(percent)
                && partitions.all(|each| each.percent == Some(percent))
        }
    };
    let warmup = |status: SampleSetStatus| status.jobs_name.unwrap().warmup_job_name;
    let whole = bed.set("data", "cached", is("40", 100)).await;
    let rmr = |path: &str| json!({"type": "rmr", "sampleSetRef": {"name": "data"}, "rmrOptions": {"paths": [path]}});
    bed.create_job("remove", rmr("a")).await;
    bed.job_is("remove", SampleJobPhase::Succeeded).await;
    let begin = Instant::now();
    let left = bed.set("data", "cached without a", is("20", 100)).await;
    assert!(begin.elapsed() < Duration::from_secs(5));

    // Nor is anything cached again that was dropped.
    let clear = json!({"type": "clear", "sampleSetRef": {"name": "data"}});
    for (name, job) in [("clear", clear), ("remove-one", rmr("b/0000.JPEG"))] {
        bed.create_job(name, job).await;
        bed.job_is(name, SampleJobPhase::Succeeded).await;
    }
    let empty = bed.set("data", "empty", is("19", 0)).await;
    assert_eq!(warmup(whole), warmup(empty));
    assert_eq!(left.phase, Some(SampleSetPhase::Ready));
    bed.end().await;
}

#[tokio::test]
async fn a_folder_is_waited_for_and_copied_again() {
    let bed = Bed::start(1, |_| ()).await;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("my data");
    let uri = format!("file://{}/my%20data", parent.path().display());
    bed.create_set("data", json!({"source": {"uri": uri}}))
        .await;
    let missing = format!("hostPath {folder:?}: No such file or directory");
    bed.set_says("data", &missing).await;
    assert!(!folder.exists(), "it is not for us to make it");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "one").unwrap();
    bed.set_is("data", SampleSetPhase::Ready).await;

    fs::write(folder.join("a"), "two").unwrap();
    let later = SystemTime::now() + Duration::from_secs(10);
    let file = File::options().write(true).open(folder.join("a")).unwrap();
    file.set_modified(later).unwrap();
    let update = json!({"type": "sync", "sampleSetRef": {"name": "data"},
        "syncOptions": {"update": true}});
    bed.create_job("again", update).await;
    let status = bed.job_is("again", SampleJobPhase::Succeeded).await;
    assert_eq!(status.message.unwrap(), "1 files of the source are there");
    let is_warm = |status: &SampleSetStatus| status.operation.is_none();
    bed.set("data", "warm again", is_warm).await;
    let read = ["cat", "/paddle-runtime/data/a"];
    let (read, _) = bed.pods().exec("data-runtime-0", &read).await;
    assert_eq!(read, "two");
    bed.end().await;
}

/// Two sets in folders of one volume: neither writes where the other is.
#[tokio::test]
async fn a_set_fills_the_folder_that_it_mounts_and_no_other() {
    let bed = Bed::start(1, folders).await;
    bed.create(bed.secret("shared", (0, 1))).await;
    let files = |files: &str| {
        let files = files.to_owned();
        move |status: &SampleSetStatus| {
            let cache = status.cache_status.clone().unwrap_or_default();
            status.phase == Some(SampleSetPhase::Ready)
                && cache.total_files.as_deref() == Some(&files)
        }
    };
    for folder in ["first", "second"] {
        let spec = json!({
            "source": {"uri": bed.s3.folder(folder)},
            "secretRef": {"name": "shared"},
            "csi": {"juiceFSMountOptions": {"free-space-ratio": "0.01", "sub-dir": folder}},
        });
        bed.create_set(folder, spec).await;
        bed.set(folder, "filled", files("20")).await;
    }
    let sync = json!({"type": "sync", "sampleSetRef": {"name": "second"},
        "syncOptions": {"delete-dst": true, "source": bed.s3.folder("first/train")}});
    bed.create_job("replace", sync).await;
    bed.job_is("replace", SampleJobPhase::Succeeded).await;
    bed.set("second", "replaced", files("20")).await;
    let recount = json!({"type": "clear", "sampleSetRef": {"name": "first"}});
    bed.create_job("recount", recount).await;
    bed.job_is("recount", SampleJobPhase::Succeeded).await;
    bed.set("first", "as it was", files("20")).await;
    bed.end().await;
}
