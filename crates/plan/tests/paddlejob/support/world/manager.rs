//! The manager: passes over what its caches show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{PaddleJob, PaddleJobStatus, labels};
use plan::Urgency;
use plan::paddlejob::{self, ConfigMapView, Plan, Refusal, Seen, Settings};
use serde_json::Value;

use super::{Birth, Counts, World, shared};
use crate::support::kubelet::Pod;
use crate::support::watch::Entry;
use crate::support::{INIT_IMAGE, name_of};

impl World {
    fn settings(&self) -> Settings {
        Settings {
            init_image: self.habits.waits.then(|| INIT_IMAGE.to_owned()),
            volcano: self.habits.volcano,
            ..Settings::default()
        }
    }

    fn seen(&self, job: &PaddleJob) -> Seen {
        let owner = job.metadata.uid.as_deref().unwrap();
        let manager = &self.manager;
        let pods = manager.pods.seen(owner);
        let unseen = manager.pods.unseen(owner);
        let maps = manager.config_maps.seen(owner).into_iter();
        let map = maps.chain(manager.config_maps.unseen(owner)).next();
        let groups = manager.pod_groups.seen(owner).into_iter();
        let group = groups.chain(manager.pod_groups.unseen(owner)).next();
        let services = manager.services.seen(owner).into_iter();
        let services = services.chain(manager.services.unseen(owner));
        Seen {
            pods: pods.iter().map(|(_, pod)| Arc::clone(&pod.view)).collect(),
            creating: unseen.iter().map(|(name, _)| (*name).to_owned()).collect(),
            config_map: map.map(|(_, map)| {
                Arc::new(ConfigMapView {
                    data: map.view.as_ref().clone(),
                })
            }),
            // A manager that has just started remembers nothing.
            succeeded: BTreeSet::new(),
            services: services.map(|(name, _)| name.to_owned()).collect(),
            lost_nodes: self.dead_nodes.clone(),
            pod_group: group.map(|(_, group)| Arc::new(group.view.clone())),
            ..Seen::default()
        }
    }

    /// One pass over what is cached.
    pub fn pass(&mut self) -> Option<Plan> {
        self.pass_with(Counts::Write, None)
    }

    /// A pass that ends after so many writes, because one of them failed.
    pub fn interrupted_pass(&mut self, writes: usize) {
        self.pass_with(Counts::Write, Some(writes));
    }

    /// A pass in which a status that may wait does so.
    pub fn pass_with(&mut self, counts: Counts, writes: Option<usize>) -> Option<Plan> {
        let job = self.manager.job.clone()?;
        if self.habits.remembers_writes && self.manager.superseded.is_some() {
            if self.manager.superseded == job.metadata.resource_version {
                return None;
            }
            self.manager.superseded = None;
        }
        let seen = self.seen(&job);
        let plan = paddlejob::plan(&job, &seen, &self.settings(), self.now);
        self.check_plan(&seen, &plan);
        let told = summary(&plan);
        self.note(format!(
            "pass on version {} (attempt {:?}): {told}",
            job.metadata.resource_version.as_deref().unwrap(),
            job.status.as_ref().and_then(|s| s.attempt),
        ));
        let mut budget = Budget(writes);
        if self.apply(&job, &plan, counts, &mut budget).is_err() {
            self.note("the pass was interrupted");
        }
        Some(plan)
    }

    fn wrote(&mut self, what: &'static str, budget: &mut Budget) -> Result<(), Interrupted> {
        budget.spend()?;
        *self.writes.entry(what).or_default() += 1;
        Ok(())
    }

    /// Writes what the plan says, in the order in which the controller does.
    fn apply(
        &mut self,
        job: &PaddleJob,
        plan: &Plan,
        counts: Counts,
        budget: &mut Budget,
    ) -> Result<(), Interrupted> {
        if plan.removes_finalizer {
            self.wrote("finalizer", budget)?;
            let is_fresh = |actual: &PaddleJob| {
                actual.metadata.resource_version == job.metadata.resource_version
            };
            if let Some(mut actual) = self.job.clone().filter(is_fresh) {
                let finalizers = actual.metadata.finalizers.as_mut();
                finalizers.unwrap().retain(|f| f != labels::GO_FINALIZER);
                self.put_job(Some(actual));
            }
            return Ok(());
        }
        if plan.deletes_job {
            self.wrote("job", budget)?;
            if self.job.is_some() {
                self.put_job(None);
            }
            return Ok(());
        }
        if let Some(port) = plan.host_port {
            self.wrote("ports", budget)?;
            let is_fresh = |actual: &PaddleJob| {
                actual.metadata.resource_version == job.metadata.resource_version
            };
            if let Some(mut actual) = self.job.clone().filter(is_fresh) {
                let annotations = actual.metadata.annotations.get_or_insert_default();
                annotations.insert(labels::HOST_PORT.to_owned(), port.to_string());
                self.put_job(Some(actual));
            }
            return Ok(());
        }
        let mut refusal = None;
        if let Some(group) = &plan.pod_group {
            self.wrote("pod group", budget)?;
            refusal = self.write_pod_group(job, group);
        }
        for service in &plan.services_created {
            self.wrote("service", budget)?;
            refusal = refusal.or(self.create_service(job, service));
        }
        if let Some(data) = &plan.config_map {
            self.wrote("config map", budget)?;
            refusal = refusal.or(self.write_config_map(job, data));
        }
        let mut unborn = None;
        for manifest in &plan.pods_created {
            self.wrote("pod", budget)?;
            unborn = unborn.or(self.create_pod(job, manifest));
        }
        // Woken for nothing, a pod would not be woken again.
        for wake in plan.pods_woken.iter().filter(|_| refusal.is_none()) {
            self.wrote("wake", budget)?;
            self.patch_pod(&wake.name, &wake.uid, |pod| {
                pod.is_poked = true;
                pod.woken = Some(wake.key.clone());
            });
        }
        for stop in &plan.pods_stopped {
            self.wrote("stop", budget)?;
            self.patch_pod(&stop.name, &stop.uid, |pod| {
                pod.active_deadline = Some(paddlejob::STOP_AFTER_SECONDS);
            });
        }
        for deletion in &plan.pods_deleted {
            self.wrote("deletion", budget)?;
            let pod = self.pods.get(&deletion.name);
            if pod.is_some_and(|pod| pod.uid == deletion.uid) {
                self.delete_pod(&deletion.name, deletion.force);
                self.note_pod(&deletion.name);
            }
        }
        for name in &plan.services_deleted {
            self.wrote("service", budget)?;
            if let Some(gone) = self.services.remove(name) {
                self.tick();
                self.manager.services.gone(name, &gone.uid);
            }
        }
        if plan.pod_group_deleted {
            self.wrote("pod group", budget)?;
            self.remove_pod_group();
        }
        let mut plan = plan.clone();
        if let Some(refusal) = refusal.or(unborn) {
            paddlejob::refuse(&mut plan, job, refusal, self.now);
        }
        match paddlejob::urgency(job.status.as_ref(), &plan) {
            Urgency::Never => {}
            Urgency::Eventually | Urgency::Soon if counts == Counts::PutOff => {}
            Urgency::Eventually | Urgency::Soon | Urgency::Now => {
                self.wrote("status", budget)?;
                self.write_status(job, plan.status);
            }
        }
        Ok(())
    }

    fn create_service(&mut self, job: &PaddleJob, service: &Value) -> Option<Refusal> {
        let name = name_of(service);
        let owner = job.metadata.uid.clone().unwrap();
        if let Some(found) = self.services.get(&name).cloned() {
            if found.owner != owner {
                return Some(taken(&name));
            }
            self.manager.services.note_written(&name, found);
            return None;
        }
        let entry = Entry {
            revision: self.tick(),
            uid: self.new_uid(),
            owner,
            view: (),
        };
        self.services.insert(name.clone(), entry.clone());
        self.manager.services.put(&name, entry.clone());
        self.manager.services.note_written(&name, entry);
        None
    }

    fn write_config_map(
        &mut self,
        job: &PaddleJob,
        data: &BTreeMap<String, String>,
    ) -> Option<Refusal> {
        let owner = job.metadata.uid.clone().unwrap();
        let name = job.metadata.name.clone().unwrap();
        if self.config_map.as_ref().is_some_and(|m| m.owner != owner) {
            return Some(taken(&name));
        }
        self.put_config_map(&owner, data.clone());
        let written = self.config_map.as_ref().map(shared).unwrap();
        self.manager.config_maps.note_written(&name, written);
        None
    }

    fn create_pod(&mut self, job: &PaddleJob, manifest: &Value) -> Option<Refusal> {
        let name = name_of(manifest);
        if let Some(found) = self.pods.get(&name) {
            if Some(&found.owner) != job.metadata.uid.as_ref() {
                return Some(taken(&name));
            }
            self.note_pod(&name);
            return None;
        }
        let uid = self.new_uid();
        let pod = Pod::new(manifest, uid.clone(), self.now);
        self.check_birth(&pod);
        let birth = Birth {
            name: name.clone(),
            owner: pod.owner.clone(),
            attempt: pod.attempt,
            has_started: false,
        };
        self.ever.insert(uid, birth);
        self.put_pod(pod);
        self.note_pod(&name);
        None
    }

    /// The answer to a request shows the pod as it is now.
    fn note_pod(&mut self, name: &str) {
        if let Some(view) = self.views.get(name) {
            self.manager.pods.note_written(name, view.clone());
        }
    }

    fn patch_pod(&mut self, name: &str, uid: &str, patch: impl FnOnce(&mut Pod)) {
        if self.pods.get(name).is_some_and(|pod| pod.uid == uid) {
            self.change(name, patch);
            self.note_pod(name);
        }
    }

    fn write_status(&mut self, cached: &PaddleJob, status: PaddleJobStatus) {
        let Some(actual) = self.job.clone() else {
            return;
        };
        if actual.metadata.resource_version != cached.metadata.resource_version {
            self.note("the status is refused: the job has changed");
            return;
        }
        if actual.status.as_ref() == Some(&status) {
            return;
        }
        self.check_status(&actual, &status);
        self.note(format!(
            "status {:?} attempt {:?} restarts {:?}",
            status.phase, status.attempt, status.restarts
        ));
        self.manager.superseded = actual.metadata.resource_version.clone();
        self.put_job(Some(PaddleJob {
            status: Some(status),
            ..actual
        }));
    }
}

/// The manager stopped in the middle of a pass.
struct Interrupted;

/// How many writes a pass may still do.
struct Budget(Option<usize>);

impl Budget {
    fn spend(&mut self) -> Result<(), Interrupted> {
        match &mut self.0 {
            None => Ok(()),
            Some(0) => Err(Interrupted),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

pub(super) fn taken(name: &str) -> Refusal {
    Refusal {
        reason: "NameTaken",
        message: format!("{name} belongs to somebody else"),
    }
}

pub(super) fn summary(plan: &Plan) -> String {
    let created: Vec<String> = plan.pods_created.iter().map(name_of).collect();
    let deleted = plan.pods_deleted.iter().chain(&plan.pods_stopped);
    let deleted: Vec<&str> = deleted.map(|pod| pod.name.as_str()).collect();
    let woken: Vec<&str> = plan.pods_woken.iter().map(|w| w.name.as_str()).collect();
    format!(
        "create {created:?}, delete or stop {deleted:?}, wake {woken:?}, config map {:?}, {:?}",
        plan.config_map, plan.status.phase
    )
}
