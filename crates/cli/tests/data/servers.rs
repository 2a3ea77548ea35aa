//! What a data set needs that is not the operator's: a Redis, and a server of S3.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::installed::installed;

/// The user of S3, and of the database of Redis that holds blocks.
pub const ACCESS_KEY: &str = "AK-visible-nowhere";
/// The password of both, with what URLs write in another way.
pub const SECRET_KEY: &str = "SK/visible-nowhere+7";
/// The same in a URL.
const SECRET_KEY_IN_URL: &str = "SK%2Fvisible-nowhere%2B7";
/// The user of the database of Redis that holds metadata: no secret.
const USER: &str = "operator";
/// What no file, line or message but a Secret may hold.
pub const TELLTALE: &str = "visible-nowhere";

/// The bucket of the source.
pub const BUCKET: &str = "public";

/// A port that nobody uses.
pub fn free_address(ip: IpAddr) -> SocketAddr {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

fn answers(address: SocketAddr) {
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        let patience = Duration::from_secs(60);
        assert!(begin.elapsed() < patience, "nobody answers at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A Redis that keeps what it has, and asks for a user and a password.
pub struct Redis {
    process: Option<Child>,
    pub address: SocketAddr,
    dir: TempDir,
}

impl Redis {
    pub fn start(ip: IpAddr) -> Redis {
        let dir = tempfile::tempdir().unwrap();
        let address = free_address(ip);
        let (ip, port) = (address.ip(), address.port());
        // Nobody is the user `default`, who all the same needs every right: in his
        // name Redis reads what it had before a restart.
        let mut configuration = format!(
            "bind {ip}\nport {port}\nappendonly yes\nsave \"\"\nuser default off ~* &* +@all\n"
        );
        for user in [USER, ACCESS_KEY] {
            configuration += &format!("user {user} on \">{SECRET_KEY}\" ~* &* +@all\n");
        }
        fs::write(dir.path().join("redis.conf"), configuration).unwrap();
        let mut redis = Redis {
            process: None,
            address,
            dir,
        };
        redis.run();
        redis
    }

    /// Starts it, again perhaps, with what it had.
    pub fn run(&mut self) {
        let redis = installed("redis");
        let process = Command::new(redis.join("bin/redis-server"))
            .env("LD_LIBRARY_PATH", redis.join("lib"))
            .arg("redis.conf")
            .current_dir(self.dir.path())
            .stdout(Stdio::null())
            .spawn();
        self.process = Some(process.unwrap());
        answers(self.address);
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Makes it deaf, until [`Redis::thaw`].
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// A database of it, for whoever has the password.
    pub fn metaurl(&self, database: u8) -> String {
        let address = self.address;
        format!("redis://{USER}:{SECRET_KEY_IN_URL}@{address}/{database}")
    }

    /// A database of it, as everybody may know it.
    pub fn bucket(&self, database: u8) -> String {
        format!("redis://{}/{database}", self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server of S3 with a bucket.
pub struct S3 {
    process: Child,
    pub address: SocketAddr,
    _dir: TempDir,
}

impl S3 {
    /// With the files below `content`.
    pub fn start(ip: IpAddr, content: &Path) -> S3 {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let meta = format!("sqlite3://{}", path("meta.db"));
        let store = format!("{}/", path("store"));
        juicefs(
            &[
                "format",
                "--storage",
                "file",
                "--bucket",
                &store,
                &meta,
                BUCKET,
            ],
            &[],
        );
        let from = format!("file://{}/", content.display());
        juicefs(
            &["sync", &from, "jfs://public/", "--metrics", "127.0.0.1:0"],
            &[(BUCKET, &meta)],
        );
        let address = free_address(ip);
        let process = Command::new(installed("juicefs/juicefs"))
            .args(["--no-agent", "gateway", "--metrics", "127.0.0.1:0"])
            .args(["--cache-dir", &path("cache"), &meta, &address.to_string()])
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        answers(address);
        S3 {
            process,
            address,
            _dir: dir,
        }
    }

    /// The address of a folder of the bucket.
    pub fn folder(&self, path: &str) -> String {
        format!("minio://{}/{BUCKET}/{path}", self.address)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn juicefs(arguments: &[&str], environment: &[(&str, &str)]) {
    let output = Command::new(installed("juicefs/juicefs"))
        .arg("--no-agent")
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}
