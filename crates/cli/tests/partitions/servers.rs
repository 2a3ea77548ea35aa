//! What the volume lives in: a Redis, and an S3 server behind a proxy that counts.
//! They listen where pods reach the machine.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const PASSWORD: &str = "pass-of-Redis-37";
const ACCESS_KEY: &str = "key-of-the-store";
const SECRET_KEY: &str = "secret-of-the-store";
/// The volume that the S3 server itself lives in, which is also its bucket.
const BUCKET: &str = "store";
/// Databases of Redis: of the S3 server, and of the volume.
const OF_STORE: u8 = 0;
const OF_VOLUME: u8 = 1;

/// What `make examples` installs.
pub fn installed(name: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let given = std::env::var_os("PADDLE_OPERATOR_CACHE").map(PathBuf::from);
    let path = given.unwrap_or(cache.join("paddle-operator")).join(name);
    assert!(path.exists(), "no {}: run `make examples`", path.display());
    path
}

/// Ends a process.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All servers.
pub struct Servers {
    redis: SocketAddrV4,
    s3: SocketAddrV4,
    gets: Arc<AtomicUsize>,
    _processes: [Ending; 2],
    _dir: TempDir,
}

impl Servers {
    /// For the local mode in a directory.
    pub async fn start(state: &Path) -> Servers {
        let dir = tempfile::tempdir().unwrap();
        let host = bridge(state);
        let redis = free(host);
        let redis_process = start_redis(redis, dir.path());
        until_it_answers(redis).await;
        let store = free(Ipv4Addr::LOCALHOST);
        let store_process = start_store(&url(redis, OF_STORE), store, dir.path());
        until_it_answers(store).await;
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let SocketAddr::V4(s3) = listener.local_addr().unwrap() else {
            panic!("it has another address");
        };
        let gets = Arc::default();
        tokio::spawn(serve(listener, store, Arc::clone(&gets)));
        Servers {
            redis,
            s3,
            gets,
            _processes: [redis_process, store_process],
            _dir: dir,
        }
    }

    /// How many blocks were asked for.
    pub fn gets(&self) -> usize {
        self.gets.load(Ordering::SeqCst)
    }

    /// Where the metadata of the volume is.
    pub fn metaurl(&self) -> String {
        url(self.redis, OF_VOLUME)
    }

    /// The volume, as a SampleSet is told.
    pub fn secret(&self, name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "stringData": {
                "name": name,
                "storage": "minio",
                "bucket": format!("http://{}/{BUCKET}", self.s3),
                "metaurl": self.metaurl(),
                "access-key": ACCESS_KEY,
                "secret-key": SECRET_KEY,
            },
        })
    }
}

/// The address of the machine in the network of the pods: the first one.
fn bridge(state: &Path) -> Ipv4Addr {
    let network = fs::read_to_string(state.join("network.json")).unwrap();
    let network: Value = serde_json::from_str(&network).unwrap();
    let first: Ipv4Addr = network["network"].as_str().unwrap().parse().unwrap();
    Ipv4Addr::from(u32::from(first) + 1)
}

fn free(host: Ipv4Addr) -> SocketAddrV4 {
    let listener = std::net::TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    SocketAddrV4::new(host, port)
}

fn url(redis: SocketAddrV4, database: u8) -> String {
    format!("redis://:{PASSWORD}@{redis}/{database}")
}

async fn until_it_answers(server: SocketAddrV4) {
    let begin = Instant::now();
    while TcpStream::connect(server).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{server}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn start_redis(at: SocketAddrV4, dir: &Path) -> Ending {
    let process = Command::new(installed("redis/bin/redis-server"))
        .env("LD_LIBRARY_PATH", installed("redis/lib"))
        .args(["--save", "", "--requirepass", PASSWORD])
        .args(["--bind", &at.ip().to_string()])
        .args(["--port", &at.port().to_string()])
        .current_dir(dir)
        .stdout(Stdio::null())
        .spawn();
    Ending(process.unwrap())
}

/// The gateway of JuiceFS is an S3 server.
fn start_store(metaurl: &str, at: SocketAddrV4, dir: &Path) -> Ending {
    let juicefs = || {
        let mut command = Command::new(installed("juicefs/juicefs"));
        command
            .arg("--no-agent")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let blocks = format!("{}/", dir.join("blocks").display());
    let formatted = juicefs()
        .args(["format", "--storage", "file", "--bucket", &blocks])
        .args([metaurl, BUCKET])
        .status();
    assert!(formatted.unwrap().success());
    let process = juicefs()
        .args(["gateway", "--no-usage-report", "--cache-size", "0"])
        .args(["--metrics", "127.0.0.1:0"])
        .args([metaurl, &at.to_string()])
        .env("MINIO_ROOT_USER", ACCESS_KEY)
        .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
        .spawn();
    Ending(process.unwrap())
}

/// Hands on all connections.
async fn serve(listener: TcpListener, to: SocketAddrV4, gets: Arc<AtomicUsize>) {
    while let Ok((client, _)) = listener.accept().await {
        let gets = Arc::clone(&gets);
        tokio::spawn(async move {
            let server = TcpStream::connect(to).await?;
            // Else each small answer waits 40 ms for company.
            server.set_nodelay(true)?;
            client.set_nodelay(true)?;
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            hand_on(from_client, to_server, &gets).await
        });
    }
}

/// Hands on requests, and counts those for blocks.
async fn hand_on(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    gets: &AtomicUsize,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let (mut head, mut body) = (Vec::new(), 0);
        loop {
            let start = head.len();
            if from.read_until(b'\n', &mut head).await? == 0 {
                return Ok(());
            }
            let line = String::from_utf8_lossy(&head[start..]).to_lowercase();
            if start == 0 && line.starts_with("get ") && line.contains("/chunks/") {
                gets.fetch_add(1, Ordering::SeqCst);
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                body = length.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        to.write_all(&head).await?;
        tokio::io::copy(&mut (&mut from).take(body), &mut to).await?;
    }
}
