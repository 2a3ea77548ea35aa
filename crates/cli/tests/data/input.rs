//! What users get wrong: it is said what to do, and once that is done all goes on.

use std::net::SocketAddr;
use std::path::Path;

use api::{PaddleJob, SampleJob, SampleJobPhase, SampleJobStatus, SampleSet, SampleSetPhase};
use cache_api::{Client, Error, PORT};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::bed::{Bed, NAMESPACE, fill, until};
use crate::servers::{SECRET_KEY, TELLTALE, free_address};

/// A name that shells and lists of words would break.
const ODD: &str = "a b'\"c;$(x)";

fn files(bucket: &Path) {
    fill(&bucket.join("files/n0"), 5, 1000);
    fill(&bucket.join("files").join(ODD), 5, 1000);
}

/// A set of a folder, with a Secret.
fn set(uri: &str, secret: &str) -> Value {
    json!({"source": {"uri": uri}, "secretRef": {"name": secret}})
}

/// The same with more in its spec.
fn with(mut set: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    set.as_object_mut().unwrap().extend(more);
    set
}

fn rmr(path: &str) -> Value {
    json!({"type": "rmr", "sampleSetRef": {"name": "data"}, "rmrOptions": {"paths": [path]}})
}

#[tokio::test]
async fn specs_that_can_not_work_say_what_would() {
    let bed = Bed::start(1, files).await;
    bed.create_ready_set("data", "files", 1).await;
    let good = bed.s3.folder("files");
    let level = |path: &str| json!({"cache": {"levels": [{"mediumType": "SSD", "path": path}]}});
    let option = json!({"csi": {"juiceFSMountOptions": {"free-space-ratio": "0.1,allow_other"}}});
    let elsewhere = json!({"secretRef": {"name": "data", "namespace": "default"}});
    let cases = [
        ("no-scheme", set("imagenet/demo", "data"), "no scheme"),
        (
            "bad-scheme",
            set("gopher://bucket/x", "data"),
            "use one of bos",
        ),
        (
            "by-url",
            set("ks3://bucket/x", "data"),
            "use its S3 endpoint",
        ),
        ("comma", with(set(&good, "data"), option), "only letters"),
        (
            "outside",
            with(set(&good, "data"), level("/etc/cache")),
            "lies below none of /dev/shm",
        ),
        (
            "elsewhere",
            with(set(&good, "data"), elsewhere),
            "copy it there",
        ),
        (
            "no-source",
            json!({"secretRef": {"name": "data"}}),
            "noSync",
        ),
    ];
    for (name, spec, _) in &cases {
        bed.create_set(name, spec.clone()).await;
    }
    for (name, _, says) in &cases {
        bed.set_says(name, says).await;
    }

    // Jobs: refused at once, and looked at again when they are corrected.
    let cases = [
        ("up", rmr("../x"), "'..' is not allowed"),
        (
            "over",
            json!({
                "type": "sync",
                "sampleSetRef": {"name": "data"},
                "syncOptions": {"destination": "..", "delete-dst": true},
            }),
            "'..' is not allowed",
        ),
        (
            "threads",
            json!({
                "type": "warmup",
                "sampleSetRef": {"name": "data"},
                "warmupOptions": {"threads": 65_536},
            }),
            "at most 65535",
        ),
        ("root", rmr("/"), "without '/'"),
        ("empty", rmr(""), "name a file or a folder"),
        ("line-break", rmr("a\nb"), "line break"),
        ("trash", rmr(".trash"), "no data"),
        (
            "nowhere",
            rmr("n9"),
            "\"n9\" is not there, the data has a b'\"c;$(x), n0;",
        ),
        (
            "no-list",
            json!({
                "type": "warmup",
                "sampleSetRef": {"name": "data"},
                "warmupOptions": {"file": "n0/list.txt"},
            }),
            "\"n0/list.txt\" is not there, \"n0\" has 0000.JPEG,",
        ),
        (
            "job-by-url",
            json!({
                "type": "sync",
                "sampleSetRef": {"name": "data"},
                "syncOptions": {"source": "ks3://bucket/x"},
            }),
            "use its S3 endpoint",
        ),
        (
            "job-elsewhere",
            json!({
                "type": "sync",
                "sampleSetRef": {"name": "data"},
                "secretRef": {"name": "data", "namespace": "default"},
            }),
            "copy it there",
        ),
        (
            "no-type",
            json!({"sampleSetRef": {"name": "data"}}),
            "sync, warmup, clear or rmr",
        ),
    ];
    for (name, spec, _) in &cases {
        bed.create_job(name, spec.clone()).await;
    }
    for (name, _, says) in &cases {
        let status = bed.job_is(name, SampleJobPhase::Failed).await;
        let message = status.message.unwrap_or_default();
        assert!(message.contains(says), "{name}: {message}");
    }
    bed.patch::<SampleJob>(
        "up",
        json!({"spec": {"rmrOptions": {"paths": [ODD, format!("{ODD}/0000.JPEG"), ODD]}}}),
    )
    .await;
    bed.job_is("up", SampleJobPhase::Succeeded).await;
    let removed = |status: &api::SampleSetStatus| {
        let cache = status.cache_status.as_ref();
        cache.is_some_and(|cache| cache.total_files.as_deref() == Some("5"))
    };
    bed.set("data", "without the odd files", removed).await;

    // Without paths the API itself refuses it.
    let none = json!({
        "apiVersion": "batch.paddlepaddle.org/v1alpha1",
        "kind": "SampleJob",
        "metadata": {"name": "none"},
        "spec": {"type": "rmr", "sampleSetRef": {"name": "data"}},
    });
    let none: SampleJob = serde_json::from_value(none).unwrap();
    let refused = bed.api().create(&PostParams::default(), &none).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("at least one path"), "{refused}");

    a_set_of_another_namespace_is_refused(&bed).await;
    bed.end().await;
}

async fn a_set_of_another_namespace_is_refused(bed: &Bed) {
    bed.create(json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "foreign"},
        "spec": {
            "sampleSetRef": {"name": "data", "namespace": "default", "mountPath": "/data"},
            "worker": {"replicas": 1, "template": {"spec": {
                "containers": [{"name": "main", "image": "any", "command": ["true"]}],
            }}},
        },
    }))
    .await;
    let jobs = bed.api::<PaddleJob>();
    until("the job says which sets it can use", async || {
        let status = jobs.get("foreign").await.unwrap().status;
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        let says = format!("only a SampleSet of the namespace {NAMESPACE}");
        conditions.iter().any(|told| told.message.contains(&says))
    })
    .await;
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named_and_corrected() {
    let bed = Bed::start(1, files).await;
    let good = bed.s3.folder("files");
    let nowhere = free_address(bed.s3.address.ip());
    let wrong_key = format!("SK/{}+wrong", *TELLTALE);

    // Of each Secret one thing is wrong.
    let mut keyless = bed.secret("keyless", (2, 3));
    let metaurl = keyless["stringData"]["metaurl"].take();
    keyless["stringData"]
        .as_object_mut()
        .unwrap()
        .remove("metaurl");
    bed.create(keyless).await;
    let mut misspelt = bed.secret("misspelt", (4, 5));
    let right = misspelt["stringData"]["metaurl"]
        .as_str()
        .unwrap()
        .to_owned();
    misspelt["stringData"]["metaurl"] = json!(right.replace("%2B7", "%2Bwrong"));
    bed.create(misspelt).await;
    for (name, databases) in [("far", (6, 7)), ("empty", (8, 9)), ("denied", (10, 11))] {
        bed.create(bed.secret(name, databases)).await;
    }
    let mut keys = bed.secret("keys", (12, 13));
    keys["stringData"]["secret-key"] = json!(wrong_key);
    bed.create(keys).await;

    let far = format!("minio://{nowhere}/public/files");
    let denied = json!({"source": {"uri": good, "secretRef": {"name": "keys"}}});
    let cases = [
        ("absent", set(&good, "absent"), "there is no Secret absent"),
        ("keyless", set(&good, "keyless"), "has no metaurl"),
        ("misspelt", set(&good, "misspelt"), "password in metaurl"),
        ("far", set(&far, "far"), "its server runs"),
        (
            "empty",
            set(&bed.s3.folder("nothing"), "empty"),
            "no file found",
        ),
        (
            "denied",
            with(set(&good, "denied"), denied),
            "keys of the source",
        ),
    ];
    for (name, spec, _) in &cases {
        bed.create_set(name, spec.clone()).await;
    }
    let warmup = json!({"type": "warmup", "sampleSetRef": {"name": "absent"}});
    bed.create_job("early", warmup).await;
    let other = json!({"type": "warmup", "sampleSetRef": {"name": "later"}});
    bed.create_job("earlier", other).await;
    for (name, _, says) in &cases {
        bed.set_says(name, says).await;
    }
    let says = |words: &'static str| {
        move |status: &SampleJobStatus| {
            let message = status.message.as_deref().unwrap_or_default();
            status.phase == Some(SampleJobPhase::Pending) && message.contains(words)
        }
    };
    bed.job(
        "earlier",
        "waiting for its set",
        says("there is no SampleSet later"),
    )
    .await;

    // Each is corrected as it was told.
    let mut absent = bed.secret("absent", (14, 15));
    absent["stringData"]["name"] = json!("absent");
    bed.create(absent).await;
    bed.patch::<Secret>("keyless", json!({"stringData": {"metaurl": metaurl}}))
        .await;
    bed.patch::<Secret>("misspelt", json!({"stringData": {"metaurl": right}}))
        .await;
    let right = json!({"spec": {"source": {"uri": good}}});
    bed.patch::<SampleSet>("far", right.clone()).await;
    bed.patch::<SampleSet>("empty", right).await;
    bed.patch::<Secret>(
        "keys",
        json!({"stringData": {"secret-key": SECRET_KEY.as_str()}}),
    )
    .await;
    for (name, _, _) in &cases {
        bed.set_is(name, SampleSetPhase::Ready).await;
    }
    bed.job_is("early", SampleJobPhase::Succeeded).await;
    the_token_of_another_set_is_refused(&bed).await;
    bed.end().await;
}

async fn the_token_of_another_set_is_refused(bed: &Bed) {
    let secret = async |set: &str, key: &str| {
        let secret: Secret = bed
            .api()
            .get(&format!("{set}-runtime-server"))
            .await
            .unwrap();
        String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
    };
    let pod: Pod = bed.api().get("far-runtime-0").await.unwrap();
    let address = SocketAddr::new(pod.status.unwrap().pod_ip.unwrap().parse().unwrap(), PORT);
    let certificate = secret("far", "tls.crt").await;
    let client = Client::new(address, &certificate, &secret("empty", "token").await).unwrap();
    let refused = client.jobs().await.unwrap_err();
    assert!(
        matches!(refused, Error::Refused { status: 401, .. }),
        "{refused}"
    );
    let client = Client::new(address, &certificate, &secret("far", "token").await).unwrap();
    client.jobs().await.unwrap();
}
