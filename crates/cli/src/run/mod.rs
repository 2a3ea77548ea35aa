//! `paddle-operator run`: applies objects and follows the jobs and the data among them to
//! their end, in one terminal.
//!
//! A job that has ended stays in the API with its status until it is run again or
//! deleted, and what its pods wrote stays in the state directory, however soon the pods
//! themselves are deleted. A job that somebody interrupts is deleted. A SampleSet stays
//! in any case, with what is cached of it: the next run finds it warm.

mod apply;
mod cluster;
mod data;
mod data_view;
mod follow;
mod job;
mod listen;
mod manifest;
mod screen;
mod view;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use api::PaddleJob;
use kube::ResourceExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::local;
use apply::Key;
use cluster::Cluster;
use follow::{End, Ended, Follow};
use manifest::{Kind, Manifest};
use screen::Screen;
use view::Outcome;

/// What is run, and how.
#[derive(Debug, clap::Args)]
// Its name would also be that of the flags of local mode, which are among these.
#[group(skip)]
pub(crate) struct Args {
    /// File with objects, or - for the standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filenames: Vec<String>,
    /// Namespace of objects that name none [default: default]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Don't show what the pods write; it is only written down
    #[arg(long)]
    no_logs: bool,
    /// Leave the jobs as they are on Ctrl-C; otherwise they are deleted (SampleSets stay)
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    local: local::Args,
}

/// Runs to the end of the jobs; the exit code tells how they ended.
pub(crate) fn run(args: &Args) -> ExitCode {
    localcluster::shim::disinherit();
    let mut screen = Screen::new();
    let code = try_run(args, &mut screen);
    screen.close();
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            screen.say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &Args, screen: &mut Screen) -> anyhow::Result<u8> {
    let manifests = Manifest::read(&args.filenames, args.namespace.as_deref())?;
    let dir = args.local.dir()?;
    let waits = manifests
        .iter()
        .any(|manifest| manifest.followed().is_some());
    if !waits && !local::is_in_use(&dir) {
        bail!(
            "there is no PaddleJob, SampleSet or SampleJob in {}, so nothing would be left to \
             run; to keep a Kubernetes for these objects, start `paddle-operator local` first",
            args.filenames.join(", ")
        );
    }
    // Before there are threads: an ordinary user gets a namespace.
    let place = match local::Place::take(&args.local) {
        Ok(place) => Some(place),
        Err(error) if error.is::<local::InUse>() => None,
        Err(error) => return Err(error),
    };
    local::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let cluster = match place {
            Some(place) => Cluster::start(&args.local, place).await?,
            None => Cluster::find(&dir).await?,
        };
        screen.say(&cluster.greeting());
        let ended = work(args, &manifests, &cluster, screen, &mut signals).await;
        screen.close();
        if let Ok((_, farewell)) = &ended {
            screen.say(farewell);
        }
        cluster.leave(screen, &mut signals).await?;
        ended.map(|(code, _)| code)
    })
}

/// Does it all; the exit code, and what is said at the end.
async fn work(
    args: &Args,
    manifests: &[Manifest],
    cluster: &Cluster,
    screen: &mut Screen,
    signals: &mut Signals,
) -> anyhow::Result<(u8, String)> {
    let mut keys = Vec::new();
    let applied = apply_all(args, manifests, cluster, screen, &mut keys).await;
    if let Err(error) = applied {
        // What nobody is going to watch shall not run.
        for job in keys.iter().filter(|key| key.kind != Kind::SampleSet) {
            screen.say(&format!("stopping {job}"));
            apply::stop(&cluster.client, job).await?;
        }
        return Err(error);
    }
    if keys.is_empty() {
        let words = "there is no PaddleJob, SampleSet or SampleJob among them: nothing to wait for";
        return Ok((0, words.to_owned()));
    }
    let options = follow::Options {
        client: &cluster.client,
        dir: &cluster.dir,
        shows_logs: !args.no_logs,
        keeps: args.keep,
        is_lost: &|| cluster.is_lost(),
    };
    let follow = Follow::new(options, screen, &keys)?;
    match follow.finish(signals).await? {
        End::All(ended, gains) => Ok(summary(&ended, gains, cluster)),
        End::Stopped(signal) => {
            let words = match (args.keep, cluster.is_own()) {
                (false, _) => "stopped",
                (true, false) => "the jobs go on",
                (true, true) => "the jobs go on when local mode is started again",
            };
            Ok((signal.code(), words.to_owned()))
        }
    }
}

async fn apply_all(
    args: &Args,
    manifests: &[Manifest],
    cluster: &Cluster,
    screen: &Screen,
    keys: &mut Vec<Key>,
) -> anyhow::Result<()> {
    let namespace = args.namespace.as_deref().unwrap_or("default");
    for manifest in manifests {
        let (object, verb) = apply::apply(&cluster.client, manifest, namespace).await?;
        let (kind, name) = (manifest.kind().to_lowercase(), object.name_any());
        screen.say(&format!("{kind}/{name} {verb}"));
        if manifest.followed() == Some(Kind::PaddleJob)
            && let Ok(job) = object.clone().try_parse::<PaddleJob>()
        {
            // Its events say the same, and nobody looks at them here.
            for told in plan::paddlejob::misspelt(&job) {
                screen.say(&format!("warning: {kind}/{name}: {told}"));
            }
        }
        if let Some(kind) = manifest.followed() {
            let key = Key {
                kind,
                namespace: object.namespace().unwrap_or_default(),
                name,
                uid: object.uid().unwrap_or_default(),
            };
            // Given twice, it is one.
            keys.retain(|known| *known != key);
            keys.push(key);
        }
    }
    Ok(())
}

fn summary(ended: &[Ended], gains: Vec<String>, cluster: &Cluster) -> (u8, String) {
    let is_well = |ended: &Ended| ended.outcome == Outcome::Completed;
    let code = u8::from(!ended.iter().all(is_well));
    let mut lines = Vec::new();
    for Ended { key, words, .. } in ended {
        lines.push(format!("{key}: {words}"));
        let logs = job::log_dir(&cluster.dir, key);
        if key.kind == Kind::PaddleJob && logs.exists() {
            lines.push(format!("  logs: {}", logs.display()));
        }
    }
    lines.extend(gains);
    // Of what went wrong, or of the last.
    let worst = ended.iter().find(|ended| !is_well(ended));
    let told = worst.or(ended.last()).map(|ended| &ended.key);
    lines.extend(told.map(|key| cluster.see_more(key)));
    (code, lines.join("\n"))
}

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    /// As shells have it: 128 and the number of the signal.
    pub(crate) fn code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
        }
    }
}

/// A second signal so soon is the same once more: `timeout` sends each to the process
/// and to its group.
const ECHO: Duration = Duration::from_millis(300);

/// Signals that come.
pub(crate) struct Signals(watch::Receiver<Option<Signal>>);

impl Signals {
    fn new() -> anyhow::Result<Signals> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let mut first = None;
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                };
                sender.send_replace(Some(signal));
                let first: Instant = *first.get_or_insert_with(Instant::now);
                // The second means now. What runs is found by the next start.
                if first.elapsed() > ECHO {
                    std::process::exit(i32::from(signal.code()));
                }
            }
        });
        Ok(Signals(receiver))
    }

    /// Until the first has come.
    pub(crate) async fn first(&mut self) -> Signal {
        match self.0.wait_for(Option::is_some).await.map(|signal| *signal) {
            Ok(Some(signal)) => signal,
            _ => std::future::pending().await,
        }
    }
}
