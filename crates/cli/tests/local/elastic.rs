//! Elastic jobs: the real Paddle finds its workers through a real etcd, in a pod. `make
//! examples` installs both.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Local, Pods, container, repository, script, signal};
use crate::training::{Jobs, start};
use crate::worlds::{Shared, elastic, learn_on, until};

async fn create<K>(client: &Client, object: &Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object.clone()).unwrap();
    let objects = Api::<K>::namespaced(client.clone(), &object.namespace().unwrap());
    let how = PostParams::default();
    objects.create(&how, &object).await.unwrap();
}

/// The etcd of the guide.
struct Etcd(Pods);

impl Etcd {
    async fn apply(local: &Local) -> Etcd {
        let client = local.client().await;
        let text = fs::read_to_string(repository().join("deploy/elastic/etcd.yaml")).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            match object["kind"].as_str().unwrap() {
                "Service" => create::<Service>(&client, &object).await,
                "StatefulSet" => create::<StatefulSet>(&client, &object).await,
                other => panic!("{other} is not known on one machine"),
            }
        }
        Etcd(Pods(Api::namespaced(client, "paddle-system")))
    }

    /// The keys that are there.
    async fn keys(&self) -> BTreeSet<String> {
        let command = ["etcdctl", "get", "--prefix", "--keys-only", "/"];
        let (said, is_well) = self.0.exec("paddle-elastic-etcd-0", &command).await;
        assert!(is_well, "{said}");
        { said.lines() }
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Those of a job.
    async fn keys_of(&self, jobs: &Jobs, job: &str) -> BTreeSet<String> {
        let uid = jobs.jobs.get(job).await.unwrap().uid().unwrap();
        let id = format!("{}-default-{job}", &uid[..8]);
        let own = |key: &String| {
            let key = key.strip_prefix("/paddle").unwrap_or(key);
            let rest = key.strip_prefix(&format!("/{id}"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.keys().await.into_iter().filter(own).collect()
    }
}

async fn scale(jobs: &Jobs, name: &str, workers: u32) {
    let scale = Patch::Merge(json!({"spec": {"replicas": workers}}));
    let how = PatchParams::default();
    jobs.jobs.patch_scale(name, &how, &scale).await.unwrap();
}

#[tokio::test]
async fn an_elastic_job_trains_on_while_its_size_changes() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    let shared = Shared::new();
    jobs.create(elastic("a", [2, 2, 3], &shared)).await;
    let told = async || {
        let status = jobs.jobs.get("a").await.unwrap().status.unwrap_or_default();
        let found = { status.conditions.into_iter() }.find(|it| it.type_ == "Scheduled");
        found.map(|condition| format!("{}: {}", condition.reason, condition.message))
    };
    until(async || {
        told()
            .await
            .is_some_and(|told| told.starts_with("EtcdUnreachable: "))
    })
    .await;
    let told = told().await.unwrap();
    let wants = "there is no Service paddle-system/paddle-elastic-etcd: kubectl apply -f deploy/elastic/etcd.yaml";
    assert!(told.ends_with(wants), "{told}");

    let etcd = Etcd::apply(&local).await;
    shared.trains(2).await;
    scale(&jobs, "a", 3).await;
    let three = shared.trains(3).await;
    jobs.phase("a", "Running").await;
    assert_eq!(
        etcd.keys_of(&jobs, "a").await.len(),
        7,
        "{:?}",
        etcd.keys().await
    );
    shared.end_after(three.done() + 20);
    scale(&jobs, "a", 2).await;
    jobs.phase("a", "Completed").await;

    let worlds = shared.worlds();
    let mut sizes: Vec<u32> = worlds.iter().map(|world| world.size).collect();
    sizes.dedup();
    assert_eq!(sizes, [2, 3, 2], "{worlds:#?}");
    learn_on(worlds);
    let log = jobs.log("a-worker-0").await;
    assert!(
        log.contains("world_size=2\ncontinues after epoch="),
        "{log}"
    );
    until(async || etcd.keys().await.is_empty()).await;
}

#[tokio::test]
async fn a_killed_worker_comes_back_and_other_jobs_do_not_notice() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    let etcd = Etcd::apply(&local).await;
    let [shared, other] = [Shared::new(), Shared::new()];
    jobs.create(elastic("a", [2, 1, 2], &shared)).await;
    jobs.create(elastic("a-1", [1, 1, 1], &other)).await;
    other.trains(1).await;
    let world = shared.trains(2).await;
    let keys = etcd.keys_of(&jobs, "a-1").await;
    let own = etcd.keys_of(&jobs, "a").await;
    assert_eq!(own.len(), 5, "a status, and two of each worker: {own:?}");

    shared.end_after(world.done() + 20);
    kill(&local, &jobs, "a-worker-0").await;
    jobs.phase("a", "Completed").await;
    let pod = jobs.pods.0.get("a-worker-0").await.unwrap();
    assert!(container(&pod).restart_count > 0);
    let worlds = shared.worlds();
    let last = worlds.last().unwrap();
    assert_eq!(
        (last.size, last.epochs[0]),
        (2, last.continues.unwrap() + 1),
        "{worlds:#?}"
    );
    assert!(last.continues.unwrap() + 1 >= world.done(), "{worlds:#?}");
    assert!(last.loss() < world.loss(), "{worlds:#?}");

    until(async || etcd.keys().await == keys).await;
    let worlds = other.worlds();
    assert_eq!(worlds.len(), 1, "nothing disturbed it: {worlds:#?}");
    jobs.jobs.delete("a-1", &Default::default()).await.unwrap();
    until(async || etcd.keys().await.is_empty()).await;
}

/// A launcher that waited in vain ends with 0, as one does that has trained.
#[tokio::test]
async fn a_worker_whose_peers_come_too_late_is_made_again() {
    let images = repository().join("images.yaml");
    let local = Local::start(&["--images", images.to_str().unwrap()]);
    let jobs = Jobs::of(&local).await;
    let etcd = Etcd::apply(&local).await;
    // The node pretends to have 8, and this takes half of them.
    let gpus = json!({"limits": {"nvidia.com/gpu": 4}});
    let mut blocker = script("blocker", "sleep 1000");
    blocker["spec"]["containers"][0]["resources"] = gpus.clone();
    blocker["spec"]["terminationGracePeriodSeconds"] = json!(0);
    jobs.pods.create(blocker).await;
    jobs.pods.phase("blocker", "Running").await;
    let shared = Shared::new();
    shared.end_after(3);
    let mut job = elastic("late", [2, 2, 2], &shared);
    job["spec"]["worker"]["template"]["spec"]["containers"][0]["resources"] = gpus;
    jobs.create(job).await;
    let events: Api<Event> = Api::default_namespaced(local.client().await);
    until(async || {
        let events = events.list(&Default::default()).await.unwrap();
        { events.items.into_iter() }.any(|event| event.reason.as_deref() == Some("NotTrained"))
    })
    .await;
    jobs.pods.delete("blocker").await;
    jobs.phase("late", "Completed").await;
    let worlds = shared.worlds();
    assert!(worlds.iter().all(|world| world.size == 2), "{worlds:#?}");
    assert_eq!(worlds.last().unwrap().done(), 3, "{worlds:#?}");
    until(async || etcd.keys().await.is_empty()).await;
}

/// Launchers write to etcd until their pods are gone. Nobody needs one: what a program without
/// it says is believed.
#[tokio::test]
async fn a_job_that_is_deleted_leaves_nothing_in_etcd() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    let etcd = Etcd::apply(&local).await;
    let shared = Shared::new();
    jobs.create(elastic("gone", [2, 2, 2], &shared)).await;
    shared.trains(2).await;
    jobs.jobs.delete("gone", &Default::default()).await.unwrap();
    until(async || etcd.keys().await.is_empty()).await;

    let mut plain = elastic("plain", [1, 1, 1], &shared);
    let container = &mut plain["spec"]["worker"]["template"]["spec"]["containers"][0];
    container["command"] = json!(["sh", "-c", "exit 0"]);
    container.as_object_mut().unwrap().remove("args");
    jobs.create(plain).await;
    jobs.phase("plain", "Completed").await;
    until(async || etcd.keys().await.is_empty()).await;
}

/// Kills the first process of a pod's container, and with it all others.
async fn kill(local: &Local, jobs: &Jobs, pod: &str) {
    let uid = jobs.pods.0.get(pod).await.unwrap().uid().unwrap();
    let folder = local.dir.join("pods").join(uid);
    let started = fs::read_to_string(folder.join("containers/paddle/0/started.json")).unwrap();
    let started: Value = serde_json::from_str(&started).unwrap();
    let first = started["first"]["pid"].as_u64().unwrap();
    signal(first.try_into().unwrap(), "KILL");
}
