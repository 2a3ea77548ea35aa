//! The cache runtime servers, followed: what each last said of its cache and of
//! some jobs is kept in memory, so that a pass asks nobody, and a change of it
//! causes a pass.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cache_api::{Client, Identity, NewJob, PORT, Poll};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::operation::{Answers, Cancel, Post, State};
use plan::sampleset::{Child, RuntimePod};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

mod access;
mod known;
mod wire;

pub(crate) use access::{CERTIFICATE, KEY, TOKEN, secrets};

use access::Accesses;
use known::Known;

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
    /// How it was known.
    identity: Identity,
    client: Client,
    known: Known,
    /// The jobs that are followed.
    ids: watch::Sender<BTreeSet<String>>,
    tell: Tell,
    _task: JoinSet<()>,
}

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

    /// What the servers of a set last said, and follows them from now on, if there is a
    /// Secret of the set that says how to reach them.
    pub(crate) async fn ask(
        &self,
        whose: &str,
        set: &ObjectMeta,
        pods: &[RuntimePod],
        ids: &BTreeSet<String>,
        tell: &Tell,
    ) -> Result<Child<Answers>, Error> {
        if self.is_silent(whose) || pods.iter().any(RuntimePod::is_stuck) {
            // Somebody may have deleted their Secret, or they got another one meanwhile.
            self.accesses.forget(whose);
        }
        Ok(match self.accesses.of(&self.client, whose, set).await? {
            Child::Ours(identity) => Child::Ours(self.answers(whose, pods, &identity, ids, tell)),
            Child::Foreign => Child::Foreign,
            Child::Missing => Child::Missing,
        })
    }

    /// Whether one of the servers does not answer.
    fn is_silent(&self, whose: &str) -> bool {
        let all = self.lock();
        let servers = all.get(whose).into_iter().flat_map(BTreeMap::values);
        servers.into_iter().any(|server| server.known.is_silent())
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
            let is_same =
                |(pod, ip): &(&RuntimePod, IpAddr)| pod.uid == server.pod && *ip == server.address;
            pod.is_some_and(is_same) && server.identity == *identity
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
    fn client(&self, whose: &str, partition: i32) -> Option<(Client, Known, Tell)> {
        let all = self.lock();
        let server = all.get(whose)?.get(&partition)?;
        let (client, known) = (server.client.clone(), server.known.clone());
        Some((client, known, Arc::clone(&server.tell)))
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
        let Some((client, known, tell)) = self.client(whose, partition) else {
            return;
        };
        match client.post(job).await {
            Ok(job) => {
                known.hear(&job);
            }
            Err(cache_api::Error::Refused {
                status: 400..=499,
                message,
                ..
            }) => {
                tracing::warn!(message, id = job.id, "a job was refused");
                let reason = "Refused".to_owned();
                known.assume(&job.id, State::Failed { reason, message });
                tell();
            }
            Err(error) => {
                tracing::warn!(%error, id = job.id, "a job could not be posted");
                known.note_refusal(&job.id, error.to_string());
                tell();
            }
        }
    }

    /// Cancels a job, if it has not ended.
    async fn cancel(&self, whose: &str, partition: i32, id: &str) {
        let Some((client, known, _)) = self.client(whose, partition) else {
            return;
        };
        match client.cancel(id).await {
            Ok(Some(job)) => {
                known.hear(&job);
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

    /// Only these want to know.
    pub(crate) fn keep(&self, uids: &HashSet<String>) {
        self.lock().retain(|whose, _| uids.contains(whose));
        self.accesses.keep(uids);
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
            identity: identity.clone(),
            client,
            known,
            ids,
            tell: Arc::clone(tell),
            _task: task,
        })
    }
}

async fn follow_cache(client: Client, known: Known, tell: Tell) {
    let mut revision = None;
    loop {
        let poll = revision.map(|since| Poll { since, wait: WAIT });
        let answer = client.cache(poll).await;
        revision = answer.as_ref().ok().map(|cache| cache.revision);
        let figures = answer.as_ref().map(wire::figures);
        if known.hear_cache(figures.map_err(ToString::to_string)) {
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
                known.forget(id);
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
        let answer = client.job(&id, poll).await;
        revision = answer.as_ref().ok().map(|job| job.revision);
        let has_ended = answer.as_ref().is_ok_and(|job| job.state.has_ended());
        // Whoever hears of the end looks at the figures, which may come later by themselves.
        if has_ended && let Ok(cache) = client.cache(None).await {
            known.hear_cache(Ok(wire::figures(&cache)));
        }
        let is_new = match &answer {
            Ok(job) => known.hear(job),
            Err(error) if error.is_not_found() => known.assume(&id, State::NotFound),
            Err(error) => {
                let message = Some(error.to_string());
                known.assume(&id, State::Unreachable { message })
            }
        };
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
