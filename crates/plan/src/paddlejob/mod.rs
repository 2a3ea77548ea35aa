//! What is to be done for a PaddleJob.
//!
//! [`plan`] is the only place where the policies meet; each has a file of its
//! own. A verdict changes the course of the whole job and is written into the
//! status before anything is done about it; without one, the job proceeds.

use std::collections::{BTreeMap, BTreeSet};

use api::{PaddleJob, PaddleJobStatus, Phase, labels};
use jiff::Timestamp;
use serde_json::Value;

mod cleaning;
mod data;
mod deadline;
mod elastic;
mod environment;
mod gang;
mod heter;
mod host;
mod mode;
mod nodes;
mod phase;
mod pods;
mod refusal;
mod rendezvous;
mod restart;
mod roster;
mod scaling;
mod services;
mod status;
mod suspend;
mod validity;
mod verdict;
pub mod wire;
mod world;

pub use crate::event::Event;
pub use cleaning::STOP_AFTER_SECONDS;
pub use data::uses_data;
pub use elastic::{EtcdWrite, Training, awaits_training, mark_key, remove_keys, status_key};
pub use gang::PodGroupView;
pub use host::{PortHolder, PortRange, has_records, held_port, needs_ports};
pub use mode::{Intranet, Mode};
pub use nodes::is_overdue;
pub use pods::WAIT_CONTAINER;
pub use refusal::{Refusal, refuse, unreadable};
pub use rendezvous::config_map;
pub use status::urgency;
pub use validity::misspelt;
pub use world::{Address, ConfigMapView, PodPhase, PodView, SampleSetView, Seen, Trouble};

use mode::finishing_role;
use roster::{Roster, State};

/// How many bytes of templates become pods in one pass: enough for 2,000 pods of
/// an ordinary one, and not for 2,000 copies of the largest that can be stored.
const BIRTHS: usize = 8 << 20;

/// How the operator was started, as far as decisions depend on it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Image of the init container that waits for peers; `None` leaves it out.
    pub init_image: Option<String>,
    /// Volcano schedules jobs, all pods of one at once.
    pub volcano: bool,
    /// The etcd servers through which elastic jobs find their workers, as `host:port`.
    pub etcd: Vec<String>,
    /// The ports of jobs on the network of their nodes.
    pub ports: PortRange,
}

/// What is to be done, and what the status says then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The finalizer of the Go operator goes.
    pub removes_finalizer: bool,
    /// The first of the ports that become the job's; nothing else is done then.
    pub host_port: Option<u16>,
    /// The first of the ports on which the pods to create listen, when they are the first of
    /// the job: they are made only if no other job got these ports meanwhile.
    pub begins_at: Option<u16>,
    /// What is to be told to etcd.
    pub etcd: Option<EtcdWrite>,
    /// Nothing is begun before etcd has heard it.
    pub awaits_etcd: bool,
    /// The PodGroup, when it has to be written.
    pub pod_group: Option<Value>,
    /// The PodGroup goes.
    pub pod_group_deleted: bool,
    /// Services to create.
    pub services_created: Vec<Value>,
    /// Services to delete.
    pub services_deleted: Vec<String>,
    /// The data of the ConfigMap, when it has to be written.
    pub config_map: Option<BTreeMap<String, String>>,
    /// Pods to create.
    pub pods_created: Vec<Value>,
    /// Pods to wake, after the ConfigMap was written.
    pub pods_woken: Vec<Wake>,
    /// Pods to stop so that their logs stay.
    pub pods_stopped: Vec<Deletion>,
    /// Pods to delete.
    pub pods_deleted: Vec<Deletion>,
    /// The job itself goes: its time to live is over.
    pub deletes_job: bool,
    /// What the status should be.
    pub status: PaddleJobStatus,
    /// The status must not be put off: something waits for it.
    pub is_urgent: bool,
    /// What to tell once the status has landed.
    pub events: Vec<Event>,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<Timestamp>,
}

/// A pod that waits for the ConfigMap.
#[derive(Clone, Debug, PartialEq)]
pub struct Wake {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What it is woken for.
    pub key: String,
}

/// A pod that goes, by name and uid: another pod of the same name stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Without waiting for its node.
    pub force: bool,
    /// Only if it has no node yet, which the cache may be late to show.
    pub unless_scheduled: bool,
}

impl Deletion {
    fn of(pod: &PodView) -> Deletion {
        Deletion {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            force: false,
            unless_scheduled: false,
        }
    }
}

impl Plan {
    fn wake_at(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Whether nothing is to be done; the status may still have changed.
    pub fn is_idle(&self) -> bool {
        let rest = Plan {
            status: PaddleJobStatus::default(),
            is_urgent: false,
            events: Vec::new(),
            wake_at: None,
            ..self.clone()
        };
        rest == Plan::default()
    }
}

/// What changes the course of the whole job.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Complete,
    Suspend,
    Fail {
        reason: &'static str,
        message: String,
    },
    Restart {
        reason: &'static str,
        message: String,
        counts: bool,
    },
    Resize {
        message: String,
    },
}

/// Decides what is to be done for `job`, given what is seen of its children.
pub fn plan(job: &PaddleJob, seen: &Seen, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    let finalizers = job.metadata.finalizers.as_deref().unwrap_or_default();
    plan.removes_finalizer = finalizers.iter().any(|name| name == labels::GO_FINALIZER);
    nodes::release_names(&mut plan, seen, now);

    let phase = plan.status.phase;
    if let Some(phase) = phase.filter(|phase| phase.is_terminal()) {
        end(&mut plan, job, seen, phase, now);
    } else if job.metadata.deletion_timestamp.is_some() {
        // The garbage collector takes the children.
        plan.status.phase = Some(Phase::Terminating);
    } else {
        let roster = Roster::new(job, seen);
        if roster.is_stale {
            // The watch will bring the job that these pods were made for.
        } else if let Some(verdict) = outcome(job, &roster) {
            carry_out(&mut plan, job, seen, &roster, verdict, now);
        } else if let Some(refusal) = refusal::fault(job, settings) {
            refusal::refuse(&mut plan, job, refusal, now);
            // What runs already goes on, but no longer than it may.
            let stopped = suspend::verdict(job).or_else(|| deadline::verdict(job, now));
            match (stopped, deadline::active_until(job)) {
                (Some(verdict), _) => carry_out(&mut plan, job, seen, &roster, verdict, now),
                (None, Some(until)) => plan.wake_at(until),
                (None, None) => {}
            }
        } else if let Some(verdict) = verdict(job, seen, &roster, now) {
            carry_out(&mut plan, job, seen, &roster, verdict, now);
        } else if let Some(wait) = data::wait(job, seen, &roster) {
            data::hold(&mut plan, job, &roster, wait, now);
        } else if let Some(need) = host::need(job, seen, settings) {
            host::provide(&mut plan, job, need, now);
        } else {
            proceed(&mut plan, job, seen, &roster, settings, now);
        }
    }
    let told = job.status.as_ref().and_then(|s| s.observed_generation);
    if plan.status.observed_generation != told {
        let misspelt = validity::misspelt(job).into_iter();
        let misspelt = misspelt.map(|told| Event::warning("Misspelt", told));
        let ignored = validity::ignored(job, settings).into_iter();
        let ignored = ignored.map(|told| Event::warning("Ignored", told));
        plan.events.extend(misspelt.chain(ignored));
    }
    plan
}

/// What the pods themselves have settled, whatever the spec says by now.
fn outcome(job: &PaddleJob, roster: &Roster<'_>) -> Option<Verdict> {
    let mut finishing = roster.role(finishing_role(&job.spec)).peekable();
    let any = finishing.peek().is_some();
    (any && finishing.all(|member| member.state() == State::Done)).then_some(Verdict::Complete)
}

fn verdict(job: &PaddleJob, seen: &Seen, roster: &Roster<'_>, now: Timestamp) -> Option<Verdict> {
    suspend::verdict(job)
        .or_else(|| restart::after_failure(job, roster))
        .or_else(|| deadline::verdict(job, now))
        .or_else(|| scaling::verdict(job, roster, seen))
        .or_else(|| restart::after_disruption(job, roster))
}

/// Writes a verdict down. What follows from it is done in a later pass, when
/// the cached job says the same: until then everything can still be undone.
fn carry_out(
    plan: &mut Plan,
    job: &PaddleJob,
    seen: &Seen,
    roster: &Roster<'_>,
    verdict: Verdict,
    now: Timestamp,
) {
    match verdict {
        Verdict::Complete => verdict::complete(plan, job, roster, now),
        Verdict::Fail { reason, message } => verdict::fail(plan, job, roster, reason, message, now),
        Verdict::Restart {
            reason,
            message,
            counts,
        } => {
            verdict::restart(plan, job, reason, message, counts, now);
            restart::rest(plan, job, roster, now);
        }
        Verdict::Resize { message } => verdict::resize(plan, job, message, now),
        Verdict::Suspend if job.status.as_ref().and_then(|s| s.phase) == Some(Phase::Suspended) => {
            verdict::keep_suspended(plan, job);
            let others = roster.old.iter().chain(&roster.surplus).copied();
            delete(plan, others.chain(roster.present()));
            gang::dissolve(plan, seen);
        }
        Verdict::Suspend => verdict::suspend(plan, job, roster, now),
    }
}

/// Brings the children closer to what the spec asks for.
fn proceed(
    plan: &mut Plan,
    job: &PaddleJob,
    seen: &Seen,
    roster: &Roster<'_>,
    settings: &Settings,
    now: Timestamp,
) {
    delete(
        plan,
        roster
            .old
            .iter()
            .copied()
            .chain(roster.surplus.iter().copied()),
    );
    elastic::tell(plan, job, seen, now);
    let is_gang = gang::is_gang(job, roster, settings);
    let gang_waits = is_gang.then(|| gang::follow(plan, job, seen)).flatten();
    if !is_gang && roster.present().all(|pod| !pod.is_in_gang) {
        // It was one before its template named another scheduler.
        gang::dissolve(plan, seen);
    }
    let rest = restart::rests_until(job, now);
    if let Some(until) = rest {
        plan.wake_at(until);
    }
    if roster.old.is_empty() && rest.is_none() {
        replace_evicted(plan, roster, now);
        let port = rendezvous::port(job, roster, seen);
        // What is being created may be of an older attempt: it is seen first.
        // And lists of names come first, which wait for surplus pods.
        let is_settled = seen.creating.is_empty() && !roster.has_superfluous();
        let births = if is_settled && gang_waits.is_none() {
            births(job, roster)
        } else {
            Vec::new()
        };
        plan.pods_created = births
            .iter()
            .map(|(member, key)| {
                let (role, rank) = (member.role, member.rank);
                let birth = pods::Birth {
                    role,
                    rank,
                    attempt: roster.attempt,
                    key,
                    port,
                    is_gang,
                    partitions: seen.sample_set.as_ref().map_or(0, |set| set.partitions),
                };
                pods::build(job, &birth, settings)
            })
            .collect();
        plan.begins_at = host::begins_at(job, seen).filter(|_| !plan.pods_created.is_empty());
        if Intranet::of(&job.spec) == Intranet::Service {
            let wanted: BTreeSet<&str> = roster
                .members
                .iter()
                .map(|member| member.name.as_str())
                .collect();
            let missing = wanted.iter().filter(|name| !seen.services.contains(**name));
            plan.services_created = missing
                .map(|name| services::build(job, name, port))
                .collect();
            plan.services_deleted = services::surplus(&seen.services, &wanted);
        }
        for (member, _) in births.iter().filter(|(member, _)| member.record.is_some()) {
            let message = format!("pod {} is gone and is replaced", member.name);
            plan.events.push(Event::warning("PodReplaced", message));
            plan.is_urgent = true;
        }
        let names_do = pods::waits_for_names(job, settings);
        let newborn: Vec<String> = births.into_iter().map(|(_, key)| key).collect();
        let written = seen.config_map.as_ref().map(|map| &map.data);
        let data = rendezvous::data(job, roster, seen, &newborn, names_do);
        let current = data.as_ref().or(written);
        plan.pods_woken = current
            .map(|data| rendezvous::wakes(job, roster, data, names_do, settings))
            .unwrap_or_default();
        plan.is_urgent |= rendezvous::awaits_record(roster, names_do);
        plan.config_map = data.filter(|data| Some(data) != written);
    }
    // Once it is gone, nobody else knows that it succeeded; nor does etcd know for long.
    let is_elastic = elastic::is_elastic(&job.spec);
    plan.is_urgent |= roster.members.iter().any(|member| {
        let is_done = is_elastic && member.state() == State::Done && !member.is_on_record_as_done();
        is_done || (member.succeeded && !member.is_recorded())
    });
    phase::proceed(plan, job, roster, gang_waits, now);
    data::describe(&mut plan.status, job, seen, now);
    if let Some(until) = deadline::active_until(job) {
        plan.wake_at(until);
    }
}

/// Deletes what was evicted, so that its name is free.
fn replace_evicted(plan: &mut Plan, roster: &Roster<'_>, now: Timestamp) {
    let evicted = roster
        .members
        .iter()
        .filter(|member| member.state() == State::Disrupted)
        .filter_map(|member| Some((member, member.pod?)))
        .filter(|(_, pod)| pod.deleted_at.is_none());
    for (member, pod) in evicted {
        match restart::replaced_at(pod).filter(|at| *at > now) {
            Some(at) => plan.wake_at(at),
            None => {
                if member.counts == Some(false) {
                    let message = format!("pod {} {}", pod.name, restart::fate(member));
                    plan.events.push(Event::warning("NotTrained", message));
                    plan.is_urgent = true;
                }
                delete(plan, std::iter::once(pod));
            }
        }
    }
}

/// The pods to be made now, with the keys that they require: all of them, unless
/// their template is so large that the rest has to wait for a later pass.
fn births<'r, 'a>(
    job: &PaddleJob,
    roster: &'r Roster<'a>,
) -> Vec<(&'r roster::Member<'a>, String)> {
    let unborn = roster
        .members
        .iter()
        .filter(|m| matches!(m.state(), State::Missing | State::Lost));
    let mut room = BIRTHS;
    let fitting = unborn.take_while(|member| {
        let template = job.spec.role(member.role).and_then(|r| r.template.as_ref());
        let fits = room > 0;
        room = room.saturating_sub(template.map_or(0, api::PodTemplate::size));
        fits
    });
    fitting
        .map(|member| {
            let replaced = member.record.map(|record| record.uid.as_str());
            (member, rendezvous::pod_key(job, roster.attempt, replaced))
        })
        .collect()
}

fn delete<'a>(plan: &mut Plan, pods: impl Iterator<Item = &'a PodView>) {
    plan.pods_deleted.extend(
        pods.filter(|pod| pod.deleted_at.is_none())
            .map(Deletion::of),
    );
}

/// What remains to be done for a job that has ended.
fn end(plan: &mut Plan, job: &PaddleJob, seen: &Seen, phase: Phase, now: Timestamp) {
    cleaning::clean(plan, &job.spec, phase, seen);
    gang::dissolve(plan, seen);
    elastic::forget(plan, job, seen);
    phase::keep_ended(plan, job, now);
    match deadline::kept_until(job) {
        // Somebody's finalizer may hold a job that was deleted before.
        Some(until) if until <= now => {
            plan.deletes_job = job.metadata.deletion_timestamp.is_none();
        }
        Some(until) => plan.wake_at(until),
        None => {}
    }
}
