//! Jobs on the network of their nodes (`intranet: Host`): each has a block of ports of its
//! own, which an annotation keeps while the job lives.

use api::{PaddleJob, Role, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::environment::{PORT_KEY, PORTS};
use super::mode::Intranet;
use super::refusal::{Refusal, refuse};
use super::world::Seen;
use super::{Plan, Settings};

/// When a job that found no ports looks again: the end of another does not wake it.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// The ports that are handed out, the last one excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The one after the last.
    pub end: u16,
}

impl Default for PortRange {
    /// That of the Go operator.
    fn default() -> PortRange {
        PortRange {
            first: 35_000,
            end: 65_000,
        }
    }
}

impl PortRange {
    /// Reads `first,end`, as the flag of the Go operator has it.
    ///
    /// # Errors
    /// With a sentence that says what it should be.
    pub fn parse(text: &str) -> Result<PortRange, String> {
        let wrong =
            || format!("{text:?} is no range of ports with room for {PORTS}: say 35000,65000");
        let (first, end) = text.split_once(',').ok_or_else(wrong)?;
        let read = |port: &str| port.trim().parse::<u16>().map_err(|_| wrong());
        let (first, end) = (read(first)?, read(end)?);
        let has_room = first > 0 && first.checked_add(PORTS).is_some_and(|last| last <= end);
        has_room
            .then_some(PortRange { first, end })
            .ok_or_else(wrong)
    }

    /// Every block that there is.
    fn blocks(self) -> impl Iterator<Item = u16> {
        (self.first..self.end)
            .step_by(usize::from(PORTS))
            .filter(move |port| port.saturating_add(PORTS) <= self.end)
    }
}

/// A block of ports that another living job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// The uid of that job.
    pub uid: String,
    /// The first of its ports.
    pub port: u16,
    /// It has pods, or had some: they listen there.
    pub has_begun: bool,
}

impl PortHolder {
    /// Whether a block that begins at `port` has ports of this job.
    fn has(&self, port: u16) -> bool {
        PortHolder::meet(self.port, port)
    }

    /// Whether two blocks that begin at these ports have one in common.
    pub fn meet(one: u16, other: u16) -> bool {
        one.abs_diff(other) < PORTS
    }
}

/// The first of the ports that a job holds by its annotation, which is also how the Go
/// operator kept them.
pub fn held_port(meta: &ObjectMeta) -> Option<u16> {
    port(meta.annotations.as_ref()?.get(labels::HOST_PORT)?)
}

/// A port with room for a block behind it.
fn port(written: &str) -> Option<u16> {
    let port: u16 = written.trim().parse().ok()?;
    (port > 0 && port.checked_add(PORTS).is_some()).then_some(port)
}

/// Whether a job needs ports of its nodes, so that others must leave those alone that it
/// has: it lives, and is on the network of its nodes.
pub fn needs_ports(job: &PaddleJob) -> bool {
    let phase = job.status.as_ref().and_then(|status| status.phase);
    let lives = !phase.is_some_and(api::Phase::is_terminal);
    lives && Intranet::of(&job.spec) == Intranet::Host
}

/// Whether the status has pods of the job on record.
pub fn has_records(job: &PaddleJob) -> bool {
    let Some(status) = &job.status else {
        return false;
    };
    let mut roles = Role::ALL.into_iter();
    roles.any(|role| status.role(role).is_some_and(|role| !role.refs.is_empty()))
}

/// What has to be done about ports before the job can go on.
pub(super) enum Need {
    /// This block becomes the job's.
    Take(u16),
    /// There is no block left.
    Wait(Refusal),
}

/// What the job needs: nothing when it has its ports, or uses none of its nodes'.
pub(super) fn need(job: &PaddleJob, seen: &Seen, settings: &Settings) -> Option<Need> {
    if Intranet::of(&job.spec) != Intranet::Host {
        return None;
    }
    let has_begun = has_begun(job, seen);
    match held_port(&job.metadata) {
        // Its pods listen there, whoever else may.
        Some(_) if has_begun => return None,
        Some(port) if !must_yield(job, seen, port) => return None,
        _ => {}
    }
    let is_free = |port: &u16| seen.port_holders.iter().all(|h| !h.has(*port));
    // Somebody replaced the job by a file without the annotation: its pods stay where they
    // are.
    let listens = seen.pods.iter().find_map(|pod| pod.host_port);
    let written = { seen.config_map.as_ref() }.and_then(|map| port(map.data.get(PORT_KEY)?));
    let used = listens.or(written.filter(|_| has_begun)).filter(is_free);
    let range = settings.ports;
    Some(match used.or_else(|| range.blocks().find(is_free)) {
        Some(port) => Need::Take(port),
        None => Need::Wait(Refusal {
            reason: "NoPorts",
            message: format!(
                "no {PORTS} ports are free between {} and {} (--port-range): other jobs with intranet: Host have them; the job starts when one of them ends",
                range.first, range.end,
            ),
        }),
    })
}

/// The ports on which the first pods of the job are about to listen.
pub(super) fn begins_at(job: &PaddleJob, seen: &Seen) -> Option<u16> {
    let is_first = Intranet::of(&job.spec) == Intranet::Host && !has_begun(job, seen);
    is_first.then(|| held_port(&job.metadata))?
}

fn has_begun(job: &PaddleJob, seen: &Seen) -> bool {
    !seen.pods.is_empty() || !seen.creating.is_empty() || has_records(job)
}

/// Two jobs may say that they have the same block: one is a copy of the other with its
/// annotations, or two managers did not know of each other. The one whose pods are there
/// keeps it; of two without any, the one with the smaller uid.
fn must_yield(job: &PaddleJob, seen: &Seen, port: u16) -> bool {
    let own = job.metadata.uid.as_deref().unwrap_or_default();
    let mut others = seen.port_holders.iter().filter(|holder| holder.has(port));
    others.any(|other| other.has_begun || other.uid.as_str() < own)
}

/// Does what is needed.
pub(super) fn provide(plan: &mut Plan, job: &PaddleJob, need: Need, now: Timestamp) {
    match need {
        Need::Take(port) => plan.host_port = Some(port),
        Need::Wait(refusal) => {
            refuse(plan, job, refusal, now);
            if let Ok(at) = now.checked_add(PATIENCE) {
                plan.wake_at(at);
            }
        }
    }
}
