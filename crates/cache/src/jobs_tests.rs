//! The queue, without a server and without JuiceFS.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use cache_api::{Clear, Outcome, Sync};

use super::*;

/// A server's queue in a directory of its own, which outlives it.
struct Life {
    dir: tempfile::TempDir,
    jobs: Jobs,
    interrupted: Vec<Task>,
}

fn life() -> Life {
    live(tempfile::tempdir().unwrap())
}

fn live(dir: tempfile::TempDir) -> Life {
    let (store, found) = Store::open(dir.path().join("jobs")).unwrap();
    let (jobs, interrupted) = Jobs::new(store, found);
    Life {
        dir,
        jobs,
        interrupted,
    }
}

impl Life {
    fn again(self) -> Life {
        live(self.dir)
    }

    fn post(&self, job: NewJob) -> Job {
        match self.jobs.post(job).unwrap() {
            Posted::New(job) | Posted::Known(job) => job,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self, id: &str) -> JobState {
        self.jobs.job(id).unwrap().state
    }

    /// What the files hold.
    fn on_disk(&self) -> String {
        let files = std::fs::read_dir(self.dir.path().join("jobs")).unwrap();
        let read =
            |file: io::Result<std::fs::DirEntry>| std::fs::read_to_string(file.unwrap().path());
        files.map(|file| read(file).unwrap()).collect()
    }
}

fn clear(id: &str) -> NewJob {
    NewJob {
        id: id.to_owned(),
        owner: "uid".to_owned(),
        task: Task::Clear(Clear::default()),
        credentials: None,
    }
}

fn sync(id: &str) -> NewJob {
    NewJob {
        task: Task::Sync(Sync {
            source: "s3://b.h/".to_owned(),
            ..Sync::default()
        }),
        credentials: Some(Credentials {
            secret_key: Some("SECRET".to_owned()),
            metaurl: "redis://:PASSWORD@h/0".to_owned(),
            ..Credentials::default()
        }),
        ..clear(id)
    }
}

fn done() -> JobState {
    JobState::Succeeded(Outcome::default())
}

#[tokio::test]
async fn jobs_run_one_at_a_time_in_order_of_arrival() {
    let life = life();
    for id in ["z", "a", "m"] {
        life.post(clear(id));
    }
    for id in ["z", "a", "m"] {
        let turn = life.jobs.next().await;
        assert_eq!(turn.id, id);
        assert_eq!(life.state(id), JobState::Running);
        life.jobs.end(id, done());
        assert_eq!(life.state(id), done());
    }
}

#[tokio::test]
async fn a_waiting_worker_gets_what_comes() {
    let life = life();
    let (turn, _) = tokio::join!(life.jobs.next(), async { life.post(clear("a")) });
    assert_eq!(turn.id, "a");
}

#[test]
fn the_same_job_again_is_harmless_and_another_one_refused() {
    let life = life();
    let first = life.post(clear("a"));
    assert_eq!(life.post(clear("a")), first);
    let mut other = clear("a");
    other.owner = "other".to_owned();
    assert!(matches!(life.jobs.post(other).unwrap(), Posted::Conflict));
    let mut other = sync("a");
    other.credentials = None;
    assert!(matches!(life.jobs.post(other).unwrap(), Posted::Conflict));
    assert_eq!(life.jobs.all(), [first]);
}

#[test]
fn keys_are_not_on_disk() {
    let life = life();
    life.post(sync("a"));
    let files = life.on_disk();
    assert!(files.contains("s3://b.h/"));
    assert!(
        !files.contains("SECRET") && !files.contains("PASSWORD"),
        "{files}"
    );
}

#[tokio::test]
async fn after_a_restart_what_was_under_way_begins_again() {
    let life = life();
    for job in [clear("done"), clear("running"), clear("queued")] {
        life.post(job);
    }
    let first = life.jobs.next().await;
    life.jobs.end(&first.id, done());
    life.jobs.next().await;
    let before = life.jobs.job("done").unwrap();
    let life = life.again();
    assert_eq!(life.interrupted, [clear("running").task]);
    assert_eq!(life.state("done"), done());
    assert_ne!(life.jobs.job("done").unwrap().revision, before.revision);
    assert_eq!(life.jobs.next().await.id, "running");
    life.jobs.end("running", done());
    assert_eq!(life.jobs.next().await.id, "queued");
}

#[tokio::test]
async fn after_a_restart_a_sync_asks_for_its_keys_and_holds_nobody_up() {
    let life = life();
    life.post(sync("s"));
    life.post(clear("c"));
    assert_eq!(life.jobs.next().await.id, "s");
    let life = life.again();
    assert_eq!(life.state("s"), JobState::NeedsCredentials);
    assert_eq!(life.jobs.next().await.id, "c");
    life.jobs.end("c", done());
    assert_eq!(life.post(sync("s")).state, JobState::Queued);
    let turn = life.jobs.next().await;
    assert_eq!(turn.id, "s");
    assert_eq!(turn.credentials, sync("s").credentials);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_gets_no_keys_is_given_up() {
    let life = life();
    life.post(sync("s"));
    let life = life.again();
    let jobs = life.jobs.clone();
    let expiring = tokio::spawn(async move { jobs.expire().await });
    let nearly = CREDENTIALS_PATIENCE - Duration::from_secs(1);
    tokio::time::sleep(nearly).await;
    assert_eq!(life.state("s"), JobState::NeedsCredentials);
    tokio::time::sleep(Duration::from_secs(2)).await;
    match life.state("s") {
        JobState::Failed(failure) => assert_eq!(failure.reason, reason::CREDENTIALS_MISSING),
        other => panic!("{other:?}"),
    }
    expiring.abort();
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled_at_once_and_stays_so() {
    let life = life();
    life.post(clear("a"));
    let cancelled = life.jobs.cancel("a").unwrap().unwrap();
    assert_eq!(cancelled.state, JobState::Cancelled);
    let again = life.jobs.cancel("a").unwrap().unwrap();
    assert_eq!(again.revision, cancelled.revision);
    assert!(life.jobs.cancel("b").unwrap().is_none());
}

#[tokio::test]
async fn keys_that_come_after_the_end_are_not_kept() {
    let life = life();
    life.post(sync("s"));
    life.jobs.cancel("s").unwrap();
    life.post(sync("s"));
    let entries = &life.jobs.lock().entries;
    assert!(entries.iter().all(|entry| entry.credentials.is_none()));
}

#[tokio::test]
async fn a_running_job_is_told_to_end_and_does_not_begin_again() {
    let life = life();
    life.post(clear("a"));
    let turn = life.jobs.next().await;
    let told = life.jobs.cancel("a").unwrap().unwrap();
    assert_eq!(told.state, JobState::Running);
    turn.cancelled().await;
    let life = life.again();
    assert_eq!(life.state("a"), JobState::Cancelled);
}

#[tokio::test]
async fn a_job_that_begins_again_knows_it() {
    let life = life();
    life.post(clear("a"));
    assert!(!life.jobs.next().await.is_repeated);
    let life = life.again();
    assert!(life.jobs.next().await.is_repeated);
}

#[tokio::test]
async fn the_last_hundred_that_ended_are_kept() {
    let life = life();
    for n in 0..ENDED_KEPT + 5 {
        let id = format!("job-{n}");
        life.post(clear(&id));
        life.jobs.next().await;
        life.jobs.end(&id, done());
    }
    assert_eq!(life.jobs.all().len(), ENDED_KEPT);
    assert!(life.jobs.job("job-4").is_none() && life.jobs.job("job-5").is_some());
    assert_eq!(life.again().jobs.all().len(), ENDED_KEPT);
}

#[test]
fn there_is_an_end_to_what_is_queued() {
    let life = life();
    for n in 0..MAX_WAITING {
        life.post(clear(&n.to_string()));
    }
    assert!(matches!(
        life.jobs.post(clear("more")).unwrap(),
        Posted::Full
    ));
}

#[tokio::test]
async fn every_change_is_another_revision() {
    let life = life();
    let mut seen = vec![life.post(clear("a")).revision];
    let revision = |life: &Life| life.jobs.job("a").unwrap().revision;
    life.jobs.next().await;
    seen.push(revision(&life));
    let progress = Progress {
        files: 1,
        ..Progress::default()
    };
    life.jobs.progress("a", progress);
    seen.push(revision(&life));
    life.jobs.progress("a", progress);
    assert_eq!(seen.last(), Some(&revision(&life)), "nothing has changed");
    life.jobs.end("a", done());
    seen.push(revision(&life));
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}
