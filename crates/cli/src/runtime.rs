//! `paddle-operator runtime`: the cache runtime server beside a partition.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

/// Where everything is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the volume is mounted
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where jobs are kept
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// Where the mount caches its blocks; may be given several times
    #[arg(long, value_name = "DIR")]
    cache_dir: Vec<PathBuf>,
    /// The certificate that clients know, in PEM
    #[arg(long, value_name = "FILE")]
    tls_certificate: PathBuf,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// What clients must know
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Where to listen [default: port 7716 of every address]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The juicefs binary
    #[arg(long, value_name = "PATH", default_value = "juicefs")]
    juicefs: PathBuf,
}

/// Of both families, where there is IPv6.
fn default_address() -> SocketAddr {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    let every = match has_ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(every, cache_api::PORT)
}

/// Serves until it is told to end.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let options = cache::Options {
        data_dir: args.data_dir,
        state_dir: args.state_dir,
        cache_dirs: args.cache_dir,
        tls_certificate: args.tls_certificate,
        tls_key: args.tls_key,
        token_file: args.token_file,
        listen: args.listen.unwrap_or_else(default_address),
        juicefs: args.juicefs,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = cache::Server::bind(options).await?;
        tracing::info!(address = %server.address()?, "listens");
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        server.run(shutdown).await;
        Ok(())
    })
}
