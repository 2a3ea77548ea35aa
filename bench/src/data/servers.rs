//! The servers: a Redis, an S3 server behind the link, the volume on them, its mount, and
//! the cache runtime server beside that.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::SampleSet;
use bench::server;
use cache_api::{Cache, Client, Credentials, Identity, JobState, NewJob, Poll, Task};
use juicefs::{Juicefs, Mount, MountOptions, Volume};
use plan::sampleset::Settings;
use plan::sampleset::volume::mount_options;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::link::Link;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const BUCKET: &str = "bench";
const KEY: &str = "key-of-the-bench";
const SECRET: &str = "secret-of-the-bench";

/// All of them, in a directory that nobody else uses.
pub(crate) struct Servers {
    installed: PathBuf,
    dir: PathBuf,
    redis: SocketAddr,
    pub(crate) link: Link,
    runtime: Runtime,
    asked: std::cell::Cell<usize>,
    _processes: [Child; 2],
}

impl Servers {
    pub(crate) async fn start(installed: &Path, dir: &Path) -> anyhow::Result<Servers> {
        let (redis, redis_process) = server::redis(installed, LOCALHOST, dir).await?;
        let store = server::free(LOCALHOST).await?;
        let juicefs = |words: &[&str]| {
            let mut command = Command::new(installed.join("juicefs/juicefs"));
            command
                .arg("--no-agent")
                .args(words)
                .env("AWS_EC2_METADATA_DISABLED", "true");
            command
        };
        let blocks = format!("{}/", dir.join("store").display());
        let meta = format!("redis://{redis}/0");
        let format = [
            "format",
            "--storage",
            "file",
            "--bucket",
            &blocks,
            &meta,
            BUCKET,
        ];
        run(juicefs(&format)).await?;
        let store_process = juicefs(&["gateway", "--no-usage-report", "--cache-size=0"])
            .args(["--metrics=127.0.0.1:0", &meta, &store.to_string()])
            .env("MINIO_ROOT_USER", KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        server::accepts(store, Duration::from_secs(30)).await?;
        let link = Link::to(store).await?;

        let volume = format!("redis://{redis}/1");
        let bucket = format!("http://{}/{BUCKET}", link.address);
        let format = [
            "format",
            "--storage",
            "minio",
            "--bucket",
            &bucket,
            &volume,
            "data",
        ];
        run(keyed(juicefs(&format))).await?;
        let (at, cache) = (dir.join("mount"), dir.join("cache"));
        mount(installed, dir, &volume, &at, &cache).await?;
        let runtime = serve(installed, dir, at, cache).await?;
        Ok(Servers {
            installed: installed.to_owned(),
            dir: dir.to_owned(),
            redis,
            link,
            runtime,
            asked: std::cell::Cell::new(0),
            _processes: [redis_process, store_process],
        })
    }

    /// Seconds of CPU that the mount has taken so far.
    pub(crate) fn mount_cpu(&self) -> anyhow::Result<f64> {
        let counters = std::fs::read_to_string(self.mount().join(".stats"))?;
        let mut lines = counters.lines();
        let seconds = lines.find_map(|line| line.strip_prefix("juicefs_cpu_usage "));
        Ok(seconds
            .context("the mount does not tell its CPU")?
            .trim()
            .parse()?)
    }

    /// Where the volume is mounted.
    pub(crate) fn mount(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// Where JuiceFS, s3fs and the S3 server keep data.
    pub(crate) fn on_disk(&self) -> Vec<PathBuf> {
        ["cache", "s3fs-cache", "store"]
            .map(|name| self.dir.join(name))
            .into()
    }

    /// A folder of the source, in the S3 server.
    pub(crate) fn source(&self, folder: &str) -> String {
        format!("minio://{}/{BUCKET}/source/{folder}/", self.link.address)
    }

    /// A plain command of JuiceFS to its end.
    pub(crate) async fn juicefs(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(self.installed.join("juicefs/juicefs"));
        command.arg("--no-agent").args(words);
        // For `jfs://volume/`.
        command.env("volume", self.metaurl());
        run(keyed(command)).await
    }

    fn metaurl(&self) -> String {
        format!("redis://{}/1", self.redis)
    }

    /// The same by our own server.
    pub(crate) async fn operate(&self, task: Task) -> anyhow::Result<()> {
        let id = format!("job-{}", self.asked.replace(self.asked.get() + 1));
        let job = NewJob {
            id: id.clone(),
            owner: "bench".to_owned(),
            credentials: matches!(task, Task::Sync(_)).then(|| Credentials {
                access_key: Some(KEY.to_owned()),
                secret_key: Some(SECRET.to_owned()),
                metaurl: self.metaurl(),
            }),
            task,
        };
        let mut job = self.runtime.client.post(&job).await?;
        while !job.state.has_ended() {
            let poll = Poll {
                since: job.revision,
                wait: Duration::from_secs(20),
            };
            job = self.runtime.client.job(&id, Some(poll)).await?;
        }
        match job.state {
            JobState::Succeeded(_) => Ok(()),
            other => bail!("{other:?}"),
        }
    }

    /// What our own server tells of the cache.
    pub(crate) async fn cache(&self, poll: Poll) -> anyhow::Result<Cache> {
        Ok(self.runtime.client.cache(Some(poll)).await?)
    }

    /// Mounts the source by s3fs, with a cache that is empty.
    pub(crate) async fn s3fs(&self) -> anyhow::Result<S3fs> {
        let program = self.installed.join("s3fs/bin/s3fs");
        let (at, cache) = (self.dir.join("s3fs"), self.dir.join("s3fs-cache"));
        let _: std::io::Result<()> = fs::remove_dir_all(&cache);
        fs::create_dir_all(&at)?;
        let keys = self.dir.join("s3fs-keys");
        fs::write(&keys, format!("{KEY}:{SECRET}"))?;
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&keys, private)?;
        let options = format!(
            "url=http://{},use_path_request_style,passwd_file={},use_cache={}",
            self.link.address,
            keys.display(),
            cache.display()
        );
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", self.installed.join("s3fs/lib"))
            .arg(format!("{BUCKET}:/source/images"))
            .arg(&at)
            .args(["-o", &options]);
        run(command).await?;
        let mount = S3fs(at);
        let begin = Instant::now();
        while !mount.0.join("class-0").exists() {
            if begin.elapsed() > Duration::from_secs(20) {
                bail!("s3fs shows nothing at {}", mount.0.display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(mount)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        unmount(&self.mount());
    }
}

/// Mounts the volume as the operator has it mounted for a set that says nothing of it.
async fn mount(
    installed: &Path,
    dir: &Path,
    metaurl: &str,
    at: &Path,
    cache: &Path,
) -> anyhow::Result<()> {
    let set: SampleSet = serde_json::from_value(json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleSet",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {"partitions": 1},
    }))?;
    let settings = Settings {
        // A disk that is nearly full will do too: it is little data.
        free_space_ratio: Some(0.01),
        ..Settings::default()
    };
    let secret = [
        ("name", "data"),
        ("storage", "minio"),
        ("bucket", "not needed any more"),
        ("metaurl", metaurl),
    ];
    let secret = secret.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    fs::create_dir_all(at)?;
    let mount = Mount {
        volume: &Volume::from_secret(&secret.into())?,
        options: &MountOptions::parse(&mount_options(&set, &settings))?,
        cache_dirs: &[cache.to_owned()],
        at,
        log: &dir.join("mount.log"),
    };
    let juicefs = Juicefs::new(installed.join("juicefs/juicefs"));
    juicefs.mount(&mount).await?;
    Ok(())
}

/// A mount of s3fs.
pub(crate) struct S3fs(pub(crate) PathBuf);

impl Drop for S3fs {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn unmount(at: &Path) {
    let mut command = std::process::Command::new("umount");
    // It may be busy for a moment.
    let _: std::io::Result<_> = command.arg("-l").arg(at).status();
}

/// Our own server, on a thread of its own.
struct Runtime {
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

/// Starts our own server beside the mount.
async fn serve(
    installed: &Path,
    dir: &Path,
    data_dir: PathBuf,
    cache: PathBuf,
) -> anyhow::Result<Runtime> {
    let identity = Identity::generate()?;
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        fs::write(&file, text).map(|()| file)
    };
    let server = cache::Server::bind(cache::Options {
        data_dir,
        state_dir: dir.join("runtime"),
        cache_dirs: vec![cache],
        tls_certificate: write("tls.crt", &identity.certificate)?,
        tls_key: write("tls.key", &identity.key)?,
        token_file: write("token", &identity.token)?,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        juicefs: installed.join("juicefs/juicefs"),
    });
    let server = server.await?;
    let client = Client::new(server.address()?, &identity.certificate, &identity.token)?;
    let runtime = tokio::runtime::Handle::current();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let thread = std::thread::spawn(move || runtime.block_on(server.run(stopped)));
    Ok(Runtime {
        client,
        stop: Some(stop),
        thread: Some(thread),
    })
}

fn keyed(mut command: Command) -> Command {
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("MINIO_ACCESS_KEY", KEY)
        .env("MINIO_SECRET_KEY", SECRET)
        .env("ACCESS_KEY", KEY)
        .env("SECRET_KEY", SECRET);
    command
}

async fn run(mut command: Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{:?}: {said}", command.as_std().get_program());
    }
    Ok(())
}
