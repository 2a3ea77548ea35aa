//! A small cluster for one job name. What is really there, and what the
//! manager's caches show of it, are two things: every change reaches the
//! caches late, one kind of object later than another.
//!
//! What must never happen is checked where it would happen, and noted as a
//! fault; a test asks for the faults at its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::{PaddleJob, PaddleJobStatus, Phase};
use jiff::Timestamp;
use plan::paddlejob::{PodGroupView, PodView};

use super::fixtures::{Job, now, seconds};
use super::kubelet::Pod;
use super::watch::{Cache, Entry, Revision};

mod checks;
mod cluster;
mod gang;
mod manager;
mod rest;

/// How the cluster and the manager behave.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The kubelet tries a container only when its pod changed, never by itself.
    pub lazy_kubelet: bool,
    /// The manager waits until its cache shows its own last status.
    pub remembers_writes: bool,
    /// Pods get the init container that waits.
    pub waits: bool,
    /// Volcano schedules jobs.
    pub volcano: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Habits {
            lazy_kubelet: true,
            remembers_writes: true,
            waits: true,
            volcano: false,
        }
    }
}

/// What a pass does about a status that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Write,
    PutOff,
}

/// The cluster, and one manager.
#[derive(Debug)]
pub struct World {
    pub now: Timestamp,
    pub habits: Habits,
    name: String,
    pub job: Option<PaddleJob>,
    pub pods: BTreeMap<String, Pod>,
    /// The pods again, as a watch or the answer to a request shows them.
    views: BTreeMap<String, Entry<Arc<PodView>>>,
    pub config_map: Option<Entry<BTreeMap<String, String>>>,
    pub services: BTreeMap<String, Entry<()>>,
    pub pod_group: Option<Entry<PodGroupView>>,
    pub dead_nodes: BTreeSet<String>,
    manager: Manager,
    revision: Revision,
    born: u32,
    /// Every pod that ever was, by uid.
    ever: BTreeMap<String, Birth>,
    /// The lists that the containers of an attempt started with.
    lists: BTreeMap<(String, i32), BTreeMap<&'static str, String>>,
    /// Writes of the manager, by what they were.
    pub writes: BTreeMap<&'static str, usize>,
    /// Containers that could have started, had somebody woken their kubelet.
    pub slow_starts: usize,
    /// What must never happen, and did.
    pub faults: Vec<String>,
    /// What happened, for whoever reads a failure.
    pub diary: Vec<String>,
}

#[derive(Clone, Debug)]
struct Birth {
    name: String,
    owner: String,
    attempt: i32,
    /// Its paddle container has started.
    has_started: bool,
}

/// What a process of the operator holds; nothing of it survives a restart.
#[derive(Debug, Default)]
struct Manager {
    job: Option<PaddleJob>,
    jobs: VecDeque<Option<PaddleJob>>,
    pods: Cache<Arc<PodView>>,
    config_maps: Cache<Arc<BTreeMap<String, String>>>,
    services: Cache<()>,
    pod_groups: Cache<PodGroupView>,
    /// The version of the job that its own last write replaced.
    superseded: Option<String>,
}

/// A kind of object that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Job,
    Pod,
    ConfigMap,
    Service,
    PodGroup,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Job,
        Kind::Pod,
        Kind::ConfigMap,
        Kind::Service,
        Kind::PodGroup,
    ];
}

impl World {
    /// A cluster in which the job was just created.
    pub fn new(job: &Job, habits: Habits) -> World {
        let mut world = World {
            now: now(),
            habits,
            name: job.name(),
            job: None,
            pods: BTreeMap::new(),
            views: BTreeMap::new(),
            config_map: None,
            services: BTreeMap::new(),
            pod_group: None,
            dead_nodes: BTreeSet::new(),
            manager: Manager::default(),
            revision: 0,
            born: 0,
            ever: BTreeMap::new(),
            lists: BTreeMap::new(),
            writes: BTreeMap::new(),
            slow_starts: 0,
            faults: Vec::new(),
            diary: Vec::new(),
        };
        world.create_job(&job.0);
        world
    }

    fn tick(&mut self) -> Revision {
        self.revision += 1;
        self.revision
    }

    fn new_uid(&mut self) -> String {
        self.born += 1;
        format!("{:08x}-0000-4000-8000-000000000000", self.born)
    }

    fn create_job(&mut self, job: &PaddleJob) {
        let mut job = job.clone();
        job.metadata.uid = Some(self.new_uid());
        job.metadata.generation = Some(1);
        self.put_job(Some(job));
    }

    fn put_job(&mut self, job: Option<PaddleJob>) {
        let revision = self.tick();
        self.job = job.map(|mut job| {
            job.metadata.resource_version = Some(revision.to_string());
            job
        });
        self.manager.jobs.push_back(self.job.clone());
    }

    fn put_pod(&mut self, pod: Pod) {
        let entry = Entry {
            revision: self.tick(),
            uid: pod.uid.clone(),
            owner: pod.owner.clone(),
            view: pod.view(),
        };
        self.manager.pods.put(&pod.name, entry.clone());
        self.views.insert(pod.name.clone(), entry);
        self.pods.insert(pod.name.clone(), pod);
    }

    /// Changes a pod, if it is there.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.pods.get(name).cloned() {
            change(&mut pod);
            self.put_pod(pod);
        }
    }

    fn remove_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.tick();
            self.views.remove(name);
            self.manager.pods.gone(name, &pod.uid);
        }
    }

    /// A deletion request: a pod without a node goes at once, others when
    /// their kubelet has stopped them.
    fn delete_pod(&mut self, name: &str, force: bool) {
        let Some(pod) = self.pods.get(name) else {
            return;
        };
        if force || pod.node.is_none() {
            self.remove_pod(name);
        } else if pod.deleted_at.is_none() {
            let at = self.now + seconds(30);
            self.change(name, |pod| pod.deleted_at = Some(at));
        }
    }

    fn put_config_map(&mut self, owner: &str, data: BTreeMap<String, String>) {
        if self.config_map.as_ref().is_some_and(|map| map.view == data) {
            return;
        }
        let uid = match &self.config_map {
            Some(map) => map.uid.clone(),
            None => self.new_uid(),
        };
        let revision = self.tick();
        let entry = Entry {
            revision,
            uid,
            owner: owner.to_owned(),
            view: data,
        };
        self.config_map = Some(entry.clone());
        self.manager.config_maps.put(&self.name, shared(&entry));
    }

    fn owner(&self) -> String {
        let job = self.job.as_ref();
        job.and_then(|job| job.metadata.uid.clone())
            .unwrap_or_default()
    }

    /// The status of the job as it really is.
    pub fn status(&self) -> PaddleJobStatus {
        let job = self.job.as_ref();
        job.and_then(|job| job.status.clone()).unwrap_or_default()
    }

    pub fn phase(&self) -> Option<Phase> {
        self.status().phase
    }

    fn fault(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("FAULT {what}"));
        self.faults.push(what);
    }

    pub fn note(&mut self, what: impl Into<String>) {
        self.diary.push(what.into());
    }

    /// The watch of a kind delivers one event.
    pub fn deliver(&mut self, kind: Kind) -> bool {
        let manager = &mut self.manager;
        match kind {
            Kind::Job => match manager.jobs.pop_front() {
                Some(job) => {
                    manager.job = job;
                    true
                }
                None => false,
            },
            Kind::Pod => manager.pods.deliver(),
            Kind::ConfigMap => manager.config_maps.deliver(),
            Kind::Service => manager.services.deliver(),
            Kind::PodGroup => manager.pod_groups.deliver(),
        }
    }

    /// The caches catch up.
    pub fn deliver_all(&mut self) {
        for kind in Kind::ALL {
            while self.deliver(kind) {}
        }
    }

    /// The watch of a kind breaks, and everything is listed.
    pub fn relist(&mut self, kind: Kind) {
        match kind {
            Kind::Job => {
                self.manager.jobs.clear();
                self.manager.job = self.job.clone();
            }
            Kind::Pod => self.manager.pods.relist(self.views.clone()),
            Kind::ConfigMap => {
                let present = self.config_map.iter();
                let present = present.map(|map| (self.name.clone(), shared(map)));
                self.manager.config_maps.relist(present.collect());
            }
            Kind::Service => self.manager.services.relist(self.services.clone()),
            Kind::PodGroup => {
                let present = self.pod_group.iter();
                let present = present.map(|group| (self.name.clone(), group.clone()));
                self.manager.pod_groups.relist(present.collect());
            }
        }
    }

    /// The manager ends and another one begins, which knows only what it lists.
    pub fn restart_manager(&mut self) {
        self.note("restart of the manager");
        self.manager = Manager::default();
        for kind in Kind::ALL {
            self.relist(kind);
        }
    }
}

fn shared(entry: &Entry<BTreeMap<String, String>>) -> Entry<Arc<BTreeMap<String, String>>> {
    Entry {
        revision: entry.revision,
        uid: entry.uid.clone(),
        owner: entry.owner.clone(),
        view: Arc::new(entry.view.clone()),
    }
}
