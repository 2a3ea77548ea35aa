//! The API on a socket lets in who knows the token, by a name of its own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod support;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use localkube::Credentials;
use support::File;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Fixture {
    address: SocketAddr,
    kubeconfig: String,
    stop: oneshot::Sender<()>,
    server: JoinHandle<std::io::Result<()>>,
    dir: PathBuf,
    _file: File,
}

/// An empty directory.
fn dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

impl Fixture {
    async fn new(name: &str) -> Fixture {
        let (file, dir) = (File::new(&format!("serve-{name}")), dir(name));
        let api = localkube::Api::open(&file.0).await.unwrap();
        let router = localkube::http::router(api, axum::Router::new());
        let names = ["cluster.example.com".to_owned()];
        let credentials = Credentials::in_dir(&dir, &names).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = credentials.kubeconfig(&format!("https://{address}"));
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let server = tokio::spawn(localkube::serve(listener, router, credentials, shutdown));
        Fixture {
            address,
            kubeconfig,
            stop,
            server,
            dir,
            _file: file,
        }
    }

    async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap()
    }

    async fn client(&self) -> Client {
        Client::try_from(self.config().await).unwrap()
    }
}

/// The code with which a request is answered.
async fn code(client: &Client, request: http::request::Builder) -> u16 {
    let request = request.body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn the_kubeconfig_opens_the_door() {
    let fixture = Fixture::new("door").await;
    let namespaces: Api<Namespace> = Api::all(fixture.client().await);
    let found = namespaces.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items.len(), 2);
    for name in ["ca.crt", "ca.key", "token"] {
        let mode = std::fs::metadata(fixture.dir.join(name))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    let again = Credentials::in_dir(&fixture.dir, &[]).unwrap();
    let server = format!("https://{}", fixture.address);
    assert_eq!(again.kubeconfig(&server), fixture.kubeconfig);
    let other = Credentials::in_dir(&dir("other"), &[]).unwrap();
    assert_ne!(other.kubeconfig(&server), fixture.kubeconfig);
}

#[tokio::test]
async fn without_the_token_nothing_is_told() {
    let fixture = Fixture::new("token").await;
    let mut config = fixture.config().await;
    config.auth_info.token = None;
    let anonymous = Client::try_from(config.clone()).unwrap();
    for path in ["/", "/version", "/healthz", "/api/v1/pods", "/nothing"] {
        assert_eq!(
            code(&anonymous, http::Request::get(path)).await,
            401,
            "{path}"
        );
    }
    config.auth_info.token = Some("AAAA".to_owned().into());
    let wrong = Client::try_from(config).unwrap();
    assert_eq!(code(&wrong, http::Request::get("/version")).await, 401);
}

#[tokio::test]
async fn only_names_of_our_own_are_answered() {
    let fixture = Fixture::new("host").await;
    let client = fixture.client().await;
    for (host, wanted) in [
        ("127.0.0.1", 200),
        ("127.0.0.1:6443", 200),
        ("[::1]:6443", 200),
        ("LocalHost:6443", 200),
        ("cluster.example.com:1", 200),
        ("evil.example.com", 403),
        ("evil.example.com:6443", 403),
        ("localhost.evil.example.com", 403),
        ("192.0.2.1", 403),
        ("", 403),
    ] {
        let request = http::Request::get("/version").header("host", host);
        assert_eq!(code(&client, request).await, wanted, "{host}");
    }
}

#[tokio::test]
async fn heads_have_an_end() {
    let fixture = Fixture::new("heads").await;
    let client = fixture.client().await;
    let request = http::Request::get("/version").header("x", "y".repeat(1 << 20));
    let answer = client.request_text(request.body(Vec::new()).unwrap()).await;
    assert!(answer.is_err());
    assert_eq!(code(&client, http::Request::get("/version")).await, 200);
}

/// Who says nothing keeps nobody from being served, and who watches does not
/// keep the server from ending.
#[tokio::test]
async fn it_ends_while_others_wait() {
    let fixture = Fixture::new("end").await;
    let mut silent = TcpStream::connect(fixture.address).await.unwrap();
    let maps: Api<ConfigMap> = Api::all(fixture.client().await);
    let watch = maps.watch(&WatchParams::default(), "0").await.unwrap();
    fixture.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), fixture.server).await;
    ended.unwrap().unwrap().unwrap();
    assert!(
        watch
            .map(|event| event.is_ok())
            .all(|ok| async move { !ok })
            .await
    );
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(fixture.address).await.is_err());
}
