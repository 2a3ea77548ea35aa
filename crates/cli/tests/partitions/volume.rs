//! What the volume lives in: a Redis, and an S3 server behind a proxy that counts.
//! They listen where pods reach the machine.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::servers::{
    ACCESS_KEY, BUCKET, Ending, Redis, SECRET_KEY, format_volume, free_address, gateway, juicefs,
};

/// Databases of Redis: of the S3 server, and of the volume.
const OF_STORE: u8 = 0;
const OF_VOLUME: u8 = 1;

/// All servers.
pub struct Servers {
    s3: SocketAddr,
    gets: Arc<AtomicUsize>,
    /// First, for it lives in the other.
    _store: Ending,
    redis: Redis,
    _dir: TempDir,
}

impl Servers {
    /// For the local mode in a directory.
    pub async fn start(state: &Path) -> Servers {
        let dir = tempfile::tempdir().unwrap();
        let host = bridge(state);
        let redis = Redis::start(host.into());
        let meta = redis.keyless(OF_STORE);
        format_volume(&meta, BUCKET, &dir.path().join("blocks"));
        let store = free_address(Ipv4Addr::LOCALHOST.into());
        let process = gateway(&meta, store, &dir.path().join("cache"));
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let s3 = listener.local_addr().unwrap();
        let gets = Arc::default();
        tokio::spawn(serve(listener, store, Arc::clone(&gets)));
        Servers {
            s3,
            gets,
            _store: process,
            redis,
            _dir: dir,
        }
    }

    /// How many blocks were asked for.
    pub fn gets(&self) -> usize {
        self.gets.load(Ordering::SeqCst)
    }

    /// All that the metadata of the volume says.
    pub fn dump(&self) -> Value {
        let meta = self.redis.keyless(OF_VOLUME);
        serde_json::from_slice(&juicefs(&["dump", &meta], &[])).unwrap()
    }

    /// The volume, as a SampleSet is told.
    pub fn secret(&self, name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "stringData": {
                "name": name,
                "storage": "minio",
                "bucket": format!("http://{}/{BUCKET}", self.s3),
                "metaurl": self.redis.metaurl(OF_VOLUME),
                "access-key": ACCESS_KEY.as_str(),
                "secret-key": SECRET_KEY.as_str(),
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

/// Hands on all connections.
async fn serve(listener: TcpListener, to: SocketAddr, gets: Arc<AtomicUsize>) {
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
