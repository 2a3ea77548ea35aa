//! Follows jobs and their data to the end: what they do, and what pods say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use api::PaddleJob;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector as reflect};
use kube::{Api, Client, ResourceExt};
use localcluster::node::tail::Tail;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::apply::{self, Key};
use super::data::Data;
use super::data_view::gain;
use super::job::{HeardPod, Job, is_of, log_dir, pod_label, selector};
use super::listen::{Listener, containers};
use super::manifest::Kind;
use super::screen::{Said, Screen};
use super::view::{Outcome, Progress, verdict};
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
    /// All have ended; how, and what the caches were good for.
    All(Vec<Ended>, Vec<String>),
    /// Somebody wanted it to end.
    Stopped(Signal),
}

/// How something ended.
pub(crate) struct Ended {
    pub(crate) key: Key,
    pub(crate) outcome: Outcome,
    pub(crate) words: String,
}

/// News of something, by its place.
enum News {
    Job(usize, bool),
    Pods(usize, bool),
    Data(usize),
    Lost(watcher::Error),
}

/// Follows them.
pub(crate) struct Follow<'a> {
    options: Options<'a>,
    screen: &'a mut Screen,
    jobs: Vec<Job>,
    data: Vec<Data>,
    news: SelectAll<BoxStream<'static, News>>,
    listeners: JoinSet<std::io::Result<()>>,
    lines: (mpsc::Sender<Said>, mpsc::Receiver<Said>),
    begin: Instant,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(
        options: Options<'a>,
        screen: &'a mut Screen,
        keys: &[Key],
    ) -> anyhow::Result<Follow<'a>> {
        let mut follow = Follow {
            options,
            screen,
            jobs: Vec::new(),
            data: Vec::new(),
            news: SelectAll::new(),
            listeners: JoinSet::new(),
            lines: mpsc::channel(LINES),
            begin: Instant::now(),
        };
        let jobs = || keys.iter().filter(|key| key.kind == Kind::PaddleJob);
        let names: BTreeSet<(&str, &str)> = keys.iter().map(|key| key.names()).collect();
        let is_clear = names.len() == keys.len();
        for key in keys {
            let title = match is_clear {
                true => key.name.clone(),
                false => key.to_string(),
            };
            let line = follow.screen.add_line(&title);
            let prefix = match jobs().count() {
                1 => String::new(),
                _ => format!("{title}/"),
            };
            match key.kind {
                Kind::PaddleJob => follow.add_job(key.clone(), line, prefix)?,
                Kind::SampleSet | Kind::SampleJob => follow.add_data(key.clone(), line),
            }
        }
        Ok(follow)
    }

    fn add_data(&mut self, key: Key, line: usize) {
        let place = self.data.len();
        let kind = key.kind.resource();
        let writer = reflector::store::Writer::new(kind.clone());
        let objects = writer.as_reader();
        let client = self.options.client.clone();
        let api = Api::<DynamicObject>::namespaced_with(client, &key.namespace, &kind);
        let events = reflect(writer, watcher(api, by_name(&key)).default_backoff());
        let news = events.filter_map(move |event| async move {
            match event {
                // Half a list does not tell what is gone.
                Ok(Event::Init | Event::InitApply(_)) => None,
                Ok(_) => Some(News::Data(place)),
                Err(error) => Some(News::Lost(error)),
            }
        });
        self.news.push(news.boxed());
        self.data.push(Data::new(key, line, objects));
    }

    fn add_job(&mut self, key: Key, line: usize, prefix: String) -> anyhow::Result<()> {
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
        let api = Api::<PaddleJob>::namespaced(client.clone(), &key.namespace);
        let job_news = reflect(writer, watcher(api, by_name(&key)).default_backoff());
        self.news
            .push(news(job_news, move |done| News::Job(place, done)).boxed());
        let (pods, writer) = reflector::store();
        let by_job = watcher::Config::default().labels(&selector(&key));
        let api = Api::<Pod>::namespaced(client.clone(), &key.namespace);
        let pod_news = reflect(writer, watcher(api, by_job).default_backoff());
        self.news
            .push(news(pod_news, move |done| News::Pods(place, done)).boxed());
        self.jobs.push(Job {
            key,
            line,
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
        let gains = self.gains().await;
        let jobs = self.jobs.into_iter().filter_map(|job| {
            let (outcome, took) = job.ended?;
            Some(Ended {
                words: verdict(outcome, &job.progress, took),
                key: job.key,
                outcome,
            })
        });
        let data = self.data.into_iter().filter_map(|data| {
            let (outcome, took) = data.ended?;
            Some(Ended {
                words: data.state.verdict(outcome, took),
                key: data.key,
                outcome,
            })
        });
        Ok(End::All(data.chain(jobs).collect(), gains))
    }

    /// What the caches were good for, if anybody can tell.
    async fn gains(&self) -> Vec<String> {
        let mut gains = Vec::new();
        let is_used = |data: &&Data| {
            let mut jobs = self.jobs.iter();
            jobs.any(|job| job.data().as_ref() == Some(&data.key.name))
        };
        for data in self.data.iter().filter(is_used) {
            let after = data.reads(self.options.dir.to_owned()).await;
            if let (Some(before), Some(after)) = (data.before, after) {
                gains.push(format!("{}: {}", data.key, gain(before, after)));
            }
        }
        gains
    }

    fn is_done(&self, is_stopped: bool) -> bool {
        let is_over = |job: &Job| match is_stopped {
            true => job.is_gone && job.own_pods().next().is_none(),
            false => job.ended.is_some(),
        };
        let has_come = |data: &Data| match is_stopped {
            true => data.is_set() || data.is_gone,
            false => data.ended.is_some(),
        };
        let jobs_are = self.jobs.iter().all(is_over);
        self.listeners.is_empty() && jobs_are && self.data.iter().all(has_come)
    }

    /// Sets stay, with what they have cached: that is what they are for.
    fn stoppable(&self) -> impl Iterator<Item = &Key> {
        let data = self.data.iter().filter(|data| !data.is_set());
        let data = data.map(|data| &data.key);
        self.jobs.iter().map(|job| &job.key).chain(data)
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        for key in self.stoppable() {
            let words = format!("stopping {key} (once more leaves at once)");
            self.screen.say(&words);
            let stopped = apply::stop(self.options.client, key).await;
            stopped.with_context(|| key.to_string())?;
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
            News::Data(place) => return self.learn_data(place).await,
            News::Job(place, _) | News::Pods(place, _) => place,
        };
        let Some(job) = self.jobs.get_mut(place) else {
            return Ok(());
        };
        match news {
            News::Job(_, is_whole) => job.is_known.0 |= is_whole,
            News::Pods(_, is_whole) => job.is_known.1 |= is_whole,
            News::Data(_) | News::Lost(_) => {}
        }
        if job.is_known != (true, true) {
            return Ok(());
        }
        let had_ended = job.ended.is_some();
        job.look(self.begin.elapsed());
        self.screen.show(job.line, job.progress.shown());
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
        self.give_up().await
    }

    async fn learn_data(&mut self, place: usize) -> anyhow::Result<()> {
        let Some(data) = self.data.get_mut(place) else {
            return Ok(());
        };
        data.look(self.begin.elapsed());
        self.screen.show(data.line, data.state.shown());
        if data.is_ready() && data.before.is_none() {
            data.before = data.reads(self.options.dir.to_owned()).await;
        }
        self.give_up().await
    }

    /// Stops jobs that wait for a set that failed. It is tried again from time to time, but
    /// who waits here wants to mend it first.
    async fn give_up(&mut self) -> anyhow::Result<()> {
        for job in self.jobs.iter_mut().filter(|job| job.ended.is_none()) {
            let Some(name) = job.data().filter(|_| job.heard.is_empty()) else {
                continue;
            };
            let failed = |data: &Data| data.failed_as(&job.key.namespace, &name);
            if self.data.iter().any(failed) {
                job.ended = Some((Outcome::NotStarted, self.begin.elapsed()));
                let stopped = apply::stop(self.options.client, &job.key).await;
                stopped.with_context(|| job.key.to_string())?;
            }
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

fn by_name(key: &Key) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={}", key.name))
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
