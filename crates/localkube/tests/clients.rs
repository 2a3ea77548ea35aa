//! Many clients at once, over TLS: no watcher misses or doubles an event.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use localkube::Credentials;
use serde_json::json;
use support::File;
use tokio::net::TcpListener;

const WRITERS: usize = 16;
const WATCHERS: usize = 4;
/// Each makes, changes and deletes; together these are 1,008 writes.
const ROUNDS: usize = 21;

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"round": "0"}})).unwrap()
}

async fn write(maps: Api<ConfigMap>, writer: usize) {
    for round in 0..ROUNDS {
        let name = format!("{writer}-{round}");
        let made = maps
            .create(&PostParams::default(), &map(&name))
            .await
            .unwrap();
        let patch = Patch::Merge(json!({"data": {"round": "1"}}));
        let patched = maps
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        assert!(version(&patched) > version(&made));
        maps.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// Follows all maps from a version to the one named `end`: the events, and the
/// versions in their order.
async fn follow(maps: Api<ConfigMap>, since: String) -> Vec<(u64, String, &'static str)> {
    let params = WatchParams::default().timeout(120);
    let mut events = maps.watch(&params, &since).await.unwrap().boxed();
    let mut seen = Vec::new();
    loop {
        let (kind, map) = match events.try_next().await.unwrap() {
            Some(WatchEvent::Added(map)) => ("added", map),
            Some(WatchEvent::Modified(map)) => ("modified", map),
            Some(WatchEvent::Deleted(map)) => ("deleted", map),
            Some(WatchEvent::Bookmark(_)) => continue,
            other => panic!("{other:?}"),
        };
        if map.name_any() == "end" {
            return seen;
        }
        seen.push((version(&map), map.name_any(), kind));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_write_and_four_watch() {
    let file = File::new("clients");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clients");
    let credentials = Credentials::in_dir(&dir, &[]).unwrap();
    let api = localkube::Api::open(&file.0).await.unwrap();
    let router = localkube::http::router(api, axum::Router::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let kubeconfig = credentials.kubeconfig(&server);
    let forever = std::future::pending();
    let server = tokio::spawn(localkube::serve(listener, router, credentials, forever));
    let own: Api<ConfigMap> = Api::default_namespaced(client(&kubeconfig).await);
    let first = own
        .create(&PostParams::default(), &map("first"))
        .await
        .unwrap();
    let since = first.resource_version().unwrap();
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let maps = Api::default_namespaced(client(&kubeconfig).await);
        watchers.push(tokio::spawn(follow(maps, since.clone())));
    }
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let maps = Api::default_namespaced(client(&kubeconfig).await);
        writers.push(tokio::spawn(write(maps, writer)));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // One that comes late is told the same.
    let late = tokio::spawn(follow(own.clone(), since));
    own.create(&PostParams::default(), &map("end"))
        .await
        .unwrap();
    let late = tokio::time::timeout(Duration::from_secs(60), late).await;
    let wanted = late.unwrap().unwrap();
    assert_eq!(wanted.len(), WRITERS * ROUNDS * 3);
    assert!(
        wanted.iter().is_sorted_by(|a, b| a.0 < b.0),
        "each version is told once"
    );
    let mut lives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, name, kind) in &wanted {
        lives.entry(name).or_default().push(kind);
    }
    assert!(
        lives
            .values()
            .all(|life| *life == ["added", "modified", "deleted"])
    );
    for watcher in watchers {
        let seen = tokio::time::timeout(Duration::from_secs(60), watcher).await;
        assert_eq!(seen.unwrap().unwrap(), wanted);
    }
    server.abort();
}
