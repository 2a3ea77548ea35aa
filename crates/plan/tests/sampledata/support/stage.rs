//! A stage: a set, its SampleJobs, and a cluster that does what plans say.
//! Volumes bind, pods run, and servers work at once, unless a test says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Operation, SampleJob, SampleJobPhase, SampleSet, SampleSetPhase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::operation::{Answer, Answers, CacheFigures, Post, State};
use plan::samplejob::{Rival, Run};
use plan::sampleset::{Child, SecretSeen, VolumeSecret};
use plan::{Event, samplejob, sampleset};

use super::*;

/// A runtime server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub operations: BTreeMap<String, State>,
    pub figures: CacheFigures,
    pub is_silent: bool,
    /// What was cancelled, and in how many steps it ends.
    pub ending: BTreeMap<String, u8>,
}

pub struct Stage {
    pub set: Option<SampleSet>,
    pub jobs: Vec<SampleJob>,
    pub seen: sampleset::Seen,
    pub settings: sampleset::Settings,
    pub job_settings: samplejob::Settings,
    pub now: Timestamp,
    pub servers: BTreeMap<i32, Server>,
    pub secrets: BTreeMap<String, VolumeSecret>,
    /// What becomes of operations that are posted.
    pub answers: BTreeMap<Operation, State>,
    /// Whether volumes bind and pods run.
    pub works: bool,
    /// Every phase that the set had, in order.
    pub phases: Vec<Option<SampleSetPhase>>,
    pub events: Vec<Event>,
    pub posts: Vec<Post>,
    /// So many of the next requests do not arrive.
    pub lost_posts: usize,
}

/// A stage with the Secret of the tutorial.
pub fn stage(set: SampleSet) -> Stage {
    Stage {
        set: Some(set),
        jobs: Vec::new(),
        seen: sampleset::Seen {
            has_csi_driver: true,
            ..sampleset::Seen::default()
        },
        settings: settings(),
        job_settings: job_settings(),
        now: now(),
        servers: BTreeMap::new(),
        secrets: BTreeMap::from([("imagenet".to_owned(), secret(&REDIS))]),
        answers: BTreeMap::new(),
        works: true,
        phases: vec![None],
        events: Vec::new(),
        posts: Vec::new(),
        lost_posts: 0,
    }
}

impl Stage {
    /// What becomes of operations of this kind from now on.
    pub fn says(mut self, operation: Operation, state: State) -> Stage {
        self.answers.insert(operation, state);
        self
    }

    pub fn with(mut self, job: SampleJob) -> Stage {
        self.jobs.push(job);
        self
    }

    pub fn edit(mut self, edit: impl FnOnce(SampleSet) -> SampleSet) -> Stage {
        self.set = self.set.map(edit);
        self
    }

    pub fn change(mut self, change: impl FnOnce(&mut Stage)) -> Stage {
        change(&mut self);
        self
    }

    pub fn set(&self) -> &SampleSet {
        self.set.as_ref().expect("the set is gone")
    }

    pub fn status(&self) -> &api::SampleSetStatus {
        self.set().status.as_ref().expect("the set has no status")
    }

    pub fn phase(&self) -> Option<SampleSetPhase> {
        self.set().status.as_ref().and_then(|status| status.phase)
    }

    pub fn job(&self, name: &str) -> &SampleJob {
        let mut jobs = self.jobs.iter();
        let job = jobs.find(|job| job.metadata.name.as_deref() == Some(name));
        job.unwrap_or_else(|| panic!("there is no job {name}"))
    }

    pub fn job_mut(&mut self, name: &str) -> &mut SampleJob {
        let mut jobs = self.jobs.iter_mut();
        jobs.find(|job| job.metadata.name.as_deref() == Some(name))
            .unwrap()
    }

    pub fn job_phase(&self, name: &str) -> Option<SampleJobPhase> {
        self.job(name)
            .status
            .as_ref()
            .and_then(|status| status.phase)
    }

    /// The reason and message of a condition of the set.
    pub fn told(&self, type_: &str) -> (String, String) {
        let mut told = self.status().conditions.iter();
        let told = told.find(|told| told.type_ == type_);
        let told = told.unwrap_or_else(|| panic!("no condition {type_}"));
        (told.reason.clone(), told.message.clone())
    }

    /// The reason and message of a condition of a job.
    pub fn job_told(&self, job: &str, type_: &str) -> (String, String) {
        let status = self.job(job).status.as_ref().unwrap();
        let told = status.conditions.iter().find(|told| told.type_ == type_);
        let told = told.unwrap_or_else(|| panic!("no condition {type_} of {job}"));
        (told.reason.clone(), told.message.clone())
    }

    /// The ids and types of operations that were posted to a partition.
    pub fn posted(&self, partition: i32) -> Vec<Operation> {
        let posts = self.posts.iter().filter(|post| post.partition == partition);
        posts.map(|post| post.task.operation()).collect()
    }

    /// Time goes by, and all settles.
    pub fn after(mut self, time: i64) -> Stage {
        self.now += SignedDuration::from_secs(time);
        self.settle()
    }

    /// Plans and applies until nothing is left to do.
    pub fn settle(mut self) -> Stage {
        for _ in 0..200 {
            if !self.step() {
                return self;
            }
        }
        panic!(
            "it does not settle: {:#?}",
            self.set.and_then(|set| set.status)
        );
    }

    /// One pass for everybody; whether anything changed.
    pub fn step(&mut self) -> bool {
        let mut changed = self.work();
        if self.set.is_some() {
            let plan = self.plan_set();
            changed |= self.apply_set(plan);
        }
        let names: Vec<String> = self
            .jobs
            .iter()
            .filter_map(|job| job.metadata.name.clone())
            .collect();
        for name in names {
            if self
                .jobs
                .iter()
                .any(|job| job.metadata.name.as_ref() == Some(&name))
            {
                let plan = self.plan_job(&name);
                changed |= self.apply_job(&name, plan);
            }
        }
        self.assert_locked();
        changed
    }

    fn answers(&self, asked: &BTreeSet<String>) -> Answers {
        let answer = |server: &Server| {
            let state = |id: &String| {
                server
                    .operations
                    .get(id)
                    .cloned()
                    .unwrap_or(State::NotFound)
            };
            Answer {
                cache: (!server.is_silent).then(|| server.figures.clone()),
                error: server.is_silent.then(|| "connection refused".to_owned()),
                operations: asked.iter().map(|id| (id.clone(), state(id))).collect(),
            }
        };
        self.servers
            .iter()
            .map(|(partition, server)| (*partition, answer(server)))
            .collect()
    }

    fn secret(&self, name: Option<String>) -> Option<SecretSeen> {
        name.map(|name| {
            let secret = self.secrets.get(&name).cloned();
            secret.map_or(SecretSeen::Missing, SecretSeen::Present)
        })
    }

    pub fn plan_set(&self) -> sampleset::Plan {
        let set = self.set();
        let mut seen = self.seen.clone();
        seen.answers = self.answers(&sampleset::asks(set));
        let lock = set
            .status
            .as_ref()
            .and_then(|status| status.operation.as_ref());
        seen.owner_is_gone = lock.is_some_and(|lock| {
            let owner = Some(&lock.owner);
            owner != set.metadata.uid.as_ref()
                && !self
                    .jobs
                    .iter()
                    .any(|job| job.metadata.uid.as_ref() == owner && samplejob::sees_to(job, set))
        });
        let needed = sampleset::secrets_needed(set, &seen, &self.settings, self.now);
        seen.volume_secret = self.secret(needed.volume);
        seen.source_secret = self.secret(needed.source);
        sampleset::plan(set, &seen, &self.settings, self.now)
    }

    pub fn apply_set(&mut self, plan: sampleset::Plan) -> bool {
        let changes = !plan.is_idle();
        if let Some(finalizers) = plan.finalizers {
            let set = self.set.as_mut().unwrap();
            let gone = finalizers.is_empty() && set.metadata.deletion_timestamp.is_some();
            set.metadata.finalizers = Some(finalizers);
            self.carry_out(plan.created, plan.patched, plan.deleted);
            self.label(plan.labelled);
            self.events.extend(plan.events);
            if gone {
                self.set = None;
            }
            return true;
        }
        if plan.server_secret.is_some() {
            self.seen.server_secret = Child::Ours(());
        }
        self.carry_out(plan.created, plan.patched, plan.deleted);
        self.label(plan.labelled);
        self.cancel(plan.cancelled);
        self.post(plan.posted);
        let uids: Vec<String> = plan.pods_deleted.into_iter().map(|pod| pod.uid).collect();
        self.seen.pods.retain(|pod| !uids.contains(&pod.uid));
        self.run_pods();
        self.events.extend(plan.events);
        let set = self.set.as_mut().unwrap();
        if set.status.as_ref() == Some(&plan.status) {
            return changes;
        }
        if self.phases.last() != Some(&plan.status.phase) {
            self.phases.push(plan.status.phase);
        }
        set.status = Some(plan.status);
        true
    }

    /// What is under way on all servers becomes this.
    pub fn turns(mut self, state: State) -> Stage {
        for server in self.servers.values_mut() {
            for old in server.operations.values_mut() {
                if matches!(
                    old,
                    State::Running(_) | State::Queued | State::NeedsCredentials
                ) {
                    *old = state.clone();
                }
            }
        }
        self
    }

    pub fn job_seen(&self, name: &str) -> samplejob::Seen {
        let job = self.job(name);
        let set = self.set.as_ref().filter(|set| {
            let named = job
                .spec
                .sample_set_ref
                .as_ref()
                .and_then(|set| set.name.as_ref());
            named == set.metadata.name.as_ref()
        });
        let others = self
            .jobs
            .iter()
            .filter(|other| other.metadata.name != job.metadata.name);
        let runs = self.jobs.iter().filter(|other| {
            let owners = other.metadata.owner_references.iter().flatten();
            { owners }.any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
        });
        let mut seen = samplejob::Seen {
            set: set.cloned().map(Arc::new),
            rivals: others.filter_map(Rival::of).collect(),
            pods: self.seen.pods.clone(),
            answers: self.answers(&samplejob::asks(job, set)),
            runs: runs.map(run_view).collect(),
            ..samplejob::Seen::default()
        };
        let needed = samplejob::secrets_needed(job, &seen);
        seen.volume_secret = self.secret(needed.volume);
        seen.source_secret = self.secret(needed.source);
        seen
    }

    pub fn plan_job(&self, name: &str) -> samplejob::Plan {
        let seen = self.job_seen(name);
        samplejob::plan(self.job(name), &seen, &self.job_settings, self.now)
    }

    pub fn apply_job(&mut self, name: &str, plan: samplejob::Plan) -> bool {
        let changes = !plan.is_idle();
        if let Some(lock) = plan.lock {
            let set = self.set.as_mut().expect("a lock of no set");
            set.status.get_or_insert_default().operation = lock.operation;
        }
        self.cancel(plan.cancelled);
        self.post(plan.posted);
        for run in plan.runs_created {
            let mut run: SampleJob = serde_json::from_value(run).unwrap();
            let name = run.metadata.name.clone().unwrap();
            assert!(
                !self
                    .jobs
                    .iter()
                    .any(|job| job.metadata.name == run.metadata.name),
                "{name} twice"
            );
            run.metadata.uid = Some(format!("uid-{name}"));
            run.metadata.creation_timestamp = Some(Time(self.now));
            self.jobs.push(run);
        }
        let gone: Vec<String> = plan.runs_deleted.into_iter().map(|run| run.uid).collect();
        self.jobs
            .retain(|job| !gone.contains(job.metadata.uid.as_ref().unwrap()));
        self.events.extend(plan.events);
        if plan.deletes_job {
            self.jobs
                .retain(|job| job.metadata.name.as_deref() != Some(name));
            return true;
        }
        let job = self.job_mut(name);
        if let Some(finalizers) = plan.finalizers {
            job.metadata.finalizers = Some(finalizers);
        }
        if job.status.as_ref() == Some(&plan.status) {
            return changes;
        }
        job.status = Some(plan.status);
        true
    }
}

fn run_view(job: &SampleJob) -> Run {
    let status = job.status.clone().unwrap_or_default();
    Run {
        name: job.metadata.name.clone().unwrap(),
        uid: job.metadata.uid.clone().unwrap(),
        due: None,
        created: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
        phase: status.phase,
        ended: status.completion_time.map(|time| time.0),
        is_going: false,
    }
}
