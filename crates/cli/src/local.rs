//! `paddle-operator local`: the API, the cluster behind it and the controllers in
//! one process.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use controllers::Etcd;
use juicefs::Juicefs;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use localcluster::node::images::{Image, Images};
use localcluster::{control, node, rootless};
use localkube::{Credentials, serve};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controller::{Controller, Settings};
use crate::manager::{CACHE_PATH_PREFIXES, OWN_IMAGE, etcd_server, some, stop_signal, stopped};

/// Namespaces that the documents speak of.
const NAMESPACE: &str = "paddle-system";
/// The file that says what images are made of, where the command is run.
const IMAGES: &str = "images.yaml";
/// What runtime servers run here: an image apart, since juicefs may not be installed, and jobs
/// without data do not need it.
const RUNTIME_IMAGE: &str = concat!(
    "paddlepaddle/paddle-operator-runtime:v",
    env!("CARGO_PKG_VERSION")
);
/// Where deploy/elastic/etcd.yaml puts an etcd.
const ETCD: &str = "paddle-elastic-etcd.paddle-system.svc.cluster.local:2379";
/// The part of the disk that caches leave free. A tenth, as on the disks of a cluster, is
/// more than most people's machines have.
const FREE_SPACE_RATIO: f64 = 0.02;
/// The file that is locked by whoever uses a directory.
const LOCK: &str = "lock";

/// How the machine is used.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory in which everything is kept [default: ~/.local/state/paddle-operator]
    #[arg(long, value_name = "D")]
    pub(crate) dir: Option<PathBuf>,
    /// Number of virtual nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Address of the API; port 0: the one of last time, or any
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// File that says what images are made of [default: images.yaml here, in D, or above this program]
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// etcd through which elastic jobs find their workers: HOST:PORT, or several with commas
    #[arg(long, value_delimiter = ',', value_parser = etcd_server, default_value = ETCD)]
    etcd_server: Vec<String>,
}

impl Args {
    /// Where everything is kept.
    pub(crate) fn dir(&self) -> anyhow::Result<PathBuf> {
        let given = self.dir.clone();
        let state = || {
            let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
            Some(state.or_else(home)?.join("paddle-operator"))
        };
        given
            .or_else(state)
            .context("there is no home directory: say by --dir where to keep everything")
    }

    /// The images that are known.
    fn images(&self, dir: &Path) -> anyhow::Result<Images> {
        let usual = || {
            // The repository, for a program that was built in it and is run elsewhere.
            let own = std::env::current_exe().unwrap_or_default();
            let above = own.ancestors().skip(1);
            let mut places = [Path::new(""), dir].into_iter().chain(above);
            let holder = places.find(|place| place.join(IMAGES).is_file())?;
            Some(holder.join(IMAGES))
        };
        let mut images = match self.images.clone().or_else(usual) {
            Some(file) => Images::read(&file, &cache()?)?,
            None => Images::none(&dir.join(IMAGES)),
        };
        // The init container of jobs is this very program.
        let mut own = Image::machine();
        let program = program(dir)?;
        own.files = [("/paddle-operator".into(), program.clone())].into();
        images.add(OWN_IMAGE, own);
        let mut runtime = Image::machine().hinting("make examples");
        runtime.files = [
            ("/paddle-operator".into(), program.clone()),
            ("/usr/local/bin/paddle-operator".into(), program),
            (
                "/usr/local/bin/juicefs".into(),
                Juicefs::expected(&cache()?),
            ),
        ]
        .into();
        images.add(RUNTIME_IMAGE, runtime);
        Ok(images)
    }
}

/// This program, kept for containers that start when its file may have been replaced
/// or removed.
fn program(dir: &Path) -> anyhow::Result<PathBuf> {
    let (kept, draft) = (dir.join("program"), dir.join("program.draft"));
    let own = std::env::current_exe()?;
    let _: std::io::Result<()> = fs::remove_file(&draft);
    // A link costs nothing, but must be on the same disk.
    fs::hard_link(&own, &draft).or_else(|_| fs::copy(&own, &draft).map(drop))?;
    fs::rename(&draft, &kept)?;
    // Two links to one file stay as they are, and that is no error.
    let _: std::io::Result<()> = fs::remove_file(&draft);
    Ok(kept)
}

/// Where what was installed for the project is.
fn cache() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("PADDLE_OPERATOR_CACHE") {
        return Ok(given.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = cache.or_else(home);
    let cache = cache.context("there is no home directory: set PADDLE_OPERATOR_CACHE")?;
    Ok(cache.join("paddle-operator"))
}

/// Runs until a signal.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    localcluster::shim::disinherit();
    let place = Place::take(args)?;
    runtime()?.block_on(async {
        // First: what is half begun must be ended too.
        let mut stop = stop_signal()?;
        let begin = Instant::now();
        let local = Local::start(args, place).await?;
        let kubeconfig = quoted(&local.kubeconfig);
        say(&format!(
            "Kubernetes for one machine: {} ({} ms)\n\n  \
             export KUBECONFIG={kubeconfig}\n  \
             kubectl get nodes\n\n\
             Ctrl-C ends it and what runs; all else stays in {}.",
            local.server,
            begin.elapsed().as_millis(),
            local.dir.display(),
        ))?;
        stopped(&mut stop).await;
        local.stop().await
    })
}

/// What local mode runs on.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// What must be had before there are threads.
pub(crate) struct Place {
    dir: PathBuf,
    listener: TcpListener,
    /// Nobody else uses the directory.
    lock: File,
}

impl Place {
    /// Takes the directory and the port, and becomes root in a namespace of its own if
    /// it is not root already.
    pub(crate) fn take(args: &Args) -> anyhow::Result<Place> {
        let dir = args.dir()?;
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir);
        made.with_context(|| format!("{}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let lock = lock(&dir)?;
        // Before it has another network: the port is the machine's.
        let listener = listen(args.listen, &dir)?;
        if rootless::is_needed() {
            rootless::enter(&dir)?;
        }
        Ok(Place {
            dir,
            listener,
            lock,
        })
    }
}

#[expect(clippy::print_stdout, reason = "what the user is to read")]
fn say(text: &str) -> anyhow::Result<()> {
    println!("{text}");
    Ok(std::io::stdout().flush()?)
}

/// A Kubernetes on this machine, with the controllers.
pub(crate) struct Local {
    /// Talks to it without a socket.
    pub(crate) client: Client,
    /// Its address.
    pub(crate) server: String,
    /// Where others find its address and its key.
    pub(crate) kubeconfig: PathBuf,
    /// Where everything is kept.
    pub(crate) dir: PathBuf,
    /// What decides: it ends first, so that nothing new begins.
    deciders: Part,
    /// What runs pods.
    nodes: Part,
    /// What answers.
    api: Part,
    /// Nobody else uses the directory.
    _lock: File,
}

/// Something that goes on until it is told to stop.
struct Part {
    stop: watch::Sender<bool>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Part {
    fn new() -> Part {
        Part {
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Until it is told to stop.
    fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        let mut stop = self.stop.subscribe();
        async move { stopped(&mut stop).await }
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

impl Local {
    /// Starts all of it.
    pub(crate) async fn start(args: &Args, place: Place) -> anyhow::Result<Local> {
        let Place {
            dir,
            listener,
            lock,
        } = place;
        // Deriving them takes most of the start.
        let kinds = tokio::task::spawn_blocking(api::crds);
        let images = args.images(&dir)?;
        let server = format!("https://{}", listener.local_addr()?);
        let names = [listener.local_addr()?.ip().to_string()];
        let credentials = Credentials::in_dir(&dir.join("credentials"), &names)?;
        let kubeconfig = dir.join("kubeconfig");
        let access = credentials.kubeconfig(&server);

        let store = localkube::Api::open(&dir.join("state.redb")).await;
        let store = store.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let made = store.make_namespace(NAMESPACE).await;
        made.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        // The nodes need a client, and what clients talk to needs the nodes.
        let inner = localkube::http::router(store.clone(), axum::Router::new());
        let client = Client::new(inner.into_service(), "default");
        let agent = node::Agent::new(
            client.clone(),
            node::Options {
                dir: dir.clone(),
                nodes: usize::from(args.nodes),
                images,
                installed: cache()?,
            },
        )
        .context("this machine can't run pods")?;
        let router = localkube::http::router(store, agent.router());
        let client = Client::new(router.clone().into_service(), "default");

        let mut api = Part::new();
        let stop = api.stopped();
        api.tasks.spawn(async move {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Ok(serve(listener, router, credentials, stop).await?)
        });
        install(&client, kinds.await?).await?;
        // Only now: who waits for the file finds the kinds of the operator there.
        write_private(&kubeconfig, &access)?;
        let mut nodes = Part::new();
        let stop = nodes.stopped();
        nodes.tasks.spawn(async move { Ok(agent.run(stop).await?) });
        let mut deciders = Part::new();
        let (of_client, stop) = (client.clone(), deciders.stopped());
        deciders.tasks.spawn(async move {
            control::run(of_client, stop).await;
            Ok(())
        });
        let settings = Settings {
            init_image: Some(OWN_IMAGE.to_owned()),
            etcd: Etcd {
                servers: args.etcd_server.iter().cloned().filter_map(some).collect(),
                asks_api: true,
            },
            runtime_image: RUNTIME_IMAGE.to_owned(),
            cache_path_prefixes: CACHE_PATH_PREFIXES.split(',').map(str::to_owned).collect(),
            allow_local_paths: true,
            default_volume_dir: dir.join(node::DATA).to_str().map(str::to_owned),
            free_space_ratio: Some(FREE_SPACE_RATIO),
            ..Settings::default()
        };
        for controller in Controller::ALL {
            let (client, settings) = (client.clone(), settings.clone());
            let stop = deciders.stopped();
            deciders.tasks.spawn(async move {
                controller.run(client, settings, || {}, stop).await;
                Ok(())
            });
        }
        Ok(Local {
            client,
            server,
            kubeconfig,
            dir,
            deciders,
            nodes,
            api,
            _lock: lock,
        })
    }

    /// Ends all of it, as a machine that is shut down.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.deciders.end().await?;
        tracing::debug!("the controllers have stopped");
        self.nodes.end().await?;
        tracing::debug!("the nodes have stopped");
        rootless::leave(&self.dir);
        self.api.end().await
    }
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%=".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// Another process has the directory.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is used by another paddle-operator local; give another --dir, or use it: \
     export KUBECONFIG={}",
    .0.display(),
    quoted(&.0.join("kubeconfig"))
)]
pub(crate) struct InUse(PathBuf);

/// Takes the directory for this process.
fn lock(dir: &Path) -> anyhow::Result<File> {
    let file = File::create(dir.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(InUse(dir.to_owned()).into()),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Whether a process has taken a directory.
pub(crate) fn is_in_use(dir: &Path) -> bool {
    let lock = File::open(dir.join(LOCK));
    // Shared, so that two who look are not in each other's way.
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Listens, on the port of last time if any will do.
fn listen(address: SocketAddr, dir: &Path) -> anyhow::Result<TcpListener> {
    if address.ip().is_unspecified() {
        bail!("--listen {address}: give the one address by which it shall be reached");
    }
    let file = dir.join("port");
    let last = fs::read_to_string(&file).ok();
    let last = last.and_then(|port| port.trim().parse::<u16>().ok());
    let again = last.filter(|_| address.port() == 0);
    let again = again.and_then(|port| TcpListener::bind((address.ip(), port)).ok());
    let listener = match again {
        Some(listener) => listener,
        None => TcpListener::bind(address).with_context(|| format!("--listen {address}"))?,
    };
    fs::write(file, listener.local_addr()?.port().to_string())?;
    Ok(listener)
}

fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(text.as_bytes())?;
    Ok(fs::rename(draft, path)?)
}

/// Installs the kinds, or brings them up to date.
async fn install(client: &Client, kinds: [CustomResourceDefinition; 3]) -> anyhow::Result<()> {
    let definitions = Api::all(client.clone());
    for mut definition in kinds {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let Some(old) = definitions.get_opt(&name).await? else {
            definitions
                .create(&PostParams::default(), &definition)
                .await?;
            continue;
        };
        definition.metadata.resource_version = old.metadata.resource_version;
        definitions
            .replace(&name, &PostParams::default(), &definition)
            .await?;
    }
    Ok(())
}
