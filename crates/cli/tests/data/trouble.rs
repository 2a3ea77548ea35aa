//! What goes wrong while data is moved: nothing is lost, the status is honest, and all
//! goes on by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use api::{SampleJob, SampleJobPhase, SampleJobStatus, SampleSet, SampleSetPhase};
use cache_api::{Client, JobState, PORT};
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::{Value, json};

use crate::bed::{Bed, NAMESPACE, fill, until};
use crate::servers::free_address;

/// One folder that is small, and one that takes a while when its copy is throttled.
fn folders(bucket: &Path) {
    fill(&bucket.join("small"), 20, 10_000);
    fill(&bucket.join("large"), 40, 60_000);
}

/// A copy of the large folder: so slow that it would take minutes, or else some seconds.
fn sync(bed: &Bed, bwlimit: u32) -> Value {
    json!({
        "type": "sync",
        "sampleSetRef": {"name": "data"},
        "syncOptions": {
            "source": bed.s3.folder("large"),
            "destination": "large",
            "bwlimit": bwlimit,
            "threads": 2,
        },
    })
}

fn warmup() -> Value {
    json!({"type": "warmup", "sampleSetRef": {"name": "data"}})
}

/// Why a job failed.
fn reason(status: &SampleJobStatus) -> &str {
    let mut conditions = status.conditions.iter();
    let failed = conditions.find(|told| told.type_ == "Failed");
    failed.map_or("", |failed| &failed.reason)
}

/// How often the container of the runtime server was started anew.
async fn restarts(bed: &Bed) -> i32 {
    let pod: Pod = bed.api().get("data-runtime-0").await.unwrap();
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    statuses[0].restart_count
}

/// What the runtime server knows, asked as the controllers do.
async fn runtime(bed: &Bed) -> Client {
    let pod: Pod = bed.api().get("data-runtime-0").await.unwrap();
    let address = pod.status.unwrap().pod_ip.unwrap().parse().unwrap();
    let secret: Secret = bed.api().get("data-runtime-server").await.unwrap();
    let data = secret.data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    let address = std::net::SocketAddr::new(address, PORT);
    Client::new(address, &text("tls.crt"), &text("token")).unwrap()
}

/// Whether nothing runs or waits on the runtime server.
async fn is_idle(client: &Client) -> bool {
    let jobs = client.jobs().await.unwrap();
    let is_alive = |state: &JobState| matches!(state, JobState::Running | JobState::Queued);
    !jobs.iter().any(|job| is_alive(&job.state))
}

/// Whether the data is all there and all cached.
async fn is_whole(bed: &Bed, files: &str) {
    let whole = |status: &api::SampleSetStatus| {
        let cache = status.cache_status.as_ref();
        status.phase == Some(SampleSetPhase::Ready)
            && status.operation.is_none()
            && cache.is_some_and(|cache| {
                cache.total_files.as_deref() == Some(files) && cache.cached_percent == Some(100)
            })
    };
    bed.set("data", &format!("Ready, with {files} files cached"), whole)
        .await;
}

#[tokio::test]
async fn a_killed_server_goes_on_with_what_it_did() {
    let bed = Bed::start(1, folders).await;
    bed.create_ready_set("data", "small", 1).await;

    bed.create_job("sync", sync(&bed, 4)).await;
    bed.job_is_under_way("sync").await;
    bed.kill_runtime("data", 0).await;
    bed.job_is("sync", SampleJobPhase::Succeeded).await;
    is_whole(&bed, "60").await;
    assert_eq!(restarts(&bed).await, 1);

    // Deaf, Redis keeps the warmup in the middle.
    bed.create_job(
        "clear",
        json!({"type": "clear", "sampleSetRef": {"name": "data"}}),
    )
    .await;
    bed.job_is("clear", SampleJobPhase::Succeeded).await;
    let client = runtime(&bed).await;
    bed.redis.freeze();
    bed.create_job("warmup", warmup()).await;
    until("the warmup runs on the server", async || {
        !is_idle(&client).await
    })
    .await;
    bed.job_is("warmup", SampleJobPhase::Running).await;
    bed.kill_runtime("data", 0).await;
    bed.redis.thaw();
    bed.job_is("warmup", SampleJobPhase::Succeeded).await;
    is_whole(&bed, "60").await;
    assert_eq!(restarts(&bed).await, 2);
    bed.end().await;
}

#[tokio::test]
async fn jobs_are_cancelled_on_the_servers_too() {
    let bed = Bed::start(1, folders).await;
    bed.create_ready_set("data", "small", 1).await;
    let client = runtime(&bed).await;

    // By its deletion.
    bed.create_job("deleted", sync(&bed, 1)).await;
    bed.job_is_under_way("deleted").await;
    bed.delete::<SampleJob>("deleted").await;
    let begin = Instant::now();
    until("nothing runs", async || is_idle(&client).await).await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    let free = |status: &api::SampleSetStatus| status.operation.is_none();
    bed.set("data", "free", free).await;

    // By `terminate`, set while it runs.
    bed.create_job("terminated", sync(&bed, 1)).await;
    bed.job_is_under_way("terminated").await;
    let begin = Instant::now();
    bed.patch::<SampleJob>("terminated", json!({"spec": {"terminate": true}}))
        .await;
    let status = bed.job_is("terminated", SampleJobPhase::Failed).await;
    assert!(is_idle(&client).await);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(reason(&status), "Terminated");

    // By a new job, which goes before those that wait.
    bed.create_job("slow", sync(&bed, 1)).await;
    bed.job_is_under_way("slow").await;
    bed.create_job("waits", warmup()).await;
    let waits = |status: &SampleJobStatus| {
        let mut conditions = status.conditions.iter();
        conditions.any(|told| told.message.contains("waits for slow"))
    };
    bed.job("waits", "waiting for slow", waits).await;
    let begin = Instant::now();
    let mut urgent = sync(&bed, 0);
    urgent["terminate"] = json!(true);
    bed.create_job("urgent", urgent).await;
    let status = bed.job_is("slow", SampleJobPhase::Failed).await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(reason(&status), "Terminated");
    let urgent = bed.job_is("urgent", SampleJobPhase::Succeeded).await;
    let waited = bed.job_is("waits", SampleJobPhase::Succeeded).await;
    let end = |status: &SampleJobStatus| status.completion_time.as_ref().unwrap().0;
    assert!(end(&urgent) <= end(&waited));
    is_whole(&bed, "60").await;
    bed.end().await;
}

#[tokio::test]
async fn a_redis_that_is_gone_for_a_while_loses_nothing() {
    let mut bed = Bed::start(1, folders).await;
    bed.create_ready_set("data", "small", 1).await;
    bed.create_job("sync", sync(&bed, 4)).await;
    bed.job_is_under_way("sync").await;
    bed.redis.kill();
    let begin = Instant::now();
    let is_told = |status: &api::SampleSetStatus| {
        let cache = status.cache_status.as_ref();
        let error = cache.and_then(|cache| cache.error_massage.as_deref());
        error.is_some_and(|error| error.contains("does not answer"))
    };
    bed.set("data", "saying what does not answer", is_told)
        .await;
    // The length of the outage is what is tried here: it is no wait for anything.
    tokio::time::sleep(Duration::from_secs(30).saturating_sub(begin.elapsed())).await;
    bed.redis.run();
    bed.job_is("sync", SampleJobPhase::Succeeded).await;
    is_whole(&bed, "60").await;
    bed.end().await;
}

#[tokio::test]
async fn a_set_that_is_deleted_ends_its_operation() {
    let bed = Bed::start(1, folders).await;
    bed.create_ready_set("data", "small", 1).await;
    bed.create_job("sync", sync(&bed, 1)).await;
    bed.job_is_under_way("sync").await;
    bed.delete::<SampleSet>("data").await;
    let status = bed.job_is("sync", SampleJobPhase::Failed).await;
    let message = status.message.unwrap_or_default();
    assert!(message.contains("SampleSet is being deleted"), "{message}");
    bed.gone::<SampleSet>("data").await;
    bed.gone::<Pod>("data-runtime-0").await;
    // What was cached is dropped; what was copied is still there.
    let cache = format!("nodes/node-0/cache/var/lib/juicefs/{NAMESPACE}.data");
    assert_eq!(blocks(&bed.local.dir.join(cache)), 0);
    let spec = json!({"noSync": true, "secretRef": {"name": "data"}});
    bed.create_set("data", spec).await;
    let has_all = |status: &api::SampleSetStatus| {
        let cache = status.cache_status.as_ref();
        let files = cache.and_then(|cache| cache.total_files.as_ref()?.parse::<u32>().ok());
        status.phase == Some(SampleSetPhase::Ready) && files.is_some_and(|files| files >= 20)
    };
    bed.set("data", "Ready with what it had", has_all).await;
    bed.end().await;
}

#[tokio::test]
async fn a_set_whose_server_never_ran_goes_soon() {
    let bed = Bed::start(1, |_| ()).await;
    let mut secret = bed.secret("data", (0, 1));
    let nowhere = free_address(bed.s3.address.ip());
    secret["stringData"]["metaurl"] = json!(format!("redis://{nowhere}/0"));
    bed.create(secret).await;
    let spec = json!({"noSync": true, "secretRef": {"name": "data"}});
    bed.create_set("data", spec).await;
    bed.set_says("data", "no Redis answers").await;
    let begin = Instant::now();
    bed.delete::<SampleSet>("data").await;
    bed.gone::<SampleSet>("data").await;
    bed.gone::<Pod>("data-runtime-0").await;
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// How many files there are below a folder.
fn blocks(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => blocks(&entry.path()),
            false => usize::from(entry.path().to_string_lossy().contains("/raw/")),
        })
        .sum()
}
