//! Volumes of JuiceFS: with the real juicefs and a real Redis, which `make examples`
//! installs.

mod mounts;
mod trouble;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::servers::{ACCESS_KEY, Redis, SECRET_KEY};
use crate::support::script;

/// Where the volume's blocks are cached, on each node.
const CACHE: &str = "/var/lib/juicefs/default.data";

/// Waits for something.
async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn start_redis() -> Redis {
    Redis::start(Ipv4Addr::LOCALHOST.into())
}

/// What a Secret says of a volume, as `echo … | base64` leaves it.
fn secret(redis: &Redis, metaurl: &str) -> Value {
    json!({"stringData": {
        "name": "data\n",
        "storage": "redis\n",
        "bucket": format!("{}\n", redis.bucket(1)),
        "metaurl": format!("{metaurl}\n"),
        "access-key": format!("{}\n", *ACCESS_KEY),
        "secret-key": format!("{}\n", *SECRET_KEY),
    }})
}

/// Makes the Secret, the volume and the claim `data`, as a SampleSet has them.
async fn make_volume(client: &Client, redis: &Redis, metaurl: &str) {
    let mut secret = secret(redis, metaurl);
    secret["metadata"] = json!({"name": "data"});
    let volume = json!({
        "metadata": {"name": "default-data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "data"},
            "mountOptions": [format!("cache-dir={CACHE}"), "cache-size=100", "free-space-ratio=0.01"],
            "csi": {
                "driver": "csi.juicefs.com",
                "volumeHandle": "default-data",
                "nodePublishSecretRef": {"namespace": "default", "name": "data"},
            },
        },
    });
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": "default-data",
        },
    });
    let params = PostParams::default();
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&params, &secret).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = serde_json::from_value(volume).unwrap();
    volumes.create(&params, &volume).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = serde_json::from_value(claim).unwrap();
    claims.create(&params, &claim).await.unwrap();
}

/// A pod on a node that has the volume at `/data`, and read-only at `/ro`.
fn with_data(name: &str, node: usize, text: &str) -> Value {
    let mut pod = script(name, text);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": format!("node-{node}")});
    pod["spec"]["volumes"] = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/ro", "readOnly": true},
    ]);
    pod
}
