//! Who should be there and who is: every pod that the spec asks for, matched
//! with what is seen and with what the status has on record.

use std::collections::HashMap;

use api::{PaddleJob, PodReference, Role};

use super::elastic;
use super::mode::wanted;
use super::rendezvous;
use super::world::{PodPhase, PodView, Seen};
use crate::names;

/// The pods of a job, sorted.
#[derive(Debug)]
pub struct Roster<'a> {
    /// The attempt that the status speaks of.
    pub attempt: i32,
    /// Every pod that the spec asks for, PS first.
    pub members: Vec<Member<'a>>,
    /// Pods of this attempt that the spec no longer asks for, highest rank first.
    pub surplus: Vec<&'a PodView>,
    /// Pods of earlier attempts.
    pub old: Vec<&'a PodView>,
    /// Pods of a later attempt: the cached job is older than the cached pods.
    pub is_stale: bool,
}

/// A pod that the spec asks for.
#[derive(Debug)]
pub struct Member<'a> {
    /// Its role.
    pub role: Role,
    /// Its index within the role.
    pub rank: i32,
    /// Its name.
    pub name: String,
    /// The pod, if it is seen.
    pub pod: Option<&'a PodView>,
    /// Created by us and not seen yet.
    pub creating: bool,
    /// What the status has on record.
    pub record: Option<&'a PodReference>,
    /// The pod on record had succeeded when it went.
    pub succeeded: bool,
    /// Its peers were told another address than the one it has now.
    pub moved: bool,
    /// Whether it is done if it exited with 0; `None` while nobody knows.
    pub counts: Option<bool>,
}

/// What can be said of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was never seen: it is created.
    Missing,
    /// It has been created and is not seen yet.
    Creating,
    /// It is there and neither done nor in trouble.
    Active,
    /// It succeeded; the pod may be gone since.
    Done,
    /// It failed by its own doing.
    Failed,
    /// It is being taken away, was evicted and is still there, or has moved.
    Disrupted,
    /// It is on record and gone: deleted, or lost with its node.
    Lost,
}

impl<'a> Roster<'a> {
    /// Matches what is wanted with what is there.
    pub fn new(job: &'a PaddleJob, seen: &'a Seen) -> Roster<'a> {
        let status = job.status.as_ref();
        let attempt = status.and_then(|status| status.attempt).unwrap_or(0);
        let mut current: HashMap<(Role, i32), &PodView> = HashMap::new();
        let mut old = Vec::new();
        let mut is_stale = false;
        for pod in &seen.pods {
            match pod.attempt().cmp(&attempt) {
                std::cmp::Ordering::Less => old.push(pod.as_ref()),
                std::cmp::Ordering::Equal => drop(current.insert((pod.role, pod.rank), pod)),
                std::cmp::Ordering::Greater => is_stale = true,
            }
        }
        let records: HashMap<&str, &PodReference> = Role::ALL
            .into_iter()
            .filter_map(|role| status?.role(role))
            .flat_map(|role| &role.refs)
            .map(|record| (record.name.as_str(), record))
            .collect();
        let told = rendezvous::told_addresses(job, seen);
        let job_name = job.metadata.name.as_deref().unwrap_or_default();
        let members = wanted(&job.spec)
            .map(|(role, rank)| {
                let name = names::pod(job_name, role, rank);
                let record = records.get(name.as_str()).copied();
                let pod = current.remove(&(role, rank));
                Member {
                    role,
                    rank,
                    pod,
                    moved: pod.is_some_and(|pod| {
                        record.is_some_and(|record| record.uid == pod.uid)
                            && rendezvous::has_moved(seen, pod, told.get(&(role, rank)))
                    }),
                    counts: elastic::is_done(job, seen, pod),
                    creating: seen.creating.contains(&name),
                    succeeded: record.is_some_and(|record| seen.succeeded.contains(&record.uid)),
                    record,
                    name,
                }
            })
            .collect();
        let mut surplus: Vec<_> = current.into_values().collect();
        surplus.sort_by_key(|pod| (std::cmp::Reverse(pod.rank), pod.role));
        Roster {
            attempt,
            members,
            surplus,
            old,
            is_stale,
        }
    }

    /// The members of a role.
    pub fn role(&self, role: Role) -> impl Iterator<Item = &Member<'a>> {
        self.members
            .iter()
            .filter(move |member| member.role == role)
    }

    /// The pods of this attempt that are there and wanted.
    pub fn present(&self) -> impl Iterator<Item = &'a PodView> {
        self.members.iter().filter_map(|member| member.pod)
    }

    /// Whether a pod is no longer wanted and has not been told to go: it may
    /// still start, and may be wanted again.
    pub fn has_superfluous(&self) -> bool {
        self.surplus.iter().any(|pod| pod.deleted_at.is_none())
    }

    /// The first member in a given state.
    pub fn first(&self, state: State) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.state() == state)
    }
}

impl Member<'_> {
    /// What can be said of it.
    pub fn state(&self) -> State {
        match (self.pod, self.record) {
            (Some(pod), _) if pod.phase == PodPhase::Succeeded => match self.counts {
                Some(true) => State::Done,
                // It is made again, to do what it has not done.
                Some(false) => State::Disrupted,
                None => State::Active,
            },
            (Some(pod), _) if pod.is_disrupted() || self.moved => State::Disrupted,
            (Some(pod), _) if pod.phase == PodPhase::Failed => State::Failed,
            (Some(_), _) => State::Active,
            (None, Some(record)) if record.succeeded => State::Done,
            (None, Some(_)) if self.succeeded && self.counts == Some(true) => State::Done,
            (None, _) if self.creating => State::Creating,
            // On record, so it was in the cache once: now it is gone.
            (None, Some(_)) => State::Lost,
            (None, None) => State::Missing,
        }
    }

    /// Whether the status knows this very pod. Its address is published only
    /// then, so that its loss can't go unnoticed.
    pub fn is_recorded(&self) -> bool {
        match (self.pod, self.record) {
            (Some(pod), Some(record)) => pod.uid == record.uid,
            (None, Some(record)) => record.succeeded,
            _ => false,
        }
    }

    /// Whether the status says that it is done.
    pub fn is_on_record_as_done(&self) -> bool {
        self.record.is_some_and(|record| record.succeeded)
    }

    /// Whether it has a node, or had one.
    pub fn is_scheduled(&self) -> bool {
        self.state() == State::Done || self.pod.is_some_and(PodView::is_scheduled)
    }

    /// Whether its containers are, or were, ready.
    pub fn is_ready(&self) -> bool {
        self.state() == State::Done
            || self
                .pod
                .is_some_and(|pod| pod.ready && pod.deleted_at.is_none())
    }
}
