//! How a story ends: everybody does what he can until nothing moves.

use api::Role;

use super::World;
use super::manager::summary;
use crate::support::fixtures::seconds;

impl World {
    /// Everybody does what he can until nothing moves any more. Programs do
    /// not end by themselves.
    pub fn settle(&mut self) {
        self.note("-- settling");
        // Every round but the last changes something; a job that needs more
        // of them than this goes in circles.
        for _ in 0..400 {
            let before = self.revision;
            self.deliver_all();
            let plan = self.pass();
            self.deliver_all();
            self.move_all();
            if self.revision != before || self.end_back_off() {
                continue;
            }
            let Some(plan) = plan else {
                if self.job.is_some() {
                    self.fault("the manager waits for ever for its own write");
                }
                return;
            };
            if !plan.is_idle() {
                self.fault(format!(
                    "a settled job is not left alone: {}",
                    summary(&plan)
                ));
            }
            if plan.status != self.status() {
                self.fault("the status of a settled job changes");
            }
            // Time is all that is missing: a dead node gets a minute, and a job
            // that was started again and again rests for five.
            match plan.wake_at {
                Some(at) if at > self.now && at <= self.now + seconds(300) => self.now = at,
                _ => return,
            }
        }
        self.fault("the job does not settle");
    }

    /// The caches catch up, a pass is made, and all that can move moves once.
    pub fn round(&mut self) {
        self.deliver_all();
        self.pass();
        self.move_all();
    }

    /// Kubelets try again what they could not start before; whether that helps.
    fn end_back_off(&mut self) -> bool {
        let lazy = std::mem::replace(&mut self.habits.lazy_kubelet, false);
        let slow = self.startable();
        self.habits.lazy_kubelet = lazy;
        self.slow_starts += slow.len();
        for name in &slow {
            self.note(format!("the kubelet of {name} tries again"));
            self.start(name);
        }
        !slow.is_empty()
    }

    /// The scheduler, the kubelets and the garbage collector do all they can.
    fn move_all(&mut self) {
        self.collect_garbage();
        // A dead node that keeps the name of a former job's pod comes back in
        // the end: what is not ours is not ours to delete.
        let owner = self.owner();
        let foreign = self.pods.values().filter(|pod| pod.owner != owner);
        let nodes: Vec<String> = foreign.filter_map(|pod| pod.node.clone()).collect();
        self.dead_nodes.retain(|node| !nodes.contains(node));
        self.admit();
        for name in self.unscheduled() {
            self.schedule(&name);
        }
        for name in self.without_address() {
            self.give_address(&name);
        }
        for name in self.patient() {
            self.end_wait(&name);
        }
        for name in self.startable() {
            self.start(&name);
        }
        self.give_up_waiting();
        for name in self.unready() {
            self.make_ready(&name);
        }
        for name in self.stopping() {
            self.stop(&name);
        }
        for name in self.terminating() {
            self.remove(&name);
        }
    }

    /// One thing moves in the cluster, if anything can.
    pub fn move_one(&mut self) {
        self.admit();
        type Move = (fn(&World) -> Vec<String>, fn(&mut World, &str));
        let moves: [Move; 5] = [
            (World::unscheduled, World::schedule),
            (World::without_address, World::give_address),
            (World::patient, World::end_wait),
            (World::startable, World::start),
            (World::unready, World::make_ready),
        ];
        for (which, act) in moves {
            if let Some(name) = which(self).first() {
                return act(self, name);
            }
        }
    }

    /// As `settle`, and whatever trains ends well; parameter servers never end.
    pub fn finish(&mut self) {
        self.settle();
        let workers: Vec<String> = self
            .training()
            .into_iter()
            .filter(|name| self.pods[name].role != Role::Ps)
            .collect();
        for name in workers {
            self.exit(&name, 0);
        }
        self.settle();
    }
}
