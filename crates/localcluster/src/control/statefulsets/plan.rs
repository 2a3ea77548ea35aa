//! What a set needs next.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use kube::ResourceExt;

use super::pod::{Member, revision};

/// What is to be done for a set, and what is to be said of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) acts: Vec<Act>,
    pub(super) status: StatefulSetStatus,
    /// When a pod will have been ready for long enough.
    pub(super) wake: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create(i32),
    Delete { name: String, uid: String },
}

fn delete(member: &Member) -> Act {
    Act::Delete {
        name: member.name.clone(),
        uid: member.uid.clone(),
    }
}

/// What a set needs next, given its pods.
pub(super) fn plan(set: &StatefulSet, members: &[&Member], now: Timestamp) -> Plan {
    let nothing = StatefulSetSpec::default();
    let spec = set.spec.as_ref().unwrap_or(&nothing);
    let name = set.name_any();
    let members = members
        .iter()
        .filter_map(|member| Some((member.ordinal(&name)?, *member)));
    let keeper = Keeper {
        spec,
        members: members.collect(),
        update: revision(set),
        now,
    };
    let acts = match set.metadata.deletion_timestamp {
        // Its pods go by the hand of the garbage collector.
        Some(_) => Vec::new(),
        None => keeper.acts(),
    };
    Plan {
        acts,
        status: keeper.status(set),
        wake: keeper.wake(),
    }
}

struct Keeper<'a> {
    spec: &'a StatefulSetSpec,
    members: BTreeMap<i32, &'a Member>,
    /// The revision that pods shall have.
    update: String,
    now: Timestamp,
}

impl Keeper<'_> {
    fn acts(&self) -> Vec<Act> {
        let is_ordered = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        let mut acts = Vec::new();
        for ordinal in self.wanted() {
            match self.members.get(&ordinal) {
                None => acts.push(Act::Create(ordinal)),
                Some(member) if member.has_ended && !member.is_going => acts.push(delete(member)),
                Some(member) if self.is_healthy(member) => continue,
                // It is on its way up or down.
                Some(_) => {}
            }
            if is_ordered {
                return acts;
            }
        }
        let wanted = self.wanted();
        let surplus = self
            .members
            .iter()
            .rev()
            .filter(|(ordinal, _)| !wanted.contains(ordinal));
        for (_, member) in surplus {
            if !member.is_going {
                acts.push(delete(member));
            }
            if is_ordered {
                return acts;
            }
        }
        acts.extend(self.outdated().map(delete));
        acts
    }

    /// The pod that is to be replaced by one of the new revision now: the last,
    /// when all behind it are well.
    fn outdated(&self) -> Option<&Member> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return None;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        for ordinal in self.wanted().rev() {
            let member = self.members.get(&ordinal)?;
            if ordinal < partition {
                return None;
            }
            if !self.is_new(member) && !member.is_going {
                return Some(member);
            }
            if !self.is_healthy(member) {
                return None;
            }
        }
        None
    }

    /// The ordinals that shall be there.
    fn wanted(&self) -> std::ops::Range<i32> {
        let start = self
            .spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or(0);
        start..start.saturating_add(self.spec.replicas.unwrap_or(1))
    }

    fn is_new(&self, member: &Member) -> bool {
        member.revision.as_ref() == Some(&self.update)
    }

    /// When a pod has been ready for long enough, if it is ready.
    fn available_at(&self, member: &Member) -> Option<Timestamp> {
        let seconds = self.spec.min_ready_seconds.unwrap_or(0);
        let wait = SignedDuration::from_secs(i64::from(seconds));
        member.ready_since?.checked_add(wait).ok()
    }

    fn is_healthy(&self, member: &Member) -> bool {
        !member.is_going && self.available_at(member).is_some_and(|at| at <= self.now)
    }

    fn wake(&self) -> Option<Timestamp> {
        let times = self
            .members
            .values()
            .filter_map(|member| self.available_at(member));
        times.filter(|at| *at > self.now).min()
    }

    fn status(&self, set: &StatefulSet) -> StatefulSetStatus {
        let before = set.status.clone().unwrap_or_default();
        let count = |which: &dyn Fn(&Member) -> bool| {
            let count = self.members.values().filter(|member| which(member)).count();
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let of = |revision: &str| {
            count(&|member| !member.is_going && member.revision.as_deref() == Some(revision))
        };
        let replicas = count(&|_| true);
        let ready = count(&|member| member.ready_since.is_some());
        let updated = of(&self.update);
        let is_done = updated == replicas && ready == replicas;
        let current = before.current_revision.filter(|_| !is_done);
        let current = current.unwrap_or_else(|| self.update.clone());
        StatefulSetStatus {
            observed_generation: set.metadata.generation,
            replicas,
            ready_replicas: Some(ready),
            available_replicas: Some(count(&|member| {
                self.available_at(member).is_some_and(|at| at <= self.now)
            })),
            current_replicas: Some(of(&current)),
            updated_replicas: Some(updated),
            current_revision: Some(current),
            update_revision: Some(self.update.clone()),
            collision_count: Some(0),
            conditions: before.conditions,
        }
    }
}
