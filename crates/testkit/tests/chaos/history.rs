//! What happens to the pods and jobs, followed event by event on a connection
//! of our own that nobody disturbs: a rule that is broken for a moment is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use api::{PaddleJob, labels};
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// What the watches have shown so far.
#[derive(Debug, Default)]
pub struct History {
    /// Every pod that there was, by uid.
    pub pods: BTreeMap<String, Life>,
    /// The jobs as they are, by name.
    pub jobs: BTreeMap<String, PaddleJob>,
    /// The rules that were broken.
    pub broken: Vec<String>,
    /// Pods that the test itself deletes: only these may be made twice.
    pub taken: BTreeSet<String>,
}

/// The life of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    pub name: String,
    pub job: String,
    pub role: String,
    pub attempt: i32,
    pub phase: String,
    /// It was once seen Running, or as ended.
    pub ran: bool,
    /// It was seen being deleted, with time to stop.
    pub asked_to_stop: bool,
    pub is_gone: bool,
}

impl Life {
    /// Its containers have ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// It went from one moment to the next. The manager always lets a pod that
    /// runs stop first, but kwok deletes by name: when it does so twice, it can
    /// hit the successor of the pod that it means. (A kubelet names the uid.)
    pub fn was_hit_by_kwok(&self) -> bool {
        self.is_gone && !self.asked_to_stop && !self.has_ended()
    }
}

/// What watches are followed into.
pub trait Record: Default + Send + 'static {
    /// The rules that were broken.
    fn broken(&mut self) -> &mut Vec<String>;
}

impl Record for History {
    fn broken(&mut self) -> &mut Vec<String> {
        &mut self.broken
    }
}

/// The history, as several tasks hold it.
#[derive(Debug, Default)]
pub struct Shared<R = History>(Arc<Mutex<R>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<R> Shared<R> {
    pub fn lock(&self) -> MutexGuard<'_, R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows a namespace for as long as it lives.
#[derive(Debug)]
pub struct Follower {
    history: Shared,
    _watches: JoinSet<()>,
}

impl Follower {
    /// Returns when the watches have begun.
    pub async fn start(client: &Client, namespace: &str) -> Result<Follower> {
        let history = Shared::default();
        let mut watches = JoinSet::new();
        let begun = [
            follow::<Pod, _>(
                &mut watches,
                client,
                namespace,
                &history,
                History::see_pod,
                History::miss_pod,
            ),
            follow::<PaddleJob, _>(
                &mut watches,
                client,
                namespace,
                &history,
                History::see_job,
                |history, job| {
                    history
                        .broken
                        .push(format!("{}: the job was deleted", job.name_any()));
                },
            ),
        ];
        for begun in begun {
            begun.await?;
        }
        Ok(Follower {
            history,
            _watches: watches,
        })
    }

    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    pub fn share(&self) -> Shared {
        self.history.clone()
    }
}

/// Follows a kind into a record; what it returns is told when the watch has begun.
pub fn follow<K, R: Record>(
    watches: &mut JoinSet<()>,
    client: &Client,
    namespace: &str,
    history: &Shared<R>,
    see: fn(&mut R, K) -> Result<()>,
    miss: fn(&mut R, K),
) -> oneshot::Receiver<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (begun, has_begun) = oneshot::channel();
    let mut begun = Some(begun);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let history = history.clone();
    watches.spawn(async move {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let mut history = history.lock();
            let seen = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    see(&mut history, object)
                }
                Ok(watcher::Event::Delete(object)) => {
                    miss(&mut history, object);
                    Ok(())
                }
                // A second list would mean that events in between were missed.
                Ok(watcher::Event::Init) if begun.is_none() => {
                    Err(anyhow!("the test's own watch has a gap"))
                }
                Ok(watcher::Event::Init) => Ok(()),
                Ok(watcher::Event::InitDone) => {
                    // Nobody waits any more when the test has ended.
                    let _ = begun.take().map(|begun| begun.send(()));
                    Ok(())
                }
                Err(error) => Err(anyhow!(error).context("the test's own watch")),
            };
            if let Err(error) = seen {
                history.broken().push(format!("{error:#}"));
            }
        }
    });
    has_begun
}

impl History {
    fn see_pod(&mut self, pod: Pod) -> Result<()> {
        let uid = pod.uid().context("a pod without uid")?;
        let life = read(&pod).with_context(|| format!("pod {}", pod.name_any()))?;
        if let Some(known) = self.pods.get_mut(&uid) {
            known.ran |= life.ran;
            known.asked_to_stop |= life.asked_to_stop;
            known.phase = life.phase;
            return Ok(());
        }
        // A new pod. Names are unique, so that two pods of one rank can't be
        // there at once; what can happen is two attempts at once, or one rank
        // twice in one attempt.
        let mut broken = Vec::new();
        for other in self.pods.values().filter(|other| other.job == life.job) {
            if !other.is_gone && other.attempt != life.attempt {
                broken.push(format!(
                    "pod {} of attempt {} was made while {} of attempt {} was there",
                    life.name, life.attempt, other.name, other.attempt
                ));
            }
            if other.attempt > life.attempt {
                broken.push(format!(
                    "pod {} of attempt {} was made after {} of attempt {}",
                    life.name, life.attempt, other.name, other.attempt
                ));
            }
            let is_double = other.name == life.name && other.attempt == life.attempt;
            let excuse = self.taken.contains(&other.name) || other.was_hit_by_kwok();
            if is_double && !excuse {
                broken.push(format!(
                    "pod {} was made twice in attempt {}",
                    life.name, life.attempt
                ));
            }
        }
        self.broken.append(&mut broken);
        self.pods.insert(uid, life);
        Ok(())
    }

    fn miss_pod(&mut self, pod: Pod) {
        if let Some(life) = pod.uid().and_then(|uid| self.pods.get_mut(&uid)) {
            life.is_gone = true;
        }
    }

    fn see_job(&mut self, job: PaddleJob) -> Result<()> {
        let name = job.name_any();
        if let Some(old) = self.jobs.get(&name) {
            let (was, is) = (old.status.clone(), job.status.clone());
            let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
            let ended = was.phase.is_some_and(api::Phase::is_terminal);
            if ended && (was.phase, &was.completion_time) != (is.phase, &is.completion_time) {
                self.broken.push(format!(
                    "{name}: it had ended as {:?} and became {:?}",
                    was.phase, is.phase
                ));
            }
            if is.restarts < was.restarts || is.attempt < was.attempt {
                self.broken
                    .push(format!("{name}: restarts or attempt went back"));
            }
        }
        self.jobs.insert(name, job);
        Ok(())
    }
}

fn read(pod: &Pod) -> Result<Life> {
    let label = |key| {
        let value = pod.labels().get(key).cloned();
        value.with_context(|| format!("it has no label {key}"))
    };
    let attempt = pod.annotations().get(labels::ATTEMPT);
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    let phase = phase.unwrap_or_default();
    Ok(Life {
        name: pod.name_any(),
        job: label(labels::JOB_NAME)?,
        role: label(labels::ROLE)?,
        attempt: attempt.context("it has no attempt")?.parse()?,
        ran: !phase.is_empty() && phase != "Pending",
        phase,
        asked_to_stop: pod.metadata.deletion_grace_period_seconds > Some(0),
        is_gone: false,
    })
}
