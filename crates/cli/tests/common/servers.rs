//! What a data set needs that is not the operator's: a Redis, and a server of S3. Both
//! ask for keys.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::installed::installed;

/// What no file, line or message but a Secret may hold. It is another in each run: whatever
/// else runs on the machine has keys of its own.
pub static TELLTALE: LazyLock<String> = LazyLock::new(|| {
    let now = UNIX_EPOCH.elapsed().unwrap();
    format!("unseen-{:08x}", now.subsec_nanos())
});
/// The user of S3, and of the database of Redis that holds blocks.
pub static ACCESS_KEY: LazyLock<String> = LazyLock::new(|| format!("AK-{}", *TELLTALE));
/// The password of both, with what URLs write in another way.
pub static SECRET_KEY: LazyLock<String> = LazyLock::new(|| format!("SK/{}+7", *TELLTALE));
/// The user of the database of Redis that holds metadata: no secret.
const USER: &str = "operator";

/// The bucket of S3.
pub const BUCKET: &str = "public";

/// A process that ends with the test.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

/// A Redis that keeps what it has.
pub struct Redis {
    process: Option<Ending>,
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
        for user in [USER, &ACCESS_KEY] {
            configuration += &format!("user {user} on \">{}\" ~* &* +@all\n", *SECRET_KEY);
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
        let process = Command::new(installed("redis/bin/redis-server"))
            .env("LD_LIBRARY_PATH", installed("redis/lib"))
            .arg("redis.conf")
            .current_dir(self.dir.path())
            .stdout(Stdio::null())
            .spawn();
        self.process = Some(Ending(process.unwrap()));
        answers(self.address);
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Makes it deaf, until [`Redis::thaw`].
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.process.as_ref().unwrap().0.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// A database of it, for whoever has the password.
    pub fn metaurl(&self, database: u8) -> String {
        let password = SECRET_KEY.replace('/', "%2F").replace('+', "%2B");
        self.metaurl_by(&format!(":{password}"), database)
    }

    /// The same for command lines; `META_PASSWORD` is the password.
    pub fn keyless(&self, database: u8) -> String {
        self.metaurl_by("", database)
    }

    /// The same with another password, after a colon.
    pub fn metaurl_by(&self, password: &str, database: u8) -> String {
        format!("redis://{USER}{password}@{}/{database}", self.address)
    }

    /// A database of it, as everybody may know it.
    pub fn bucket(&self, database: u8) -> String {
        format!("redis://{}/{database}", self.address)
    }

    /// The Secret of a volume in two databases of it, which also has the keys of [`S3`].
    pub fn secret(&self, name: &str, databases: (u8, u8)) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "paddle-system"},
            "stringData": {
                "name": name,
                "storage": "redis",
                "bucket": self.bucket(databases.1),
                "metaurl": self.metaurl(databases.0),
                "access-key": ACCESS_KEY.as_str(),
                "secret-key": SECRET_KEY.as_str(),
            },
        })
    }
}

/// A server of S3 with a bucket.
pub struct S3 {
    pub address: SocketAddr,
    _process: Ending,
    _dir: TempDir,
}

impl S3 {
    /// With the files below `content`.
    pub fn start(ip: IpAddr, content: &Path) -> S3 {
        let dir = tempfile::tempdir().unwrap();
        let meta = format!("sqlite3://{}/meta.db", dir.path().display());
        format_volume(&meta, BUCKET, &dir.path().join("store"));
        let from = format!("file://{}/", content.display());
        let to = format!("jfs://{BUCKET}/");
        juicefs(
            &["sync", &from, &to, "--metrics", "127.0.0.1:0"],
            &[(BUCKET, &meta)],
        );
        let address = free_address(ip);
        S3 {
            address,
            _process: gateway(&meta, address, &dir.path().join("cache")),
            _dir: dir,
        }
    }

    /// The address of a folder of the bucket.
    pub fn folder(&self, path: &str) -> String {
        format!("minio://{}/{BUCKET}/{path}", self.address)
    }
}

/// Makes a volume of JuiceFS whose blocks are in a directory.
pub fn format_volume(meta: &str, name: &str, store: &Path) {
    let store = format!("{}/", store.display());
    let to = ["--storage", "file", "--bucket", &store];
    juicefs(&[&["format"], &to[..], &[meta, name]].concat(), &[]);
}

/// Serves a volume of JuiceFS as a bucket of its name.
pub fn gateway(meta: &str, address: SocketAddr, cache: &Path) -> Ending {
    let process = juicefs_command()
        .args(["gateway", "--no-usage-report"])
        .args(["--metrics", "127.0.0.1:0", "--cache-size", "0"])
        .arg("--cache-dir")
        .arg(cache)
        .args([meta, &address.to_string()])
        .env("MINIO_ROOT_USER", ACCESS_KEY.as_str())
        .env("MINIO_ROOT_PASSWORD", SECRET_KEY.as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let process = Ending(process.unwrap());
    answers(address);
    process
}

/// Runs a juicefs command that must end well; what it prints.
pub fn juicefs(arguments: &[&str], environment: &[(&str, &str)]) -> Vec<u8> {
    let mut command = juicefs_command();
    command.args(arguments).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

fn juicefs_command() -> Command {
    let mut command = Command::new(installed("juicefs/juicefs"));
    command
        .arg("--no-agent")
        .env("META_PASSWORD", SECRET_KEY.as_str())
        .env("AWS_EC2_METADATA_DISABLED", "true");
    command
}
