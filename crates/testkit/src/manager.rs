//! The controller under test, in this process.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use controllers::{Clock, Options, paddlejob};
use kube::client::ClientBuilder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::util::MapRequestLayer;

use crate::accounts;

/// The image of the init container that the manager under test adds.
pub const INIT_IMAGE: &str = "paddle-operator:test";

/// A request that the manager sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `POST`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
}

impl Request {
    /// Whether it asks for a change.
    pub fn is_write(&self) -> bool {
        self.method != "GET"
    }
}

/// A manager at work.
#[derive(Debug)]
pub(crate) struct Manager {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The requests of all managers of a scenario, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<Request>>>);

impl Requests {
    pub(crate) fn all(&self) -> Vec<Request> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, request: Request) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
    }
}

impl Manager {
    /// Starts a manager; returns when its caches are filled.
    pub(crate) async fn start(
        config: &kube::Config,
        namespace: Option<String>,
        clock: &Clock,
        requests: &Requests,
    ) -> Result<Manager> {
        let requests = requests.clone();
        let note = move |request: http::Request<kube::client::Body>| {
            requests.note(Request {
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
            });
            request
        };
        // Outermost, so that a request counts once however often it is tried.
        let own = accounts::config_of(accounts::PADDLEJOB, config);
        let client = ClientBuilder::try_from(own)?
            .with_layer(&MapRequestLayer::new(note))
            .build();
        let options = Options {
            namespace,
            settings: paddlejob::Means {
                plan: plan::paddlejob::Settings {
                    init_image: Some(INIT_IMAGE.to_owned()),
                    ..plan::paddlejob::Settings::default()
                },
                ..paddlejob::Means::default()
            },
            clock: clock.clone(),
            ..Options::default()
        };
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let ready = || {
            // The one who waits may have given up.
            let _ = ready.send(());
        };
        let stopped = async {
            // Dropping the other end stops the manager too.
            let _ = stopped.await;
        };
        let task = tokio::spawn(paddlejob::run(client, options, ready, stopped));
        tokio::time::timeout(crate::wait::PATIENCE, is_ready)
            .await
            .context("the manager does not become ready")?
            .context("the manager ended at once")?;
        Ok(Manager { stop, task })
    }

    /// Lets it end what it is doing, as on SIGTERM.
    pub(crate) async fn stop(self) -> Result<()> {
        drop(self.stop);
        tokio::time::timeout(crate::wait::PATIENCE, self.task)
            .await
            .context("the manager does not end")?
            .context("the manager panicked")
    }
}
