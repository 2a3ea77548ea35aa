//! A disk for the cache that fills up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use api::{
    PaddleJob, PaddleJobStatus, Phase, SampleJobPhase, SampleSet, SampleSetPhase, SampleSetStatus,
};
use kube::api::LogParams;
use serde_json::{Value, json};

use crate::bed::{Bed, NAMESPACE, fill, until};

/// A small file system, but so large that some MiB matter to nobody.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf) -> Disk {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256m", "tmpfs"]);
        assert!(mount.arg(&at).status().unwrap().success());
        Disk(at)
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Writes until there is no room.
    fn fill(&self) {
        let mut options = File::options();
        let ballast = options.create(true).append(true).open(self.ballast());
        let mut ballast = ballast.unwrap();
        let error = loop {
            if let Err(error) = ballast.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn folders(bucket: &Path) {
    fill(&bucket.join("files"), 96, 512 << 10);
    fill(&bucket.join("more"), 2, 512 << 10);
}

fn percent(status: &SampleSetStatus) -> i32 {
    let cache = status.cache_status.as_ref();
    cache.and_then(|cache| cache.cached_percent).unwrap_or(-1)
}

fn says(status: &SampleSetStatus, words: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|told| told.message.contains(words))
}

/// Trains on all the data; what it has read.
async fn train(bed: &Bed, name: &str) -> String {
    let read = "cd /mnt/data && find . -type f | sort | xargs sha256sum";
    bed.create(json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "cleanPodPolicy": "Never",
            "sampleSetRef": {"name": "data", "mountPath": "/mnt/data"},
            "worker": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "paddle", "image": "any", "command": ["sh", "-c", read]},
            ]}}},
        },
    }))
    .await;
    let is_done = |status: &PaddleJobStatus| {
        assert_ne!(status.phase, Some(Phase::Failed), "{status:#?}");
        status.phase == Some(Phase::Completed)
    };
    bed.status::<PaddleJob>(name, "Completed", is_done).await;
    let pods = bed.pods().0;
    let worker = format!("{name}-worker-0");
    pods.logs(&worker, &LogParams::default()).await.unwrap()
}

fn sync(bed: &Bed) -> Value {
    json!({
        "type": "sync",
        "sampleSetRef": {"name": "data"},
        "syncOptions": {"source": bed.s3.folder("more"), "destination": "more"},
    })
}

fn warmup() -> Value {
    json!({"type": "warmup", "sampleSetRef": {"name": "data"}})
}

#[tokio::test]
async fn a_full_disk_is_told_and_loses_nothing() {
    let bed = Bed::start(1, folders).await;
    let cache = format!("nodes/node-0/cache/var/lib/juicefs/{NAMESPACE}.data");
    let disk = Disk::mount(bed.local.dir.join(cache));
    bed.create(bed.secret("data", (0, 1))).await;
    let spec = json!({
        "source": {"uri": bed.s3.folder("files")},
        "secretRef": {"name": "data"},
    });
    bed.create_set("data", spec).await;
    bed.set("data", "all cached", |status| percent(status) == 100)
        .await;
    let read = train(&bed, "before").await;
    assert_eq!(read.lines().count(), 96);

    // JuiceFS makes room for others, who take it, until next to nothing is cached.
    let told = "% of the data is cached, because the disk of data-runtime-0 has only";
    let sets = bed.api::<SampleSet>();
    until("it is said why nothing is cached", async || {
        disk.fill();
        let status = sets.get("data").await.unwrap().status.unwrap();
        percent(&status) < 10 && says(&status, told)
    })
    .await;
    assert_eq!(train(&bed, "full").await, read, "all can be read");

    // A copy does not need the disk, and a warmup says what became of it.
    bed.create_job("sync", sync(&bed)).await;
    bed.job_is("sync", SampleJobPhase::Succeeded).await;
    bed.create_job("futile", warmup()).await;
    let status = bed.job_is("futile", SampleJobPhase::Succeeded).await;
    let message = status.message.unwrap();
    let (cached, files) = message.split_once("% of ").unwrap();
    assert!(cached.parse::<i32>().unwrap() < 10, "{message}");
    assert_eq!(files, "98 files are cached");
    bed.set_says("data", told).await;

    disk.make_room();
    bed.create_job("warmup", warmup()).await;
    let status = bed.job_is("warmup", SampleJobPhase::Succeeded).await;
    assert_eq!(status.message.unwrap(), "100% of 98 files are cached");
    let status = bed
        .set("data", "all cached again", |status| percent(status) == 100)
        .await;
    assert!(!says(&status, "disk"), "{status:#?}");
    assert_eq!(status.phase, Some(SampleSetPhase::Ready));
    drop(disk);
    bed.end().await;
}
