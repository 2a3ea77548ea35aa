//! What the suites with the real manager on a real cluster share: the cluster,
//! a namespace that goes away, and the manager as a process that can be killed.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Namespace as CoreNamespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

/// Names the kubeconfig of a cluster with kwok nodes.
const KUBECONFIG: &str = "PADDLE_OPERATOR_TEST_KWOK_KUBECONFIG";
/// Names the manager's binary.
const BINARY: &str = "PADDLE_OPERATOR_BIN";
/// Far more than a manager needs for a few dozen jobs: only a leak, or a copy
/// of a huge template for each of many pods, comes near it.
const MEMORY_KIB: u64 = 200 * 1024;

/// A cluster whose nodes are played by kwok.
pub struct Cluster {
    pub client: Client,
    pub kubeconfig: PathBuf,
    config: Config,
}

impl Cluster {
    pub async fn connect() -> Result<Cluster> {
        let Some(path) = std::env::var_os(KUBECONFIG) else {
            bail!(
                "{KUBECONFIG} is not set: it names the kubeconfig of a cluster with kwok nodes. \
                 `make test-chaos` brings one up and sets it"
            );
        };
        let kubeconfig = PathBuf::from(path);
        let file = Kubeconfig::read_from(&kubeconfig)
            .with_context(|| format!("{KUBECONFIG}: {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Cluster {
            client: Client::try_from(config.clone())?,
            kubeconfig,
            config,
        })
    }

    /// One that knows the kinds as users install them.
    pub async fn with_kinds() -> Result<Cluster> {
        let cluster = Cluster::connect().await?;
        for crd in published_crds()? {
            cluster.install(&crd).await?;
        }
        Ok(cluster)
    }

    /// A namespace of its own, gone when it is dropped.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let api: Api<CoreNamespace> = Api::all(self.client.clone());
        let mut namespace = CoreNamespace::default();
        namespace.metadata.generate_name = Some(format!("{prefix}-"));
        let made = api.create(&PostParams::default(), &namespace).await?;
        Ok(Namespace {
            name: made.name_any(),
            config: self.config.clone(),
        })
    }

    /// Puts a CRD into the place of whatever stands there.
    pub async fn install(&self, crd: &CustomResourceDefinition) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let params = PatchParams::apply("paddle-operator-tests").force();
        let name = crd.name_any();
        api.patch(&name, &params, &Patch::Apply(crd)).await?;
        until(Duration::from_secs(30), || async {
            let crd = api.get(&name).await?;
            let conditions = crd.status.and_then(|status| status.conditions);
            let served = conditions
                .into_iter()
                .flatten()
                .any(|c| c.type_ == "Established" && c.status == "True");
            ensure!(served, "CRD {name} is not served");
            Ok(())
        })
        .await
    }
}

/// The CRDs as users install them.
pub fn published_crds() -> Result<Vec<CustomResourceDefinition>> {
    let yaml = include_str!("../../../../deploy/v1/crd.yaml");
    serde_saphyr::from_multiple(yaml).context("deploy/v1/crd.yaml")
}

/// Deletes its namespace when it is dropped, also when a test fails.
pub struct Namespace {
    pub name: String,
    config: Config,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let (name, config) = (self.name.clone(), self.config.clone());
        // With a thread, runtime and client of its own: those of the test may
        // be on their way out. What fails here goes with the cluster.
        let delete = move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let api: Api<CoreNamespace> = Api::all(Client::try_from(config)?);
                api.delete(&name, &DeleteParams::default()).await?;
                Ok(())
            })
        };
        let _ = std::thread::spawn(delete).join();
    }
}

/// The manager's process. Dropped, it ends as in a crash of its node: by SIGKILL,
/// which lets it do nothing more.
pub struct Manager {
    child: Child,
    log: PathBuf,
}

impl Manager {
    /// Starts it on a kubeconfig; what it says is added to the file `log`. With
    /// a namespace it looks at nothing else.
    pub fn start(kubeconfig: &Path, namespace: Option<&str>, log: &Path) -> Result<Manager> {
        let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
        let arguments = [
            "--health-probe-bind-address=0".to_owned(),
            // kwok plays it, nobody pulls it.
            "--initImage=paddle-operator:test".to_owned(),
        ];
        Manager::start_with(kubeconfig, arguments.into_iter().chain(namespace), log)
    }

    /// Starts it with these flags.
    pub fn start_with(
        kubeconfig: &Path,
        arguments: impl IntoIterator<Item = String>,
        log: &Path,
    ) -> Result<Manager> {
        let binary = binary()?;
        let out = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new(&binary)
            .arg("manager")
            .arg("--metrics-bind-address=0")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(arguments)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .with_context(|| format!("can't start {}", binary.display()))?;
        Ok(Manager {
            child,
            log: log.to_owned(),
        })
    }

    /// It runs, has never panicked, and has kept its memory within bounds.
    pub fn is_well(&mut self) -> Result<()> {
        let log = self.log.display();
        if let Some(status) = self.child.try_wait()? {
            bail!("the manager ended by itself, {status}; see {log}");
        }
        let said = std::fs::read_to_string(&self.log)?;
        ensure!(
            !said.contains("panicked at"),
            "the manager panicked; see {log}"
        );
        let peak = self.peak_memory_kib()?;
        ensure!(
            peak < MEMORY_KIB,
            "the manager took {} MiB; see {log}",
            peak / 1024
        );
        Ok(())
    }

    /// The most memory that it has held.
    fn peak_memory_kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .context("no VmHWM in /proc")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // It may be dead already; what counts is that it does not live on.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary that was given, or the one that cargo last built beside this test.
fn binary() -> Result<PathBuf> {
    let beside = || {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.parent()?.join("paddle-operator"))
    };
    let given = std::env::var_os(BINARY).map(PathBuf::from);
    match given.or_else(beside).filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "{BINARY} does not name the manager's binary: `cargo build --package cli` makes it"
        ),
    }
}

/// An empty file for what the managers of one test say; it stays for a look
/// after a failure.
pub fn log_file(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.log"));
    File::create(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Tries until it goes well; after `patience` the last error is the answer.
pub async fn until<T, F>(patience: Duration, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) if start.elapsed() > patience => {
                return Err(error.context(format!("not within {} s", patience.as_secs())));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
