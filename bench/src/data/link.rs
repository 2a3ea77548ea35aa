//! A link of limited bandwidth: a proxy that hands bytes on no faster than it is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// So many bytes go at once.
const PIECE: usize = 16 << 10;

/// The link.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) address: SocketAddr,
    /// Bytes per second in each direction; 0: any number.
    rate: Arc<AtomicU64>,
}

/// One direction of it, shared by all connections.
struct Lane {
    rate: Arc<AtomicU64>,
    /// When the next byte may go.
    next: Mutex<Instant>,
}

impl Link {
    /// From a port of its own to a server, without a limit yet.
    pub(crate) async fn to(server: SocketAddr) -> anyhow::Result<Link> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("link")?;
        let link = Link {
            address: listener.local_addr()?,
            rate: Arc::default(),
        };
        let (up, down) = (link.lane(), link.lane());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (up, down) = (Arc::clone(&up), Arc::clone(&down));
                tokio::spawn(async move {
                    let server = TcpStream::connect(server).await?;
                    // Else each small answer waits 40 ms for company.
                    server.set_nodelay(true)?;
                    client.set_nodelay(true)?;
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let down = async move { down.carry(from_server, to_client).await };
                    tokio::spawn(down);
                    up.carry(from_client, to_server).await
                });
            }
        });
        Ok(link)
    }

    fn lane(&self) -> Arc<Lane> {
        Arc::new(Lane {
            rate: Arc::clone(&self.rate),
            next: Mutex::new(Instant::now()),
        })
    }

    /// From now on.
    pub(crate) fn limit(&self, megabits: Option<u64>) {
        let rate = megabits.map_or(0, |megabits| megabits * 1_000_000 / 8);
        self.rate.store(rate, Ordering::SeqCst);
    }
}

impl Lane {
    async fn carry(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = from.read(&mut piece).await?;
            if length == 0 {
                return to.shutdown().await;
            }
            self.wait(length).await;
            to.write_all(piece.get(..length).unwrap_or_default())
                .await?;
        }
    }

    /// Until so many bytes have gone.
    async fn wait(&self, bytes: usize) {
        let rate = self.rate.load(Ordering::SeqCst);
        if rate == 0 {
            return;
        }
        let gone = {
            let mut next = self.next.lock().await;
            let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
            *next = (*next).max(Instant::now()) + takes;
            *next
        };
        tokio::time::sleep_until(gone).await;
    }
}
