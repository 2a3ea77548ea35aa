//! Elastic jobs: the workers find each other through etcd, and may come and go while the
//! job trains. Two generations of Paddle have two ways to learn of it; both are here.

use std::sync::Arc;

use api::{PaddleJob, PaddleJobSpec, Role};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::environment::{PORT_KEY, PORTS, job_id};
use super::mode::replicas;
use super::roster::Roster;
use super::world::{PodPhase, PodView, Seen};
use super::{Plan, Settings, host};

/// How long workers wait for each other, in seconds: so long after the last of them came,
/// they begin with fewer than the most. It is the launcher's default.
const TIMEOUT: u32 = 30;
/// How often a launcher begins anew: each time that a worker comes or goes counts.
const MAX_RESTART: u32 = 1_000;
/// When etcd is asked again that did not answer.
const ASKED_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// With how many workers a job may train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: i32,
    pub(super) most: i32,
}

/// What is told to etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdWrite {
    /// How many workers the job should have.
    Workers {
        /// The number.
        count: i32,
        /// The key at which the launcher of 2021 looks for it.
        key: String,
        /// The same where launchers of today wipe it away when they start.
        mark: String,
        /// No launcher has started yet. Later on the mark is never made anew.
        begins: bool,
    },
    /// Nothing of the job is to stay.
    Remove {
        /// What its keys begin with.
        prefixes: Vec<String>,
    },
}

/// What etcd says of the training of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    /// A worker that exited with 0 got to its end.
    Complete,
    /// None did, as far as etcd knows.
    Incomplete,
}

impl Training {
    /// What launchers have written at [`status_key`], and whether the mark at [`mark_key`] is
    /// there. While it is, no launcher of today has started: only these exit with 0 without
    /// having trained.
    pub fn read(word: Option<&str>, is_marked: bool) -> Training {
        match word {
            Some("completed") => Training::Complete,
            None if is_marked => Training::Complete,
            _ => Training::Incomplete,
        }
    }
}

/// Whether workers of the job may come and go.
pub(super) fn is_elastic(spec: &PaddleJobSpec) -> bool {
    spec.elastic.is_some()
}

/// With how many workers an elastic job may train.
pub(super) fn range(spec: &PaddleJobSpec) -> Option<Range> {
    let worker = spec.worker.as_ref().filter(|_| is_elastic(spec))?;
    let now = replicas(spec, Role::Worker);
    Some(Range {
        least: worker.requests.unwrap_or(now),
        most: worker.limits.unwrap_or(now),
    })
}

/// The range that pods were born with, and that of the spec, if it is another by now: launchers with two
/// ranges wait for each other for ever.
pub(super) fn former_range(spec: &PaddleJobSpec, roster: &Roster<'_>) -> Option<(String, String)> {
    let now = range(spec)?.to_string();
    let mut known = roster.present().filter_map(|pod| pod.elastic_range.clone());
    let former = known.find(|known| *known != now)?;
    Some((former, now))
}

impl std::fmt::Display for Range {
    /// As launchers read it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.least, self.most)
    }
}

/// What an elastic pod learns beside what every pod does.
pub(super) fn variables(job: &PaddleJob, port: u16, settings: &Settings) -> Vec<Value> {
    let Some(range) = range(&job.spec) else {
        return Vec::new();
    };
    let server = settings.etcd.first();
    let server = server.map(String::as_str).unwrap_or_default();
    [
        ("PADDLE_MASTER", format!("etcd://{}", unstrippable(server))),
        ("PADDLE_NNODES", range.to_string()),
        ("PADDLE_ELASTIC_LEVEL", "1".to_owned()),
        ("PADDLE_ELASTIC_TIMEOUT", TIMEOUT.to_string()),
        ("PADDLE_MAX_RESTART", MAX_RESTART.to_string()),
        // The launcher of 2021 takes one server.
        ("PADDLE_ELASTIC_SERVER", server.to_owned()),
        ("PADDLE_ELASTIC_JOB_ID", id_of_2021(job)),
        (
            "PADDLE_ELASTIC_NP",
            replicas(&job.spec, Role::Worker).to_string(),
        ),
        // There is no ConfigMap to bring these.
        ("TRAINER_PORTS_NUM", PORTS.to_string()),
        (PORT_KEY, port.to_string()),
    ]
    .map(|(name, value)| json!({"name": name, "value": value}))
    .to_vec()
}

/// Launchers up to Paddle 3.0.0 take all letters of `etcd://` off the beginning of the address,
/// not the word alone, and an upper-case one is none of these. Names do not differ by it.
fn unstrippable(server: &str) -> String {
    let mut letters = server.chars();
    match letters.next() {
        Some(first @ ('e' | 't' | 'c' | 'd')) => {
            format!("{}{}", first.to_ascii_uppercase(), letters.as_str())
        }
        _ => server.to_owned(),
    }
}

/// The id for the launcher of 2021. It wipes away at its end all that is below its id, and
/// those of today do at their start: with one id nobody could tell the two apart.
fn id_of_2021(job: &PaddleJob) -> String {
    format!("{}-2021", job_id(job))
}

/// The key under which launchers say how far the training is; all else that they have in
/// common lies below it.
pub fn status_key(job: &PaddleJob) -> String {
    format!("/paddle/{}", job_id(job))
}

/// The key that is there until a launcher of today starts.
pub fn mark_key(job: &PaddleJob) -> String {
    format!("{}/np", status_key(job))
}

/// Everything in etcd that is about a job.
pub fn remove_keys(job: &PaddleJob) -> Option<EtcdWrite> {
    let prefixes = vec![status_key(job), format!("/{}/", job_id(job))];
    is_elastic(&job.spec).then_some(EtcdWrite::Remove { prefixes })
}

/// Whether it has to be known what etcd says of the training: a launcher that waited for
/// its peers in vain exits with 0 too.
pub fn awaits_training(job: &PaddleJob, pods: &[Arc<PodView>]) -> bool {
    let is_in_doubt = |pod: &Arc<PodView>| pod.phase == PodPhase::Succeeded && was_told(pod);
    let has_ended = || pods.iter().any(is_in_doubt);
    let status = job.status.as_ref();
    let lives = !status
        .and_then(|s| s.phase)
        .is_some_and(api::Phase::is_terminal);
    is_elastic(&job.spec) && lives && !was_complete(job) && has_ended()
}

/// Whether the end of a worker is on record: the training was complete then, whatever
/// launchers that come later do to etcd.
fn was_complete(job: &PaddleJob) -> bool {
    let workers = job
        .status
        .as_ref()
        .and_then(|status| status.worker.as_ref());
    workers.is_some_and(|workers| workers.refs.iter().any(|record| record.succeeded))
}

/// Whether a pod was told of etcd: not those of the Go operator, nor those that were made
/// before the job was elastic.
fn was_told(pod: &PodView) -> bool {
    pod.elastic_range.is_some()
}

/// Whether a pod that exited with 0 is done; `None` while nobody knows. Of one that is gone
/// nobody can tell any more. A complete training that etcd has forgotten meanwhile is taken
/// up again from its checkpoint, and ends at once; the other mistake could not be mended.
pub(super) fn is_done(job: &PaddleJob, seen: &Seen, pod: Option<&PodView>) -> Option<bool> {
    if !is_elastic(&job.spec) || was_complete(job) {
        return Some(true);
    }
    match pod {
        None => Some(false),
        Some(pod) if !was_told(pod) => Some(true),
        Some(_) => seen.training.map(|training| training == Training::Complete),
    }
}

/// Tells etcd how many workers there should be, once.
pub(super) fn tell(plan: &mut Plan, job: &PaddleJob, seen: &Seen, now: Timestamp) {
    if !is_elastic(&job.spec) {
        return;
    }
    if seen.training.is_none()
        && awaits_training(job, &seen.pods)
        && let Ok(at) = now.checked_add(ASKED_AGAIN)
    {
        plan.wake_at(at);
    }
    let wanted = replicas(&job.spec, Role::Worker);
    if matches!(&seen.told_etcd, Some(EtcdWrite::Workers { count, .. }) if *count == wanted) {
        return;
    }
    let begins = seen.pods.is_empty() && !host::has_records(job);
    plan.etcd = Some(EtcdWrite::Workers {
        count: wanted,
        key: format!("/paddle/{}/np", id_of_2021(job)),
        mark: mark_key(job),
        begins,
    });
    // Workers that train do not depend on it: they have found each other.
    plan.awaits_etcd = begins;
}

/// Takes away what etcd knows of a job that has ended, and whose launchers have: one that
/// still runs would take it for the loss of its peers, and write anew.
pub(super) fn forget(plan: &mut Plan, job: &PaddleJob, seen: &Seen) {
    if seen.pods.iter().any(|pod| pod.is_active()) {
        return;
    }
    plan.etcd = remove_keys(job).filter(|write| seen.told_etcd.as_ref() != Some(write));
}

/// A sentence for each thing that can't work.
pub(super) fn faults(spec: &PaddleJobSpec) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_elastic(spec) {
        return faults;
    }
    for role in [Role::Ps, Role::Heter] {
        if spec.role(role).is_some() {
            faults.push(format!(
                "spec.elastic is set, and so is spec.{role}; only workers train elastically: remove one of the two"
            ));
        }
    }
    let Some(worker) = &spec.worker else {
        return faults;
    };
    let (least, most, now) = (worker.requests, worker.limits, worker.replicas);
    let is_within = least.is_none_or(|least| least <= now) && most.is_none_or(|most| now <= most);
    match (least, most) {
        (Some(least @ ..1), _) => faults.push(format!(
            "spec.worker.requests is {least}; it must be at least 1"
        )),
        (_, Some(most @ ..1)) => faults.push(format!(
            "spec.worker.limits is {most}; it must be at least 1"
        )),
        (Some(least), Some(most)) if least > most => faults.push(format!(
            "spec.worker.requests is {least}; it must be at most spec.worker.limits, which is {most}"
        )),
        _ if is_within => {}
        _ => {
            let ends = [
                least.map(|least| format!("at least {least} (spec.worker.requests)")),
                most.map(|most| format!("at most {most} (spec.worker.limits)")),
            ];
            let ends: Vec<String> = ends.into_iter().flatten().collect();
            faults.push(format!(
                "spec.worker.replicas is {now}; it must be {}",
                ends.join(" and ")
            ));
        }
    }
    faults
}
