//! What must never happen, checked where it would.

use std::collections::BTreeMap;

use api::{PaddleJob, PaddleJobStatus, Phase, Role};
use plan::names;
use plan::paddlejob::{Intranet, Plan, Seen};

use super::World;
use crate::support::kubelet::{Pod, listed};

impl World {
    pub(super) fn check_plan(&mut self, seen: &Seen, plan: &Plan) {
        let known = |name: &str, uid: &str| {
            let mut pods = seen.pods.iter();
            pods.any(|pod| pod.name == name && pod.uid == uid)
        };
        let touched = plan.pods_deleted.iter().chain(&plan.pods_stopped);
        let mut touched = touched
            .map(|pod| (&pod.name, &pod.uid))
            .chain(plan.pods_woken.iter().map(|pod| (&pod.name, &pod.uid)));
        if let Some((name, uid)) = touched.find(|(name, uid)| !known(name, uid)) {
            self.fault(format!(
                "the plan touches {name} ({uid}), which is not seen"
            ));
        }
    }

    pub(super) fn check_birth(&mut self, pod: &Pod) {
        self.check_replacement(pod);
        let has_ended = self.phase().is_some_and(Phase::is_terminal);
        if has_ended && pod.owner == self.owner() {
            self.fault(format!("{} is created for a job that has ended", pod.name));
        }
        let mut others = self.pods.values().filter(|other| other.owner == pod.owner);
        let other = others.find(|other| other.attempt != pod.attempt).cloned();
        if let Some(other) = other {
            self.fault(format!(
                "{} of attempt {} is created beside {} of attempt {}",
                pod.name, pod.attempt, other.name, other.attempt
            ));
        }
    }

    /// Who has met his peers is never replaced behind their backs. By address
    /// that is certain; by name a pod may start before anybody knows of it.
    fn check_replacement(&mut self, pod: &Pod) {
        let spec = self.job.as_ref().map(|job| &job.spec);
        let by_address = spec.is_some_and(|spec| Intranet::of(spec) != Intranet::Service);
        let of_attempt = self
            .ever
            .values()
            .filter(|birth| birth.owner == pod.owner && birth.attempt == pod.attempt);
        let server = names::pod(&pod.job, Role::Ps, 0);
        let is_alone =
            pod.role == Role::Worker && of_attempt.clone().any(|birth| birth.name == server);
        let met = { of_attempt }.any(|birth| birth.name == pod.name && birth.has_started);
        if by_address && !is_alone && met {
            self.fault(format!(
                "{} of attempt {} is made again, and its peers have met it",
                pod.name, pod.attempt
            ));
        }
    }

    /// The rendezvous: a container starts with lists that are right.
    pub(super) fn check_start(&mut self, pod: &Pod) {
        if let Some(birth) = self.ever.get_mut(&pod.uid) {
            birth.has_started = true;
        }
        let other = self
            .pods
            .values()
            .find(|other| {
                other.owner == pod.owner && other.is_training() && other.attempt != pod.attempt
            })
            .cloned();
        if let Some(other) = other {
            self.fault(format!(
                "{} of attempt {} starts while {} of attempt {} trains",
                pod.name, pod.attempt, other.name, other.attempt
            ));
        }
        let Some(job) = self.job.clone() else { return };
        if job.metadata.uid.as_ref() != Some(&pod.owner) {
            return;
        }
        let data = self.config_map.as_ref().map(|map| map.view.clone());
        let Some(data) = data else {
            self.fault(format!("{} starts without a ConfigMap", pod.name));
            return;
        };
        if Intranet::of(&job.spec) != Intranet::Service {
            self.check_addresses(pod, &job, &data);
        }
        self.check_same_lists(pod, &data);
    }

    /// Who waits for the parameter servers waits for those of his own attempt.
    pub(super) fn check_wait(&mut self, pod: &Pod) {
        let Some(job) = self.job.clone() else { return };
        let is_ours = job.metadata.uid.as_ref() == Some(&pod.owner);
        let data = self.config_map.as_ref().map(|map| map.view.clone());
        let data = data.unwrap_or_default();
        if !is_ours || pod.role == Role::Ps || Intranet::of(&job.spec) == Intranet::Service {
            return;
        }
        let servers = self.pods.values().filter(|server| {
            server.role == Role::Ps
                && server.owner == pod.owner
                && server.attempt == pod.attempt
                && server.is_active()
                && server.ip.is_some()
        });
        let wrong: Vec<String> = servers
            .filter(|server| {
                let ip = server.ip.map(|ip| ip.to_string());
                listed(&data, Role::Ps, server.rank) != ip.as_deref()
            })
            .map(|server| format!("{} waits for another server than {}", pod.name, server.name))
            .collect();
        for fault in wrong {
            self.fault(fault);
        }
    }

    /// The lists hold the addresses that the pods of this attempt have now.
    fn check_addresses(&mut self, pod: &Pod, job: &PaddleJob, data: &BTreeMap<String, String>) {
        let mut faults = Vec::new();
        let own = pod.ip.unwrap().to_string();
        let found = listed(data, pod.role, pod.rank);
        let replicas = |role| job.spec.role(role).map_or(0, |role| role.replicas);
        // One that is no longer wanted is about to go, wherever it looks.
        if pod.rank < replicas(pod.role) && found != Some(&own) {
            faults.push(format!(
                "{} starts with {own}, and the list has {found:?}",
                pod.name
            ));
        }
        // The spec may have changed since; the lists say what these pods are.
        let has_servers = data.contains_key("PADDLE_PSERVERS_IP_PORT_LIST");
        for peer in self.pods.values() {
            let Some(ip) = peer.ip else { continue };
            let is_peer = peer.owner == pod.owner
                && peer.attempt == pod.attempt
                && peer.is_active()
                && peer.deleted_at.is_none()
                && peer.rank < replicas(peer.role);
            // A worker of a PS job may be replaced, or added, while others
            // start; it starts itself only after a list that has it.
            let found = listed(data, peer.role, peer.rank);
            let to_come = has_servers
                && peer.role == Role::Worker
                && (found.is_none() || !self.has_keys(&peer.main_keys()));
            if is_peer && !to_come && found != Some(&ip.to_string()) {
                faults.push(format!(
                    "{} starts while {} is at {ip}, and the list has {found:?}",
                    pod.name, peer.name
                ));
            }
        }
        for fault in faults {
            self.fault(fault);
        }
    }

    /// All that start in one attempt agree on who takes part: on everybody in a
    /// Collective job, on the servers in a PS job.
    fn check_same_lists(&mut self, pod: &Pod, data: &BTreeMap<String, String>) {
        let mut shared = vec!["PADDLE_PSERVERS_IP_PORT_LIST"];
        if !data.contains_key(shared[0]) {
            shared.extend(["PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS_NUM"]);
        }
        for key in shared {
            let found = data.get(key).cloned().unwrap_or_default();
            let attempt = (pod.owner.clone(), pod.attempt);
            let first = self.lists.entry(attempt).or_default();
            let first = first.entry(key).or_insert_with(|| found.clone()).clone();
            if first != found {
                self.fault(format!(
                    "{} starts with {key}={found}; another of attempt {} started with {first}",
                    pod.name, pod.attempt
                ));
            }
        }
    }

    /// A status never lies, and an end is an end.
    pub(super) fn check_status(&mut self, job: &PaddleJob, new: &PaddleJobStatus) {
        let old = job.status.clone().unwrap_or_default();
        let mut faults = Vec::new();
        if old.phase.is_some_and(Phase::is_terminal)
            && (old.phase, &old.completion_time) != (new.phase, &new.completion_time)
        {
            faults.push(format!("{:?} becomes {:?}", old.phase, new.phase));
        }
        let raised = |old: Option<i32>, new: Option<i32>| new.unwrap_or(0) - old.unwrap_or(0);
        let attempts = raised(old.attempt, new.attempt);
        let restarts = raised(old.restarts, new.restarts);
        if !(0..=1).contains(&attempts) || restarts < 0 || restarts > attempts {
            faults.push(format!(
                "attempt {:?} becomes {:?}, restarts {:?} become {:?}",
                old.attempt, new.attempt, old.restarts, new.restarts
            ));
        }
        if new.restarts > Some(job.spec.backoff_limit.unwrap_or(0)) {
            faults.push(format!("restarts {:?} exceed the limit", new.restarts));
        }
        if new.observed_generation > job.metadata.generation {
            faults.push("the status speaks of a generation to come".to_owned());
        }
        for role in Role::ALL {
            let Some(counts) = new.role(role) else {
                continue;
            };
            let sum = counts.pending
                + counts.starting
                + counts.running
                + counts.failed
                + counts.succeeded
                + counts.unknown;
            if sum > counts.replicas {
                faults.push(format!("{sum} {role} pods of {}", counts.replicas));
            }
            let before = old.role(role).filter(|_| attempts == 0);
            let shrunk = before.is_none_or(|before| before.replicas > counts.replicas);
            if !shrunk && before.is_some_and(|before| before.succeeded > counts.succeeded) {
                faults.push(format!("fewer {role} pods have succeeded than before"));
            }
            for record in &counts.refs {
                let known = self.ever.get(&record.uid).is_some_and(|birth| {
                    birth.name == record.name && Some(&birth.owner) == job.metadata.uid.as_ref()
                });
                if !known {
                    faults.push(format!("{} ({}) never was", record.name, record.uid));
                }
            }
        }
        for fault in faults {
            self.fault(format!("status: {fault}"));
        }
    }
}
