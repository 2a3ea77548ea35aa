//! The cache runtime servers, followed: what each last said of its cache and of
//! some jobs is kept in memory, so that a pass asks nobody, and a change of it
//! causes a pass.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cache_api::{Client, Identity, NewJob, PORT, Poll};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::operation::{Answer, Answers, Cancel, Post, State};
use plan::sampleset::RuntimePod;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

mod access;
mod wire;

pub(crate) use access::{CERTIFICATE, KEY, TOKEN, secrets};

use access::Accesses;

use crate::Error;

/// How long a server may take to tell of a change that does not come.
const WAIT: Duration = Duration::from_secs(50);
/// The pause before a server that did not answer, or did not know a job, is asked
/// again.
const RETRY: Duration = Duration::from_secs(1);

/// Tells that something changed.
pub(crate) type Tell = Arc<dyn Fn() + Send + Sync>;

/// The servers that a controller follows.
pub(crate) struct Servers {
    client: kube::Client,
    accesses: Accesses,
    /// By the uid of the object that wants to know.
    followed: Mutex<HashMap<String, BTreeMap<i32, Server>>>,
}

/// A server that is followed; it is no longer when this is dropped.
struct Server {
    pod: String,
    address: IpAddr,
    client: Client,
    known: Known,
    /// The jobs that are followed.
    ids: watch::Sender<BTreeSet<String>>,
    _task: JoinSet<()>,
}

/// What a server last said.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<Answer>>);

impl Servers {
    /// None yet.
    pub(crate) fn new(client: kube::Client) -> Servers {
        Servers {
            client,
            accesses: Accesses::default(),
            followed: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<i32, Server>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the servers of a set last said, and follows them from now on; `None`: there
    /// is no Secret that says how to reach them.
    pub(crate) async fn ask(
        &self,
        whose: &str,
        set: &ObjectMeta,
        pods: &[RuntimePod],
        ids: &BTreeSet<String>,
        tell: &Tell,
    ) -> Result<Option<Answers>, Error> {
        let identity = self.accesses.of(&self.client, whose, set).await?;
        Ok(identity.map(|identity| self.answers(whose, pods, &identity, ids, tell)))
    }

    fn answers(
        &self,
        whose: &str,
        pods: &[RuntimePod],
        identity: &Identity,
        ids: &BTreeSet<String>,
        tell: &Tell,
    ) -> Answers {
        let mut all = self.lock();
        let servers = all.entry(whose.to_owned()).or_default();
        let alive: BTreeMap<i32, (&RuntimePod, IpAddr)> = pods
            .iter()
            .filter(|pod| pod.deleted_at.is_none())
            .filter_map(|pod| Some((pod.partition, (pod, pod.ip?))))
            .collect();
        servers.retain(|partition, server| {
            let pod = alive.get(partition);
            pod.is_some_and(|(pod, ip)| pod.uid == server.pod && *ip == server.address)
        });
        for (partition, (pod, ip)) in alive {
            if !servers.contains_key(&partition)
                && let Some(server) = Server::follow(&pod.uid, ip, identity, tell)
            {
                servers.insert(partition, server);
            }
        }
        for server in servers.values() {
            server.ids.send_if_modified(|now| {
                let is_new = now != ids;
                now.clone_from(ids);
                is_new
            });
        }
        let answers = servers.iter();
        answers
            .map(|(partition, server)| (*partition, server.known.get()))
            .collect()
    }

    /// The client of a partition's server, if it is followed.
    fn client(&self, whose: &str, partition: i32) -> Option<(Client, Known)> {
        let all = self.lock();
        let server = all.get(whose)?.get(&partition)?;
        Some((server.client.clone(), server.known.clone()))
    }

    /// Does what a plan asks of the servers, with the keys that it needs.
    pub(crate) async fn operate(
        &self,
        whose: &str,
        namespace: &str,
        cancelled: &[Cancel],
        posted: &[Post],
    ) -> Result<(), Error> {
        for cancel in cancelled {
            self.cancel(whose, cancel.partition, &cancel.id).await;
        }
        for post in posted {
            let credentials = match &post.credentials {
                Some(wanted) => Some(access::credentials(&self.client, namespace, wanted).await?),
                None => None,
            };
            let job = NewJob {
                id: post.id.clone(),
                owner: post.owner.clone(),
                task: wire::task(&post.task),
                credentials,
            };
            self.post(whose, post.partition, &job).await;
        }
        Ok(())
    }

    /// Posts a job. What the server says to it is known at once; one that refuses
    /// it for good has failed it.
    async fn post(&self, whose: &str, partition: i32, job: &NewJob) {
        let Some((client, known)) = self.client(whose, partition) else {
            return;
        };
        let state = match client.post(job).await {
            Ok(job) => wire::state(&job),
            Err(cache_api::Error::Refused {
                status: 400..=499,
                message,
                ..
            }) => State::Failed {
                reason: "Refused".to_owned(),
                message,
            },
            Err(error) => {
                tracing::warn!(%error, id = job.id, "a job could not be posted");
                return;
            }
        };
        known.update(|answer| {
            answer.operations.insert(job.id.clone(), state);
        });
    }

    /// Cancels a job, if it has not ended.
    async fn cancel(&self, whose: &str, partition: i32, id: &str) {
        let Some((client, known)) = self.client(whose, partition) else {
            return;
        };
        match client.cancel(id).await {
            Ok(Some(job)) => {
                let state = wire::state(&job);
                known.update(|answer| {
                    answer.operations.insert(id.to_owned(), state);
                });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, id, "a job could not be cancelled"),
        }
    }

    /// Nobody wants to know any more.
    pub(crate) fn forget(&self, whose: &str) {
        self.lock().remove(whose);
        self.accesses.forget(whose);
    }

    /// The Secret of the servers may be another one by now: it is read again.
    pub(crate) fn forget_access(&self, whose: &str) {
        self.accesses.forget(whose);
    }
}

impl Server {
    fn follow(pod: &str, address: IpAddr, identity: &Identity, tell: &Tell) -> Option<Server> {
        let socket = SocketAddr::new(address, PORT);
        let client = match Client::new(socket, &identity.certificate, &identity.token) {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%error, %address, "a runtime server can't be asked");
                return None;
            }
        };
        let (known, (ids, wanted)) = (Known::default(), watch::channel(BTreeSet::new()));
        let mut task = JoinSet::new();
        task.spawn(follow_cache(
            client.clone(),
            known.clone(),
            Arc::clone(tell),
        ));
        task.spawn(follow_jobs(
            client.clone(),
            known.clone(),
            wanted,
            Arc::clone(tell),
        ));
        Some(Server {
            pod: pod.to_owned(),
            address,
            client,
            known,
            ids,
            _task: task,
        })
    }
}

impl Known {
    fn get(&self) -> Answer {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes what is known; true if it is something else now.
    fn update(&self, change: impl FnOnce(&mut Answer)) -> bool {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = answer.clone();
        change(&mut answer);
        *answer != before
    }
}

async fn follow_cache(client: Client, known: Known, tell: Tell) {
    let mut revision = None;
    loop {
        let poll = revision.map(|since| Poll { since, wait: WAIT });
        let answer = client.cache(poll).await;
        revision = answer.as_ref().ok().map(|cache| cache.revision);
        let is_new = known.update(|known| match &answer {
            Ok(cache) => {
                known.error = None;
                known.cache = Some(wire::figures(cache));
            }
            Err(error) => known.error = Some(error.to_string()),
        });
        if is_new {
            tell();
        }
        if answer.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    }
}

async fn follow_jobs(
    client: Client,
    known: Known,
    mut wanted: watch::Receiver<BTreeSet<String>>,
    tell: Tell,
) {
    let mut tasks = JoinSet::new();
    let mut followed: BTreeMap<String, AbortHandle> = BTreeMap::new();
    loop {
        let ids = wanted.borrow_and_update().clone();
        followed.retain(|id, task| {
            let is_wanted = ids.contains(id);
            if !is_wanted {
                task.abort();
                known.update(|answer| {
                    answer.operations.remove(id);
                });
            }
            is_wanted
        });
        for id in ids {
            let (client, known, tell) = (client.clone(), known.clone(), Arc::clone(&tell));
            followed
                .entry(id.clone())
                .or_insert_with(|| tasks.spawn(follow_job(client, known, id, tell)));
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Until the job has ended: ids are never used again.
async fn follow_job(client: Client, known: Known, id: String, tell: Tell) {
    let mut revision = None;
    loop {
        let poll = revision.map(|since| Poll { since, wait: WAIT });
        let (state, has_ended) = match client.job(&id, poll).await {
            Ok(job) => {
                revision = Some(job.revision);
                (wire::state(&job), job.state.has_ended())
            }
            Err(error) if error.is_not_found() => {
                revision = None;
                (State::NotFound, false)
            }
            Err(error) => {
                revision = None;
                let message = error.to_string();
                (State::Unreachable { message }, false)
            }
        };
        let is_new = known.update(|answer| {
            answer.operations.insert(id.clone(), state);
        });
        if is_new {
            tell();
        }
        if has_ended {
            return;
        }
        if revision.is_none() {
            tokio::time::sleep(RETRY).await;
        }
    }
}
