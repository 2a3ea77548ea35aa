//! A real volume with its mount, and `paddle-operator runtime` beside it. Nothing
//! of them is left, whatever happens to the test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cache_api::{
    Cache, Client, Credentials, Failure, Identity, Job, JobState, NewJob, Outcome, Poll, Sampler,
    Sync, Task, Warmup,
};
use tempfile::TempDir;

use crate::installed::installed;
use crate::servers::{ACCESS_KEY, Ending, SECRET_KEY, format_volume, free_address, juicefs};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const VOLUME: &str = "imagenet";
/// Waits for a condition.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: still not");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A volume, mounted, and the server beside it.
pub struct Node {
    pub dir: PathBuf,
    pub client: Client,
    mount: Mount,
    server: Option<Child>,
    identity: Identity,
    address: SocketAddr,
    /// What the server has said, over all its lives.
    log: Arc<Mutex<String>>,
    /// Last, so that it goes when nothing uses it any more.
    _parent: TempDir,
}

/// Unmounts.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Node {
    /// With an empty volume.
    pub fn start() -> Node {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().to_owned();
        for name in ["store", "mnt", "cache", "tls"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        let path = |name: &str| dir.join(name).display().to_string();
        let meta = metaurl(&dir);
        format_volume(&meta, VOLUME, &dir.join("store"));
        let (mnt, cache, log) = (path("mnt"), path("cache"), path("mount.log"));
        let mount = Mount(dir.join("mnt"));
        juicefs(
            &[
                "mount",
                "-d",
                "--no-syslog",
                "--no-usage-report",
                "--log",
                &log,
                "--cache-dir",
                &cache,
                "--metrics",
                "127.0.0.1:0",
                &meta,
                &mnt,
            ],
            &[],
        );
        let identity = Identity::generate().unwrap();
        fs::write(dir.join("tls/crt"), &identity.certificate).unwrap();
        fs::write(dir.join("tls/key"), &identity.key).unwrap();
        fs::write(dir.join("tls/token"), format!("{}\n", identity.token)).unwrap();
        // Its own, so that the address stays the same over its lives.
        let address = free_address(Ipv4Addr::LOCALHOST.into());
        let mut node = Node {
            client: Client::new(address, &identity.certificate, &identity.token).unwrap(),
            dir,
            mount,
            server: None,
            identity,
            address,
            log: Arc::default(),
            _parent: parent,
        };
        node.run();
        node
    }

    /// Starts the server, again perhaps, and waits until it listens.
    pub fn run(&mut self) {
        let path = |name: &str| self.dir.join(name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_paddle-operator"))
            .arg("runtime")
            .arg("--data-dir")
            .arg(path("mnt"))
            .arg("--state-dir")
            .arg(path("state"))
            .arg("--cache-dir")
            .arg(path("cache"))
            .arg("--tls-certificate")
            .arg(path("tls/crt"))
            .arg("--tls-key")
            .arg(path("tls/key"))
            .arg("--token-file")
            .arg(path("tls/token"))
            .arg("--listen")
            .arg(self.address.to_string())
            .arg("--juicefs")
            .arg(installed("juicefs/juicefs"))
            // All that could be said.
            .env("RUST_LOG", "debug")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::clone(&self.log);
        let mut line = String::new();
        while !line.contains("listens") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it did not start");
            log.lock().unwrap().push_str(&line);
        }
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = said.read(&mut chunk) {
                let text = String::from_utf8_lossy(&chunk[..length]).into_owned();
                log.lock().unwrap().push_str(&text);
            }
        });
        self.server = Some(child);
    }

    /// Kills the server, and nothing else.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// What the server has said.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The number of the server's process.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// One who does not know the token.
    pub fn stranger(&self) -> Client {
        let token = Identity::generate().unwrap().token;
        Client::new(self.address, &self.identity.certificate, &token).unwrap()
    }

    /// One who expects another server.
    pub fn misled(&self) -> Client {
        let other = Identity::generate().unwrap().certificate;
        Client::new(self.address, &other, &self.identity.token).unwrap()
    }

    /// Where the data is.
    pub fn data(&self) -> &Path {
        &self.mount.0
    }

    /// The server's state on disk, and what is in it.
    pub fn state(&self) -> String {
        read_all(&self.dir.join("state"))
    }

    /// Keys for the volume, and for a source.
    pub fn credentials(&self) -> Credentials {
        Credentials {
            access_key: Some(ACCESS_KEY.clone()),
            secret_key: Some(SECRET_KEY.clone()),
            metaurl: metaurl(&self.dir),
        }
    }

    /// A sync from a source, as it is posted.
    pub fn sync(&self, id: &str, source: &str) -> NewJob {
        self.sync_with(id, |sync| sync.source = source.to_owned())
    }

    /// A sync with other options.
    pub fn sync_with(&self, id: &str, change: impl FnOnce(&mut Sync)) -> NewJob {
        let mut sync = Sync::default();
        change(&mut sync);
        NewJob {
            credentials: Some(self.credentials()),
            ..job(id, Task::Sync(sync))
        }
    }

    /// Posts a job and waits for its end.
    pub async fn done(&self, job: NewJob) -> JobState {
        let id = job.id.clone();
        self.client.post(&job).await.unwrap();
        self.ended(&id).await.state
    }

    /// Posts a job that must succeed.
    pub async fn succeeds(&self, job: NewJob) -> Outcome {
        match self.done(job).await {
            JobState::Succeeded(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Posts a job that must fail.
    pub async fn fails(&self, job: NewJob) -> Failure {
        match self.done(job).await {
            JobState::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// A job at its end.
    pub async fn ended(&self, id: &str) -> Job {
        self.wait(id, |job| job.state.has_ended()).await
    }

    /// A job of which something is true, by long polls.
    pub async fn wait(&self, id: &str, is_true: impl Fn(&Job) -> bool) -> Job {
        let start = Instant::now();
        let mut known = self.client.job(id, None).await.unwrap();
        while !is_true(&known) {
            assert!(start.elapsed() < PATIENCE, "{known:?}");
            let poll = Poll {
                since: known.revision,
                wait: Duration::from_secs(20),
            };
            known = self.client.job(id, Some(poll)).await.unwrap();
        }
        known
    }

    /// Figures of which something is true, by long polls.
    pub async fn cache(&self, is_true: impl Fn(&Cache) -> bool) -> Cache {
        let start = Instant::now();
        let mut known = self.client.cache(None).await.unwrap();
        while !is_true(&known) {
            assert!(start.elapsed() < PATIENCE, "{known:?}");
            let poll = Poll {
                since: known.revision,
                wait: Duration::from_secs(20),
            };
            known = self.client.cache(Some(poll)).await.unwrap();
        }
        known
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            drop(Ending(server));
        }
    }
}

fn metaurl(dir: &Path) -> String {
    format!("sqlite3://{}/meta.db", dir.display())
}

/// A job, as it is posted.
pub fn job(id: &str, task: Task) -> NewJob {
    NewJob {
        id: id.to_owned(),
        owner: "uid".to_owned(),
        task,
        credentials: None,
    }
}

/// A warmup of one partition of several.
pub fn warmup(partitions: u32, partition: u32) -> Warmup {
    Warmup {
        partition,
        sampler: Sampler {
            ranks_per_partition: 1,
            replicas: partitions,
            batch_size: 1,
            ..Sampler::default()
        },
        ..Warmup::default()
    }
}

/// A folder of files, some of them in odd places; returns the sum of their sizes.
pub fn fill(folder: &Path, files: usize, size: usize) -> u64 {
    for n in 0..files {
        let class = folder.join(format!("class {}", n % 3));
        fs::create_dir_all(&class).unwrap();
        let content: Vec<u8> = (0..size + n).map(|at| (at * 31 + n) as u8).collect();
        fs::write(class.join(format!("it's {n:04}.jpg")), content).unwrap();
    }
    (0..files).map(|n| (size + n) as u64).sum()
}

/// Every file below a directory, its name and content.
pub fn read_all(dir: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        all.push_str(&path.display().to_string());
        match path.is_dir() {
            true => all.push_str(&read_all(&path)),
            false => all.push_str(&String::from_utf8_lossy(
                &fs::read(&path).unwrap_or_default(),
            )),
        }
    }
    all
}

/// The command lines of all processes of this machine.
pub fn command_lines() -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |pid: u32| Some((pid, fs::read(format!("/proc/{pid}/cmdline")).ok()?));
    let lines = pids.filter_map(read);
    lines
        .map(|(pid, line)| (pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        .collect()
}
