//! What goes wrong between the operator and its servers: silence, requests that are
//! lost, and operations that take their time to end.

use plan::operation::{Cancel, Post, State};

use super::*;

/// So many steps after it was cancelled an operation ends.
const ENDING: u8 = 2;

fn is_alive(state: &State) -> bool {
    matches!(
        state,
        State::Queued | State::NeedsCredentials | State::Running(_)
    )
}

impl Stage {
    /// The server of a partition does not answer, and hears nothing.
    pub fn silence(mut self, partition: i32) -> Stage {
        self.servers.get_mut(&partition).unwrap().is_silent = true;
        self
    }

    /// Every server answers again.
    pub fn hear(mut self) -> Stage {
        for server in self.servers.values_mut() {
            server.is_silent = false;
        }
        self
    }

    /// Whether something is under way on the server of a partition.
    pub fn is_busy(&self, partition: i32) -> bool {
        let server = self.servers.get(&partition);
        server.is_some_and(|server| server.operations.values().any(is_alive))
    }

    pub fn post(&mut self, posts: Vec<Post>) {
        for post in posts {
            let says = self.answers.get(&post.task.operation()).cloned();
            let server = self.servers.get_mut(&post.partition);
            let server = server.expect("posted to no server");
            if self.lost_posts > 0 {
                self.lost_posts -= 1;
            } else if !server.is_silent {
                let state = says.unwrap_or_else(succeeded);
                server.operations.insert(post.id.clone(), state);
                self.posts.push(post);
            }
        }
    }

    pub fn cancel(&mut self, cancels: Vec<Cancel>) {
        for Cancel { partition, id } in cancels {
            // It may go in the same pass.
            let Some(server) = self.servers.get_mut(&partition) else {
                continue;
            };
            match server.operations.get(&id) {
                _ if server.is_silent => {}
                Some(state) if is_alive(state) => {
                    server.ending.entry(id).or_insert(ENDING);
                }
                // Whoever cancels what has ended makes the server forget it.
                _ => drop(server.operations.remove(&id)),
            }
        }
    }

    /// Time goes by on the servers; whether anything ended. What they know goes with
    /// their pods.
    pub(super) fn work(&mut self) -> bool {
        let pods = &self.seen.pods;
        let has_pod = |partition: &i32| pods.iter().any(|pod| pod.partition == *partition);
        self.servers.retain(|partition, _| has_pod(partition));
        let mut changed = false;
        for server in self.servers.values_mut() {
            let operations = &mut server.operations;
            server.ending.retain(|id, left| {
                changed = true;
                *left -= 1;
                if let Some(state) = operations.get_mut(id).filter(|_| *left == 0)
                    && is_alive(state)
                {
                    *state = State::Cancelled;
                }
                *left > 0
            });
        }
        changed
    }

    /// One operation at a time: nothing is under way but what has the lock. A set that
    /// goes has its servers drop what they hold besides.
    pub(super) fn assert_locked(&self) {
        let Some(set) = &self.set else { return };
        let lock = set.status.as_ref();
        let lock = lock.and_then(|status| status.operation.as_ref());
        for (partition, server) in &self.servers {
            let alive = server.operations.iter();
            let alive = alive.filter(|(_, state)| is_alive(state));
            for (id, _) in alive {
                let steps = ["-evict", "-recount", "-again"];
                let id = steps
                    .iter()
                    .fold(id.as_str(), |id, step| id.trim_end_matches(step));
                let clears = set.metadata.deletion_timestamp.is_some() && id.ends_with("-delete");
                assert!(
                    clears || lock.is_some_and(|lock| lock.id == id),
                    "{id} is under way on {partition}, but the lock is {lock:?}"
                );
            }
        }
    }
}
