//! Volumes that can't be mounted, and that it is said why.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};

use super::{make_volume, secret, start_redis, with_data};
use crate::servers::{ACCESS_KEY, TELLTALE};
use crate::support::Local;

/// All that anybody could read of it, but for the Secret itself.
fn everything(local: &Local) -> String {
    let files = local.files().into_iter();
    files.map(|(_, text)| text).collect()
}

/// What is said soon of a pod that waits for its volume.
async fn complaint(client: &Client, pod: &str) -> String {
    let (events, begin) = (
        Api::<Event>::default_namespaced(client.clone()),
        Instant::now(),
    );
    loop {
        let told = events.list(&Default::default()).await.unwrap();
        let mut told = told.into_iter().filter(|event| {
            event.reason.as_deref() == Some("FailedMount")
                && event.involved_object.name.as_deref() == Some(pod)
        });
        if let Some(event) = told.next() {
            return event.message.unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing is said");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_said_but_not_told() {
    const WRONG: &str = "wrong-pass-of-Redis-82";
    let redis = start_redis();
    let local = Local::start(&[]);
    let client = local.client().await;
    let wrong = redis.metaurl_by(&format!(":{WRONG}"), 0);
    make_volume(&client, &redis, &wrong).await;
    let pods = local.pods().await;
    pods.create(with_data("waits", 0, "cat /data/.config; echo there"))
        .await;
    let is_told = |pod: &Pod| {
        let status = pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        let waiting = statuses.and_then(|all| all[0].state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.message.is_some())
    };
    let pod = pods.until("waits", "told why it waits", is_told).await;
    let said = complaint(&client, "waits").await;
    assert!(
        said.contains("MountVolume.SetUp failed for volume \"data\"")
            && said.contains("password in metaurl"),
        "{said}"
    );
    let told = format!("{said} {pod:?} {}", everything(&local));
    assert!(!told.contains(WRONG) && !told.contains(TELLTALE.as_str()));
    // With the right one it goes on by itself.
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let right = secret(&redis, &redis.metaurl(0));
    let patch = Patch::Merge(&right);
    secrets
        .patch("data", &PatchParams::default(), &patch)
        .await
        .unwrap();
    pods.phase("waits", "Succeeded").await;
    let told = format!("{} {}", pods.log("waits").await, everything(&local));
    assert!(told.contains("there"));
    // JuiceFS itself shows the access key, a user's name here, to whoever has the volume.
    let told = told.replace(ACCESS_KEY.as_str(), "");
    assert!(!told.contains(TELLTALE.as_str()));
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let mut redis = start_redis();
    let local = Local::start(&[]);
    let client = local.client().await;
    make_volume(&client, &redis, &redis.metaurl(0)).await;
    redis.kill();
    let pods = local.pods().await;
    pods.create(with_data("waits", 0, "true")).await;
    let said = complaint(&client, "waits").await;
    let server = format!(
        "metaurl of the secret: no Redis answers at {}",
        redis.address
    );
    assert!(said.contains(&server), "{said}");
    pods.delete("waits").await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    secrets.delete("data", &Default::default()).await.unwrap();
    pods.create(with_data("again", 0, "true")).await;
    let said = complaint(&client, "again").await;
    assert!(said.contains("secret default/data not found"), "{said}");
    pods.delete("again").await;
}
