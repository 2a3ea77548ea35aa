//! Those who move a cluster: scheduler, kubelets, users, the garbage
//! collector, and misfortune.

use std::net::Ipv4Addr;

use api::{PaddleJob, Role};
use plan::paddlejob::Mode;

use super::World;
use crate::support::fixtures::seconds;
use crate::support::kubelet::{Container, Pod};

impl World {
    fn names(&self, which: impl Fn(&Pod) -> bool) -> Vec<String> {
        let living = self.pods.values().filter(|pod| {
            let node = pod.node.as_deref().unwrap_or_default();
            !self.dead_nodes.contains(node)
        });
        living
            .filter(|pod| which(pod))
            .map(|pod| pod.name.clone())
            .collect()
    }

    pub fn unscheduled(&self) -> Vec<String> {
        self.names(|pod| pod.node.is_none() && self.has_room(pod))
    }

    /// The scheduler finds a node for a pod; each has its own.
    pub fn schedule(&mut self, name: &str) {
        let node = format!("node-of-{}", self.pods[name].uid);
        self.note(format!("{name} is scheduled"));
        self.change(name, |pod| pod.node = Some(node));
    }

    pub fn without_address(&self) -> Vec<String> {
        self.names(|pod| pod.node.is_some() && pod.ip.is_none() && pod.is_active())
    }

    /// The kubelet makes the sandbox of a pod. No address is given twice, so
    /// that an old one is recognised.
    pub fn give_address(&mut self, name: &str) {
        self.born += 1;
        let ip = Ipv4Addr::from(0x0a00_0000 + self.born);
        self.note(format!("{name} has the address {ip}"));
        self.change(name, |pod| {
            pod.ip = Some(ip);
            pod.is_poked = true;
        });
    }

    /// The node of a pod boots anew: the pod stays, at another address.
    pub fn reboot(&mut self, name: &str) {
        self.note(format!("the node of {name} boots anew"));
        self.give_address(name);
    }

    pub(super) fn has_keys(&self, keys: &[String]) -> bool {
        let map = self.config_map.as_ref();
        map.is_some_and(|map| keys.iter().all(|key| map.view.contains_key(key)))
    }

    /// Pods of which the kubelet would start a container now.
    pub fn startable(&self) -> Vec<String> {
        self.names(|pod| {
            let tried = pod.is_poked || !self.habits.lazy_kubelet;
            let may = pod.ip.is_some() && pod.deleted_at.is_none() && pod.is_active();
            may && tried
                && match (pod.init, pod.main) {
                    (Some(Container::Waiting), _) => self.has_keys(&pod.init_keys()),
                    (Some(Container::Running), _) => false,
                    (_, Container::Waiting) => self.has_keys(&pod.main_keys()),
                    _ => false,
                }
        })
    }

    /// The kubelet starts the next container of a pod.
    pub fn start(&mut self, name: &str) {
        let pod = self.pods[name].clone();
        if pod.init == Some(Container::Waiting) {
            self.note(format!("{name} waits for its peers"));
            self.check_wait(&pod);
            self.change(name, |pod| pod.init = Some(Container::Running));
            return;
        }
        self.note(format!("{name} of attempt {} starts", pod.attempt));
        self.check_start(&pod);
        self.change(name, |pod| {
            pod.main = Container::Running;
            pod.is_poked = false;
        });
    }

    /// Lazy kubelets have tried in vain whatever can't start now.
    pub fn give_up_waiting(&mut self) {
        let startable = self.startable();
        for name in self.names(|pod| pod.is_poked && pod.ip.is_some()) {
            let waits_for_key = match self.pods[&name].init {
                Some(Container::Running) => false,
                _ => !startable.contains(&name),
            };
            if waits_for_key {
                // Nobody watches a kubelet's back-off: no event.
                self.pods.get_mut(&name).unwrap().is_poked = false;
            }
        }
    }

    /// Pods whose init container is done: it waits while a parameter server is
    /// about to start.
    pub fn patient(&self) -> Vec<String> {
        let servers =
            self.names(|pod| pod.role == Role::Ps && pod.is_active() && !pod.is_training());
        self.names(|pod| {
            pod.init == Some(Container::Running)
                && (servers.is_empty() || pod.role == Role::Ps || !self.is_ps())
        })
    }

    fn is_ps(&self) -> bool {
        let job = self.job.as_ref();
        job.is_some_and(|job| Mode::of(&job.spec) == Mode::Ps)
    }

    pub fn end_wait(&mut self, name: &str) {
        self.note(format!("{name} has found its peers"));
        self.change(name, |pod| {
            pod.init = Some(Container::Ended(0));
            pod.is_poked = true;
        });
    }

    pub fn unready(&self) -> Vec<String> {
        self.names(|pod| pod.is_training() && !pod.ready && pod.deleted_at.is_none())
    }

    pub fn make_ready(&mut self, name: &str) {
        self.note(format!("{name} is ready"));
        self.change(name, |pod| pod.ready = true);
    }

    pub fn training(&self) -> Vec<String> {
        self.names(Pod::is_training)
    }

    /// The paddle container of a pod ends.
    pub fn exit(&mut self, name: &str, code: i32) {
        self.note(format!("{name} exits with {code}"));
        self.change(name, |pod| {
            pod.ready = false;
            if code != 0 && pod.is_restarted() && pod.deleted_at.is_none() {
                pod.main = Container::Waiting;
                pod.restarts += 1;
                pod.is_poked = true;
            } else {
                pod.main = Container::Ended(code);
            }
        });
    }

    /// Pods that were told to stop.
    pub fn stopping(&self) -> Vec<String> {
        self.names(|pod| pod.active_deadline.is_some() && pod.node.is_some() && pod.is_active())
    }

    pub fn stop(&mut self, name: &str) {
        self.note(format!("{name} is stopped"));
        self.change(name, |pod| {
            pod.ready = false;
            pod.ended_by = Some("DeadlineExceeded");
        });
    }

    pub fn terminating(&self) -> Vec<String> {
        self.names(|pod| pod.deleted_at.is_some())
    }

    /// The kubelet confirms that a pod is gone.
    pub fn remove(&mut self, name: &str) {
        self.note(format!("{name} is gone"));
        self.remove_pod(name);
    }

    pub fn all(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// Somebody deletes a pod, or the scheduler preempts it.
    pub fn user_deletes(&mut self, name: &str) {
        self.note(format!("the user deletes {name}"));
        self.delete_pod(name, false);
    }

    /// The kubelet evicts a pod: it fails, and stays.
    pub fn evict(&mut self, name: &str) {
        self.note(format!("{name} is evicted"));
        self.change(name, |pod| {
            pod.ready = false;
            pod.ended_by = Some("Evicted");
        });
    }

    pub fn evictable(&self) -> Vec<String> {
        self.names(|pod| pod.node.is_some() && pod.is_active())
    }

    /// A pod is gone without a trace, as after `kubectl delete --force`.
    pub fn vanish(&mut self, name: &str) {
        self.note(format!("{name} vanishes"));
        self.remove_pod(name);
    }

    /// The node of a pod dies: the control plane deletes the pod, and nobody
    /// confirms it.
    pub fn kill_node(&mut self, name: &str) {
        let Some(node) = self.pods[name].node.clone() else {
            return;
        };
        self.note(format!("{node} dies, with {name}"));
        self.dead_nodes.insert(node);
        let at = self.now + seconds(30);
        self.change(name, |pod| {
            pod.ready = false;
            pod.deleted_at.get_or_insert(at);
        });
    }

    /// The user changes the spec.
    pub fn edit(&mut self, edit: impl FnOnce(&mut PaddleJob)) {
        let Some(mut job) = self.job.clone() else {
            return;
        };
        let before = job.spec.clone();
        edit(&mut job);
        if job.spec != before {
            job.metadata.generation = job.metadata.generation.map(|g| g + 1);
            self.note(format!(
                "the user edits the job: ps {:?}, workers {:?}, suspend {:?}",
                job.spec.ps.as_ref().map(|r| r.replicas),
                job.spec.worker.as_ref().map(|r| r.replicas),
                job.spec.suspend
            ));
            self.put_job(Some(job));
        }
    }

    /// The user deletes the job and creates another one of the same name.
    pub fn recreate(&mut self) {
        let Some(job) = self.job.clone() else {
            return;
        };
        self.note("the user deletes the job and creates it again");
        self.put_job(None);
        self.create_job(&PaddleJob {
            status: None,
            ..job
        });
    }

    /// The garbage collector takes what belongs to nobody.
    pub fn collect_garbage(&mut self) {
        let owner = self.owner();
        for name in self.all() {
            if self.pods[&name].owner != owner {
                self.delete_pod(&name, false);
            }
        }
        if self.config_map.as_ref().is_some_and(|m| m.owner != owner) {
            self.tick();
            let map = self.config_map.take().unwrap();
            self.manager.config_maps.gone(&self.name, &map.uid);
        }
        if self.pod_group.as_ref().is_some_and(|g| g.owner != owner) {
            self.remove_pod_group();
        }
        let orphans: Vec<String> = self
            .services
            .iter()
            .filter(|(_, service)| service.owner != owner)
            .map(|(name, _)| name.clone())
            .collect();
        for name in orphans {
            self.tick();
            let gone = self.services.remove(&name).unwrap();
            self.manager.services.gone(&name, &gone.uid);
        }
    }
}
