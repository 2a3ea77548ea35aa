//! Follows jobs to their end: what they do, and what their pods say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use api::{PaddleJob, labels};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector as reflect};
use kube::{Api, Client, ResourceExt};
use localcluster::node::tail::Tail;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::apply::{self, JobKey};
use super::listen::{Listener, containers};
use super::screen::{Said, Screen};
use super::view::{Outcome, Progress};
use super::{Signal, Signals};

/// So many lines may wait to be shown before those who say them have to wait.
const LINES: usize = 4096;

/// What is followed, and how.
pub(crate) struct Options<'a> {
    pub(crate) client: &'a Client,
    /// The state directory.
    pub(crate) dir: &'a Path,
    pub(crate) shows_logs: bool,
    /// A signal leaves the jobs as they are.
    pub(crate) keeps: bool,
    /// Says why there is nothing to follow any more.
    pub(crate) is_lost: &'a (dyn Fn() -> bool + Sync),
}

/// What became of everything.
pub(crate) enum End {
    /// All jobs ended; how, in their order.
    Jobs(Vec<Ended>),
    /// Somebody wanted it to end.
    Stopped(Signal),
}

/// How a job ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) progress: Progress,
    pub(crate) took: Duration,
}

/// A job that is followed.
struct Followed {
    key: JobKey,
    /// Before the names of its pods, when there are several jobs.
    prefix: String,
    jobs: Store<PaddleJob>,
    pods: Store<Pod>,
    progress: Progress,
    ended: Option<(Outcome, Duration)>,
    /// The lists of the job and of its pods were read.
    is_known: (bool, bool),
    is_gone: bool,
    /// The pods that are, or were, listened to.
    heard: BTreeMap<String, HeardPod>,
}

/// A pod that is listened to.
#[derive(Default)]
struct HeardPod {
    /// There was news of it.
    is_known: bool,
    is_gone: watch::Sender<bool>,
}

/// News of a job, by its place.
enum News {
    Job(usize, bool),
    Pods(usize, bool),
    Lost(watcher::Error),
}

/// Where logs are written.
pub(crate) fn log_dir(dir: &Path, job: &JobKey) -> PathBuf {
    dir.join("logs").join(&job.namespace).join(&job.name)
}

/// Follows jobs.
pub(crate) struct Follow<'a> {
    options: Options<'a>,
    screen: &'a mut Screen,
    jobs: Vec<Followed>,
    news: SelectAll<BoxStream<'static, News>>,
    listeners: JoinSet<std::io::Result<()>>,
    lines: (mpsc::Sender<Said>, mpsc::Receiver<Said>),
    begin: Instant,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(
        options: Options<'a>,
        screen: &'a mut Screen,
        keys: Vec<JobKey>,
    ) -> anyhow::Result<Follow<'a>> {
        let mut follow = Follow {
            options,
            screen,
            jobs: Vec::new(),
            news: SelectAll::new(),
            listeners: JoinSet::new(),
            lines: mpsc::channel(LINES),
            begin: Instant::now(),
        };
        let is_alone = keys.len() == 1;
        let names: BTreeSet<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let is_clear = names.len() == keys.len();
        for key in keys.clone() {
            let title = match is_clear {
                true => key.name.clone(),
                false => format!("{}/{}", key.namespace, key.name),
            };
            follow.screen.add_job(&title);
            let prefix = if is_alone {
                String::new()
            } else {
                format!("{title}/")
            };
            follow.add(key, prefix)?;
        }
        Ok(follow)
    }

    fn add(&mut self, key: JobKey, prefix: String) -> anyhow::Result<()> {
        // Of a job of that name before.
        let logs = log_dir(self.options.dir, &key);
        match std::fs::remove_dir_all(&logs) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| logs.display().to_string());
            }
            _ => {}
        }
        let place = self.jobs.len();
        let client = self.options.client;
        let (jobs, writer) = reflector::store();
        let by_name = watcher::Config::default().fields(&format!("metadata.name={}", key.name));
        let api = Api::<PaddleJob>::namespaced(client.clone(), &key.namespace);
        let job_news = reflect(writer, watcher(api, by_name).default_backoff());
        self.news
            .push(news(job_news, move |done| News::Job(place, done)).boxed());
        let (pods, writer) = reflector::store();
        let by_job = watcher::Config::default().labels(&selector(&key));
        let api = Api::<Pod>::namespaced(client.clone(), &key.namespace);
        let pod_news = reflect(writer, watcher(api, by_job).default_backoff());
        self.news
            .push(news(pod_news, move |done| News::Pods(place, done)).boxed());
        self.jobs.push(Followed {
            key,
            prefix,
            jobs,
            pods,
            progress: Progress::default(),
            ended: None,
            is_known: (false, false),
            is_gone: false,
            heard: BTreeMap::new(),
        });
        Ok(())
    }

    /// Until all have ended, or somebody wants it.
    pub(crate) async fn finish(mut self, signals: &mut Signals) -> anyhow::Result<End> {
        let mut stopped = None;
        let mut lines = Vec::new();
        while !self.is_done(stopped.is_some()) {
            tokio::select! {
                Some(news) = self.news.next() => self.learn(news).await?,
                _ = self.lines.1.recv_many(&mut lines, LINES) => {
                    self.screen.logs(&lines);
                    lines.clear();
                }
                Some(ended) = self.listeners.join_next() => {
                    if let Ok(Err(error)) = ended {
                        self.screen.say(&format!("a log can't be read: {error}"));
                    }
                }
                signal = signals.first(), if stopped.is_none() => {
                    if self.options.keeps {
                        return Ok(End::Stopped(signal));
                    }
                    self.stop().await?;
                    stopped = Some(signal);
                }
            }
        }
        // Those who say them have ended, and what they said is here.
        while let Ok(said) = self.lines.1.try_recv() {
            lines.push(said);
        }
        self.screen.logs(&lines);
        if let Some(signal) = stopped {
            return Ok(End::Stopped(signal));
        }
        let ended = self.jobs.into_iter().filter_map(|job| {
            let (outcome, took) = job.ended?;
            Some(Ended {
                outcome,
                progress: job.progress,
                took,
            })
        });
        Ok(End::Jobs(ended.collect()))
    }

    fn is_done(&self, is_stopped: bool) -> bool {
        let is_over = |job: &Followed| match is_stopped {
            true => job.is_gone && job.own_pods().next().is_none(),
            false => job.ended.is_some(),
        };
        self.listeners.is_empty() && self.jobs.iter().all(is_over)
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        for job in &self.jobs {
            let words = format!("stopping {} (once more leaves at once)", job.key);
            self.screen.say(&words);
            let stopped = apply::stop(self.options.client, &job.key).await;
            stopped.with_context(|| job.key.to_string())?;
        }
        Ok(())
    }

    async fn learn(&mut self, news: News) -> anyhow::Result<()> {
        let place = match news {
            News::Lost(error) if (self.options.is_lost)() => {
                tracing::debug!(%error, "watch");
                anyhow::bail!("the local mode that ran this has ended");
            }
            News::Lost(error) => {
                tracing::debug!(%error, "watch");
                return Ok(());
            }
            News::Job(place, _) | News::Pods(place, _) => place,
        };
        let Some(job) = self.jobs.get_mut(place) else {
            return Ok(());
        };
        match news {
            News::Job(_, is_whole) => job.is_known.0 |= is_whole,
            News::Pods(_, is_whole) => job.is_known.1 |= is_whole,
            News::Lost(_) => {}
        }
        if job.is_known != (true, true) {
            return Ok(());
        }
        let had_ended = job.ended.is_some();
        job.look(self.begin.elapsed());
        self.screen.show(place, &job.progress);
        let mut pods: Vec<Arc<Pod>> = job.own_pods().collect();
        if job.ended.is_some() && !had_ended {
            // News of its pods may come later than the news of its end.
            let api = Api::<Pod>::namespaced(self.options.client.clone(), &job.key.namespace);
            let options = ListParams::default().labels(&selector(&job.key));
            let found = api.list(&options).await;
            let found = found.with_context(|| job.key.to_string())?;
            let own = |pod: &Pod| is_of(pod, &job.key);
            pods.extend(found.items.into_iter().filter(own).map(Arc::new));
        }
        job.say_who_is_gone();
        for pod in pods {
            self.listen(place, &pod);
        }
        Ok(())
    }

    /// Listens to the containers of a pod that has a node.
    fn listen(&mut self, place: usize, pod: &Pod) {
        let has_node = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
        let (Some(job), Some(uid), true) = (self.jobs.get_mut(place), pod.uid(), has_node) else {
            return;
        };
        if job.heard.contains_key(&uid) {
            return;
        }
        let heard = HeardPod::default();
        let name = pod_label(pod, &job.key.name);
        for (container, name_of_container, is_quiet) in containers(pod) {
            let tail = match Tail::new(self.options.dir, &uid, &container.name) {
                Ok(tail) => tail,
                Err(error) => {
                    self.screen
                        .say(&format!("the log of pod {}: {error}", pod.name_any()));
                    continue;
                }
            };
            let (shown, file) = match name_of_container {
                Some(container) => (format!("{name}/{container}"), format!("{name}.{container}")),
                None => (name.clone(), name.clone()),
            };
            let listener = Listener {
                tail,
                is_quiet,
                speaker: self.screen.introduce(&format!("{}{shown}", job.prefix)),
                file: log_dir(self.options.dir, &job.key).join(format!("{file}.log")),
                gone: heard.is_gone.subscribe(),
                to: self.options.shows_logs.then(|| self.lines.0.clone()),
            };
            self.listeners.spawn(listener.listen());
        }
        job.heard.insert(uid, heard);
    }
}

impl Followed {
    fn own_pods(&self) -> impl Iterator<Item = Arc<Pod>> {
        let pods = self.pods.state().into_iter();
        pods.filter(|pod| is_of(pod, &self.key))
    }

    /// What the API says of it now.
    fn look(&mut self, time: Duration) {
        let mut jobs = self.jobs.state().into_iter();
        let found = jobs.find(|job| job.uid().as_ref() == Some(&self.key.uid));
        let outcome = match found {
            Some(job) => {
                self.progress = Progress::of(&job);
                self.progress.outcome()
            }
            None => {
                self.is_gone = true;
                Some(Outcome::Deleted)
            }
        };
        // The first word counts: one that has ended may be deleted.
        self.ended = self.ended.or(outcome.map(|outcome| (outcome, time)));
    }

    /// Tells those who listen to pods that are gone.
    fn say_who_is_gone(&mut self) {
        let there: BTreeSet<String> = self.own_pods().filter_map(|pod| pod.uid()).collect();
        for (uid, pod) in &mut self.heard {
            match there.contains(uid) {
                true => pod.is_known = true,
                false if pod.is_known => drop(pod.is_gone.send_replace(true)),
                // The news is still on its way.
                false => {}
            }
        }
    }
}

/// Pods of a job of the same name before it are not meant.
fn is_of(pod: &Pod, job: &JobKey) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| owner.uid == job.uid)
}

fn selector(job: &JobKey) -> String {
    format!("{}={}", labels::JOB_NAME, job.name)
}

/// `worker-0` of `resnet-worker-0`.
fn pod_label(pod: &Pod, job: &str) -> String {
    let name = pod.name_any();
    let short = name
        .strip_prefix(job)
        .and_then(|name| name.strip_prefix('-'));
    short.unwrap_or(&name).to_owned()
}

/// Events as news: whether a list was read to its end.
fn news<K: 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    tell: impl Fn(bool) -> News + Send + 'static,
) -> impl Stream<Item = News> + Send {
    events.map(move |event| match event {
        Ok(event) => tell(matches!(event, Event::InitDone)),
        Err(error) => News::Lost(error),
    })
}
