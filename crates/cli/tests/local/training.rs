//! Real Paddle, by the YAML of the documents: `make examples` installs it.

use std::time::{Duration, Instant};

use api::PaddleJob;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Local, Pods, repository};
use crate::worlds::value;

/// How long a training may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn start() -> Local {
    let images = repository().join("images.yaml");
    Local::start(&["--nodes", "2", "--images", images.to_str().unwrap()])
}

/// A job of `deploy/examples` under another name.
pub fn example(file: &str, name: &str, intranet: &str) -> Value {
    let text = std::fs::read_to_string(repository().join("deploy/examples").join(file)).unwrap();
    let mut job: Value = serde_saphyr::from_str(&text).unwrap();
    job["metadata"]["name"] = json!(name);
    job["spec"]["intranet"] = json!(intranet);
    // Logs are read when all is over.
    job["spec"]["cleanPodPolicy"] = json!("Never");
    job
}

/// With fewer epochs, and less patience for servers that are told to end.
pub fn short(mut job: Value) -> Value {
    for role in ["ps", "worker"] {
        if let Some(spec) = job.pointer_mut(&format!("/spec/{role}/template/spec")) {
            spec["terminationGracePeriodSeconds"] = json!(1);
            spec["containers"][0]["env"] = json!([{"name": "EPOCHS", "value": "2"}]);
        }
    }
    job
}

/// The jobs of the default namespace, and their pods.
pub struct Jobs {
    pub jobs: Api<PaddleJob>,
    pub pods: Pods,
}

impl Jobs {
    pub async fn of(local: &Local) -> Jobs {
        Jobs {
            jobs: Api::default_namespaced(local.client().await),
            pods: local.pods().await,
        }
    }

    pub async fn create(&self, job: Value) {
        let job: PaddleJob = serde_json::from_value(job).unwrap();
        self.jobs
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
    }

    pub async fn phase(&self, name: &str, phase: &str) {
        let begin = Instant::now();
        loop {
            let job = self.jobs.get(name).await.unwrap();
            let status = job.status.unwrap_or_default();
            let now = serde_json::to_value(&status).unwrap()["phase"].clone();
            if now == phase {
                return;
            }
            let conditions = &status.conditions;
            assert_ne!(now, "Failed", "{conditions:#?}");
            assert!(
                begin.elapsed() < PATIENCE,
                "{name} is {now}: {conditions:#?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn log(&self, pod: &str) -> String {
        let wanted = LogParams {
            container: Some("paddle".to_owned()),
            ..LogParams::default()
        };
        self.pods.0.logs(pod, &wanted).await.unwrap()
    }

    /// The workers were one world, did the same, and learnt.
    async fn was_one_world(&self, job: &str) {
        let [first, second] = [
            self.log(&format!("{job}-worker-0")).await,
            self.log(&format!("{job}-worker-1")).await,
        ];
        for (rank, log) in [&first, &second].into_iter().enumerate() {
            let says = format!("rank={rank} world_size=2");
            assert!(log.contains(&says), "{says}: {log}");
            learnt(log);
        }
        let hash = |log: &str| value(log, "sha256=").last().unwrap().clone();
        assert_eq!(hash(&first), hash(&second));
    }
}

pub fn learnt(log: &str) {
    let losses: Vec<f64> = value(log, "loss=")
        .iter()
        .map(|loss| loss.parse().unwrap())
        .collect();
    let (first, last) = (losses.first().unwrap(), losses.last().unwrap());
    assert!(last < first, "the loss falls: {losses:?}");
}

#[tokio::test]
async fn collective_jobs_train_as_one_world_each() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    jobs.create(short(example("resnet.yaml", "first", "PodIP")))
        .await;
    jobs.phase("first", "Running").await;
    // The second starts while the first trains, and goes on when it ends.
    jobs.create(short(example("resnet.yaml", "second", "Service")))
        .await;
    jobs.phase("first", "Completed").await;
    jobs.phase("second", "Completed").await;
    jobs.was_one_world("first").await;
    jobs.was_one_world("second").await;
}

#[tokio::test]
async fn parameter_servers_serve_until_the_workers_are_done() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    for (name, intranet) in [("by-address", "PodIP"), ("by-name", "Service")] {
        jobs.create(short(example("wide_and_deep.yaml", name, intranet)))
            .await;
    }
    for name in ["by-address", "by-name"] {
        jobs.phase(name, "Completed").await;
        for rank in 0..2 {
            let log = jobs.log(&format!("{name}-worker-{rank}")).await;
            assert!(log.contains("world_size=2 servers=2"), "{log}");
            learnt(&log);
            let server = format!("{name}-ps-{rank}");
            let is_over =
                |pod: &Pod| ["Succeeded", "Failed"].contains(&crate::support::phase_of(pod));
            jobs.pods.until(&server, "stopped", is_over).await;
        }
    }
}

/// In a server too, Paddle looks for the worker of its number.
#[tokio::test]
async fn one_worker_trains_with_two_servers() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    let mut job = short(example("wide_and_deep.yaml", "few", "PodIP"));
    job["spec"]["worker"]["replicas"] = json!(1);
    jobs.create(job).await;
    jobs.phase("few", "Completed").await;
    let log = jobs.log("few-worker-0").await;
    assert!(log.contains("world_size=1 servers=2"), "{log}");
    learnt(&log);
}

#[tokio::test]
async fn jobs_of_real_servers_run_side_by_side() {
    let local = start();
    let jobs = Jobs::of(&local).await;
    let demo = |name: &str| {
        let role = json!({"replicas": 1, "template": {"spec": {
            "containers": [{"name": "nginx", "image": "nginx"}],
        }}});
        json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": name},
            "spec": {"ps": role, "worker": role},
        })
    };
    for name in ["one", "two"] {
        jobs.create(demo(name)).await;
    }
    for name in ["one", "two"] {
        jobs.phase(name, "Running").await;
        let worker = format!("{name}-worker-0");
        let page = [
            "python3",
            "-c",
            "import urllib.request as u; print(u.urlopen('http://127.0.0.1').status)",
        ];
        assert_eq!(jobs.pods.exec(&worker, &page).await.0, "200\n");
    }
}
