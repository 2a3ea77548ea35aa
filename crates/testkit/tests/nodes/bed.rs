//! The cluster, what runs beside it, and what its users do there.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::config::Kubeconfig;
use serde_json::{Value, json};
use testkit::accounts::{self, Audit, Deeds};

use crate::guide::imagenet;
use crate::printed::is_shown;
use crate::servers::{Redis, S3};
use crate::shell::Shell;
use crate::wait::until;

/// What the guides have one apply, in their order.
pub const MANIFESTS: [&str; 3] = [
    "deploy/v1/crd.yaml",
    "deploy/v1/operator.yaml",
    "deploy/extensions/controllers.yaml",
];

/// The cluster, and what runs beside it.
pub struct Bed {
    pub shell: Shell,
    pub redis: Redis,
    pub s3: S3,
    /// As `cargo xtask cluster` knows the cluster.
    name: String,
    /// How long the audit log was, before any of this.
    audited: usize,
    /// How long it was when what was refused was last forgiven.
    forgiven: AtomicUsize,
}

pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn variable(name: &str) -> String {
    let value = std::env::var(name);
    value.unwrap_or_else(|_| panic!("{name} is not set: `make test-nodes` sets it"))
}

fn audit_log() -> PathBuf {
    variable("PADDLE_OPERATOR_TEST_AUDIT_LOG").into()
}

fn lines_of_log() -> usize {
    let log = fs::read_to_string(audit_log()).unwrap();
    log.matches('\n').count()
}

impl Bed {
    pub async fn start() -> Bed {
        let kubeconfig = PathBuf::from(variable("PADDLE_OPERATOR_TEST_KUBECONFIG"));
        let ip = bridge(&kubeconfig);
        let files = tempfile::tempdir().unwrap();
        imagenet(files.path());
        Bed {
            shell: Shell::new(repository(), kubeconfig, PathBuf::new()),
            redis: Redis::start(ip),
            s3: S3::start(ip, files.path()),
            name: variable("PADDLE_OPERATOR_TEST_CLUSTER"),
            audited: lines_of_log(),
            forgiven: lines_of_log().into(),
        }
    }

    /// The managers were allowed to do what they did.
    pub fn judge_refusals(&self) {
        let from = self.forgiven.load(Ordering::Relaxed);
        let refused = Audit::read(&audit_log(), from).unwrap().refused;
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// What was refused until now does not count: a kube-apiserver that has just started does
    /// not know all roles yet.
    pub fn forgive_refusals(&self) {
        self.forgiven.store(lines_of_log(), Ordering::Relaxed);
    }

    /// What managers may do and never did.
    pub fn unused(&self) -> Deeds {
        let audit = Audit::read(&audit_log(), self.audited).unwrap();
        audit.unused(&accounts::allowed().unwrap())
    }

    /// Installs what is not there.
    pub async fn install(&self) {
        for manifest in MANIFESTS {
            self.shell.run(&format!("kubectl apply -f {manifest}"));
        }
        self.shell
            .run("kubectl -n paddle-system rollout status deployment --timeout=120s");
    }

    /// `cargo xtask cluster`.
    pub fn cluster(&self, arguments: &[&str]) {
        let status = Command::new("cargo")
            .args(["xtask", "cluster", "--name", &self.name])
            .args(arguments)
            .current_dir(repository())
            .status();
        assert!(status.unwrap().success(), "{arguments:?}");
    }

    /// What a command says, that may fail.
    fn try_run(&self, text: &str) -> Output {
        let mut bash = self.shell.command("timeout");
        bash.args(["20", "bash", "-c", text]).output().unwrap()
    }

    /// Everything that there is, for a person who wants to know what went wrong.
    #[expect(clippy::print_stderr, reason = "of a test that failed")]
    pub fn describe(&self) {
        let commands = [
            "kubectl get nodes,pv,pods -A -o wide",
            "kubectl get pdj,sampleset,samplejob -A -o yaml",
            "kubectl get events -A --sort-by=.lastTimestamp | tail -60",
            "for m in controller sampleset samplejob; do \
             kubectl -n paddle-system logs --tail=60 deployment/paddle-$m-manager; done",
        ];
        for command in commands {
            let output = self.try_run(command);
            let said = String::from_utf8_lossy(&output.stdout);
            eprintln!("$ {command}\n{said}");
        }
    }

    /// `kubectl apply -f`.
    pub fn apply(&self, object: &Value) {
        self.shell.tell("kubectl apply -f -", &object.to_string());
    }

    /// `kubectl get` of a field of an object in the namespace of the guides.
    pub fn field(&self, object: &str, path: &str) -> String {
        let get = "kubectl -n paddle-system get --ignore-not-found";
        self.shell
            .run(&format!("{get} {object} -o jsonpath='{{{path}}}'"))
    }

    pub fn node_of(&self, pod: &str) -> String {
        self.field(&format!("pod/{pod}"), ".spec.nodeName")
    }

    /// Waits until a field is as wanted, also while the API is away.
    pub async fn is(&self, object: &str, path: &str, wanted: &str) {
        let command = format!("kubectl -n paddle-system get {object} -o jsonpath='{{{path}}}'");
        self.prints(&command, wanted).await;
    }

    /// Waits until a command prints what is wanted, also when it fails at first.
    pub async fn prints(&self, command: &str, wanted: &str) {
        until(&format!("{command} prints {wanted}"), async || {
            self.try_run(command).stdout == wanted.as_bytes()
        })
        .await;
    }

    /// Waits until `kubectl get pods` prints what is shown, but for the names that a
    /// Deployment gives.
    pub async fn shows_pods(&self, shown: &str) {
        let command = "kubectl -n paddle-system get pods";
        let shown = without_hashes(shown);
        until(&format!("{command} prints\n{shown}"), async || {
            is_shown(&without_hashes(&self.shell.run(command)), &shown)
        })
        .await;
    }

    /// Creates a set of a small folder, with a volume of its own, and waits until it is Ready.
    pub async fn create_ready_set(&self, name: &str, databases: (u8, u8), partitions: i32) {
        self.apply(&self.redis.secret(name, databases));
        self.apply(&json!({
            "apiVersion": "batch.paddlepaddle.org/v1alpha1",
            "kind": "SampleSet",
            "metadata": {"name": name, "namespace": "paddle-system"},
            "spec": {
                "partitions": partitions,
                "source": {"uri": self.s3.folder("imagenet/train")},
                "secretRef": {"name": name},
            },
        }));
        self.is_ready(name).await;
    }

    /// Waits until a set is Ready.
    pub async fn is_ready(&self, set: &str) {
        let object = format!("sampleset/{set}");
        self.is(&object, ".status.phase", "Ready").await;
    }

    /// Creates a job of nginx, perhaps with a set, and waits until it is Running.
    pub async fn create_running_job(&self, name: &str, workers: i32, set: Option<&str>) {
        let mut job = job("paddle-system", name, workers);
        if let Some(set) = set {
            job["spec"]["sampleSetRef"] = json!({"name": set, "mountPath": "/mnt/data"});
        }
        self.apply(&job);
        self.is_running(name).await;
    }

    /// Waits until a job is Running.
    pub async fn is_running(&self, job: &str) {
        self.is(&format!("pdj/{job}"), ".status.phase", "Running")
            .await;
    }

    /// The pods of jobs, and how often their containers began again.
    pub fn job_pods(&self) -> String {
        let pods = "pods -l paddle-res-name";
        let uids = self.field(pods, ".items[*].metadata.uid");
        let restarts = ".items[*].status.containerStatuses[*].restartCount";
        format!("{uids} {}", self.field(pods, restarts))
    }

    /// The nodes that hold a partition of a set, and which.
    pub fn labels(&self, set: &str) -> Vec<(String, String)> {
        let label = format!("paddlepaddle.org/juicefs-paddle-system.{set}");
        let label = label.replace('.', "\\.");
        let pairs =
            format!("range .items[*]}}{{.metadata.labels.{label}}}={{.metadata.name}} {{end");
        let pairs = self.field("nodes", &pairs);
        let pairs = pairs
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        let labelled = pairs.filter(|(partition, _)| !partition.is_empty());
        labelled
            .map(|(partition, node)| (partition.to_owned(), node.to_owned()))
            .collect()
    }

    /// Each partition of a set has a node, which says so.
    pub async fn is_labelled(&self, set: &str, partitions: i32) {
        until(&format!("the nodes of {set} have labels"), async || {
            let mut labels = self.labels(set);
            labels.sort();
            let name = |partition| format!("{set}-runtime-{partition}");
            let wanted = (0..partitions).map(|partition| {
                let pod = name(partition);
                let node = self.node_of(&pod);
                (pod, node)
            });
            labels == wanted.collect::<Vec<_>>()
        })
        .await;
    }

    /// Deletes all jobs and sets, which leave nothing.
    pub async fn clean_up(&self) {
        self.shell
            .run("kubectl -n paddle-system delete pdj,samplejob --all --timeout=60s");
        self.shell
            .run("kubectl -n paddle-system delete sampleset --all --timeout=120s");
        assert_eq!(self.shell.run("kubectl get pv -o name"), "");
        let nodes = self.shell.run("kubectl get nodes -o yaml");
        assert!(!nodes.contains("paddlepaddle.org/juicefs"), "{nodes}");
    }
}

/// A job of nginx.
pub fn job(namespace: &str, name: &str, workers: i32) -> Value {
    let containers = json!([{"name": "sample", "image": "nginx"}]);
    json!({
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "worker": {
                "replicas": workers,
                "template": {"spec": {"containers": containers}},
            },
        },
    })
}

/// Where the nodes reach what listens on the machine: there kube-apiserver does.
fn bridge(kubeconfig: &Path) -> IpAddr {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let server = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    let server: http::Uri = server.server.as_ref().unwrap().parse().unwrap();
    server.host().unwrap().parse().unwrap()
}

/// The names of pods without the part that nobody can foresee.
fn without_hashes(table: &str) -> String {
    let lines = table.lines().map(|line| match line.find("-manager-") {
        Some(at) => {
            let (name, rest) = line.split_at(at);
            let end = rest.find(' ').unwrap_or(rest.len());
            format!("{name}{}{}\n", " ".repeat(end), &rest[end..])
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}
