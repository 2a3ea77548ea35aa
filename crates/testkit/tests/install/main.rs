//! Installing and uninstalling with the commands of the guides, on a real control plane: the
//! manifests are taken, the managers run with the flags and the roles that these give them,
//! and nothing stays. The nodes are kwok's: managers in pods are played, and run here beside.

#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "what only the other suites need")]
mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::accounts::{self, Audit};

use support::{Cluster, Manager, until};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn as_the_guides_say() -> Result<()> {
    let shell = Shell::new(Cluster::connect().await?)?;
    shell.kubectl("apply -f deploy/v1/crd.yaml")?;
    shell.kubectl("apply -f deploy/v1/operator.yaml")?;
    shell.kubectl("apply -f deploy/extensions/controllers.yaml")?;
    shell.kubectl(
        "-n paddle-system wait deployment --all --for=condition=Available --timeout=60s",
    )?;
    let pods = shell.kubectl("-n paddle-system get pods")?;
    for manager in ["controller", "samplejob", "sampleset"] {
        let name = format!("paddle-{manager}-manager-");
        let line = pods.lines().find(|line| line.starts_with(&name));
        let line = line.with_context(|| format!("no {name} in\n{pods}"))?;
        ensure!(line.contains("1/1     Running"), "{line}");
    }
    shell
        .kubectl("apply --dry-run=server -n paddle-system -f deploy/examples -f deploy/elastic")?;
    let log = std::env::var_os("PADDLE_OPERATOR_TEST_AUDIT_LOG");
    let log = PathBuf::from(log.context("PADDLE_OPERATOR_TEST_AUDIT_LOG names no log")?);
    let before = std::fs::read_to_string(&log)?.lines().count();
    let mut managers = shell.start_managers().await?;
    shell.work().await?;
    managers.iter_mut().try_for_each(Manager::is_well)?;
    let refused = Audit::read(&log, before)?.refused;
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    // From here on their roles go, and some of them before them.
    shell.uninstall().await
}

/// Where the commands are typed.
struct Shell {
    cluster: Cluster,
    dir: TempDir,
}

impl Shell {
    fn new(cluster: Cluster) -> Result<Shell> {
        let dir = tempfile::tempdir()?;
        Ok(Shell { cluster, dir })
    }

    /// What kubectl prints, typed in the repository.
    fn kubectl(&self, arguments: &str) -> Result<String> {
        let mut command = Command::new("kubectl");
        let output = command
            .args(arguments.split(' '))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("KUBECONFIG", &self.cluster.kubeconfig)
            .env("KUBECACHEDIR", self.dir.path())
            .output()
            .context("no kubectl: `make test-chaos` has one")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {arguments}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Creates an object as a user does.
    fn create(&self, object: &Value) -> Result<()> {
        let file = self.dir.path().join("object.json");
        std::fs::write(&file, object.to_string())?;
        self.kubectl(&format!("create -f {}", file.display()))
            .map(drop)
    }

    /// Starts each manager as its Deployment does, with the account of the Deployment.
    async fn start_managers(&self) -> Result<Vec<Manager>> {
        let mut managers = Vec::new();
        for path in accounts::MANIFESTS {
            for object in accounts::manifest(path)? {
                if object["kind"] == "Deployment" {
                    let pod = &object["spec"]["template"]["spec"];
                    self.is_restricted(pod).await?;
                    managers.push(self.start_manager(pod).await?);
                }
            }
        }
        ensure!(managers.len() == 3, "{} managers", managers.len());
        Ok(managers)
    }

    async fn start_manager(&self, pod: &Value) -> Result<Manager> {
        let account = pod["serviceAccountName"].as_str().context("no account")?;
        let kubeconfig = self.kubeconfig_of(account)?;
        let container = &pod["containers"][0];
        ensure!(container["command"] == json!(["/manager"]), "{container}");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone())?;
        let health = format!("--health-probe-bind-address=127.0.0.1:{port}");
        let log = support::log_file(&format!("install-{account}"))?;
        let manager =
            Manager::start_with(&kubeconfig, arguments.into_iter().chain([health]), &log)?;
        for probe in ["livenessProbe", "readinessProbe"] {
            let path = container[probe]["httpGet"]["path"].as_str();
            let path = path.with_context(|| format!("no {probe}"))?;
            until(PATIENCE, || async { answers(port, path) }).await?;
        }
        Ok(manager)
    }

    /// The kubeconfig of an account, whose pods are in paddle-system.
    fn kubeconfig_of(&self, account: &str) -> Result<PathBuf> {
        let text = std::fs::read_to_string(&self.cluster.kubeconfig)?;
        let mut kubeconfig: Value = serde_saphyr::from_str(&text)?;
        kubeconfig["users"][0]["user"]["as"] = json!(accounts::user(account));
        kubeconfig["contexts"][0]["context"]["namespace"] = json!("paddle-system");
        let path = self.dir.path().join(account);
        std::fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    /// Pod Security lets the pod of a manager into the strictest of namespaces.
    async fn is_restricted(&self, pod: &Value) -> Result<()> {
        let namespace = self.cluster.namespace("restricted").await?;
        let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
        let strictest = json!({"metadata": {"labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
        }}});
        let (how, patch) = (PatchParams::default(), Patch::Merge(&strictest));
        namespaces.patch(&namespace.name, &how, &patch).await?;
        let mut spec = pod.clone();
        spec["serviceAccountName"] = json!("default");
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec}))?;
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &namespace.name);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        // The account comes a moment after the namespace.
        until(PATIENCE, || async { Ok(pods.create(&dry, &pod).await?) }).await?;
        Ok(())
    }

    /// Gives each manager something to do.
    async fn work(&self) -> Result<()> {
        let job = "deploy/examples/wide_and_deep_service.yaml";
        self.kubectl(&format!("-n paddle-system create -f {job}"))?;
        self.kubectl("-n paddle-system create -f deploy/examples/simple.yaml")?;
        self.create(&json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": "csi.juicefs.com"}, "spec": {},
        }))?;
        self.create(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "imagenet", "namespace": "paddle-system"},
            "stringData": {
                "name": "imagenet", "storage": "redis",
                "bucket": "redis://192.0.2.1/1", "metaurl": "redis://192.0.2.1/0",
            },
        }))?;
        let data = |kind: &str, spec: Value| {
            json!({
                "apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": kind,
                "metadata": {"name": "imagenet", "namespace": "paddle-system"}, "spec": spec,
            })
        };
        let secret = json!({"name": "imagenet"});
        let spec = json!({"partitions": 2, "noSync": true, "secretRef": secret});
        self.create(&data("SampleSet", spec))?;
        let spec = json!({"type": "clear", "sampleSetRef": {"name": "imagenet"}});
        self.create(&data("SampleJob", spec))?;
        self.kubectl(
            "-n paddle-system wait pdj --all --for=jsonpath={.status.phase}=Running --timeout=60s",
        )?;
        until(PATIENCE, || async {
            ensure!(self.labelled()?.len() == 2, "no nodes with partitions");
            let phase = self
                .kubectl("-n paddle-system get samplejob imagenet -o jsonpath={.status.phase}")?;
            ensure!(!phase.is_empty(), "nobody looks at the SampleJob");
            Ok(())
        })
        .await
    }

    /// The nodes that hold a partition.
    fn labelled(&self) -> Result<Vec<String>> {
        let label = "paddlepaddle.org/juicefs-paddle-system.imagenet";
        let nodes = self.kubectl(&format!("get nodes -o name -l {label}"))?;
        Ok(nodes.lines().map(str::to_owned).collect())
    }

    /// With jobs and a set, and in one command. The pod of the manager takes its time to end.
    async fn uninstall(&self) -> Result<()> {
        let name = "-n paddle-system -l control-plane=sampleset-manager";
        self.kubectl(&format!(
            "annotate pod {name} kwok.paddlepaddle.org/stop-after=5s"
        ))?;
        let begin = Instant::now();
        self.kubectl("delete --timeout=60s -f deploy/v1/crd.yaml -f deploy/v1/operator.yaml")?;
        // Kubernetes lets volumes go in its own time.
        until(PATIENCE.saturating_sub(begin.elapsed()), || async {
            let left = self.kubectl("get pv,namespace,crd -o name")?;
            let is_ours = |part: &&str| left.contains(*part);
            ensure!(!["imagenet", "paddle"].iter().any(is_ours), "left: {left}");
            Ok(())
        })
        .await?;
        ensure!(self.labelled()?.is_empty(), "nodes kept their labels");
        self.kubectl("delete --ignore-not-found -f deploy/extensions/controllers.yaml")?;
        self.kubectl("delete csidriver csi.juicefs.com").map(drop)
    }
}

/// A probe of a kubelet.
fn answers(port: u16, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    Ok(())
}
