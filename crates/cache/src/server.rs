//! The server as a whole.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cache_api::Task;
use juicefs::{Juicefs, MountPoint};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::api::{self, Service};
use crate::figures::Figures;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::store::{self, Store};
use crate::tasks::{Context, SHARE_FILE};
use crate::worker;

/// How often it is looked whether clients know the server by something else.
const LOOK: Duration = Duration::from_secs(10);
/// How soon the data is counted again that could not be counted at the start.
const COUNT_AGAIN: Duration = Duration::from_secs(5);

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the volume is mounted.
    pub data_dir: PathBuf,
    /// Where jobs are kept.
    pub state_dir: PathBuf,
    /// Where the mount caches its blocks.
    pub cache_dirs: Vec<PathBuf>,
    /// The certificate, in PEM.
    pub tls_certificate: PathBuf,
    /// Its key, in PEM.
    pub tls_key: PathBuf,
    /// What clients must know.
    pub token_file: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The juicefs binary.
    pub juicefs: PathBuf,
}

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory can't be used.
    #[error("{}: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The address can't be had.
    #[error("can't listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    service: Service,
    context: Context,
    cache_dirs: Vec<PathBuf>,
    interrupted: Vec<Task>,
    /// What it is known by, in the files that hold it.
    known_by: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl Server {
    /// Takes up the jobs that are there and listens.
    ///
    /// # Errors
    /// When a file is missing, or the address is taken.
    pub async fn bind(options: Options) -> Result<Server, Error> {
        let known_by = [&options.tls_certificate, &options.token_file];
        let known_by = known_by.map(|file| (file.clone(), std::fs::read(file).ok()));
        let tls = tls(&options)?;
        let token = token(&options.token_file)?;
        let state_dir = options.state_dir;
        let broken = |error: io::Error| broken(&state_dir, &error);
        store::make_private(&state_dir).map_err(broken)?;
        let (store, found) = Store::open(state_dir.join("jobs")).map_err(broken)?;
        let (jobs, interrupted) = Jobs::new(store, found);
        let juicefs = Juicefs::new(options.juicefs).noting(state_dir.join("commands"));
        let share = store::read(&state_dir.join(SHARE_FILE)).ok();
        let figures = Figures::new(share);
        let listener = TcpListener::bind(options.listen);
        let listener = listener
            .await
            .map_err(|error| Error::Listen(options.listen, error))?;
        Ok(Server {
            listener,
            tls,
            service: Service {
                jobs,
                figures: figures.clone(),
                metrics: Metrics::new(),
                token,
            },
            context: Context {
                juicefs: juicefs.map_err(broken)?,
                mount: MountPoint::new(options.data_dir),
                state_dir,
                figures,
            },
            cache_dirs: options.cache_dirs,
            interrupted,
            known_by: known_by.into(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Works and answers until `shutdown` is done. A job that is under way then is
    /// ended, and begins again with the next server.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Server {
            listener,
            tls,
            service,
            context,
            cache_dirs,
            interrupted,
            known_by,
        } = self;
        let router = api::router(service.clone());
        let Service { jobs, metrics, .. } = service;
        // Tasks of their own: whatever one of them waits for, the others go on.
        let mut tasks = JoinSet::new();
        tasks.spawn(worker::work(
            jobs.clone(),
            context.clone(),
            metrics,
            interrupted,
        ));
        tasks.spawn(async move { jobs.expire().await });
        context.figures.begin(&context.mount, &cache_dirs).await;
        let (figures, mount) = (context.figures.clone(), context.mount.clone());
        tasks.spawn(async move { figures.sample(mount, cache_dirs).await });
        tasks.spawn(async move { count_first(&context).await });
        tokio::select! {
            () = https::serve(listener, tls, router, shutdown) => {}
            // It is started again, and its jobs are on disk.
            () = renamed(known_by) => {}
            // The same for one that panics.
            () = async { while let Some(Ok(())) = tasks.join_next().await {} } => {}
        }
        tasks.shutdown().await;
    }
}

/// Until what clients know the server by is something else: somebody deleted the Secret,
/// and another was made.
async fn renamed(known_by: Vec<(PathBuf, Option<Vec<u8>>)>) {
    let differs = |(file, known): &(PathBuf, Option<Vec<u8>>)| {
        let now = std::fs::read(file).ok();
        now.is_some() && now != *known
    };
    while !known_by.iter().any(differs) {
        tokio::time::sleep(LOOK).await;
    }
    tracing::warn!(
        "the certificate or the token is another one: the server ends, to start with it"
    );
}

/// Counts the data once, as soon as it can be counted.
async fn count_first(context: &Context) {
    while !context.count().await {
        tokio::time::sleep(COUNT_AGAIN).await;
    }
}

fn broken(path: &Path, cause: &dyn std::fmt::Display) -> Error {
    Error::File {
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

fn tls(options: &Options) -> Result<Arc<ServerConfig>, Error> {
    let (certificate, key) = (&options.tls_certificate, &options.tls_key);
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| broken(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(key, &error))?;
    https::config(certificates, key).map_err(|error| broken(certificate, &error))
}

/// An empty one would let everybody in.
fn token(file: &Path) -> Result<Arc<str>, Error> {
    let text = std::fs::read_to_string(file).map_err(|error| broken(file, &error))?;
    match text.trim() {
        "" => Err(broken(file, &"there is no token in it")),
        token => Ok(Arc::from(token)),
    }
}
