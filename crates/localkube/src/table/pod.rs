//! What a pod does, in one word.

use serde_json::Value;

use super::age;
use crate::object::meta;
use crate::path::{at, text};

/// What is told of a pod's containers.
pub(super) struct Seen {
    /// How many are ready.
    ready: usize,
    /// How many there are.
    all: usize,
    /// What it does.
    pub(super) status: String,
    /// How often they were started again.
    restarts: i64,
    /// When that was last.
    restarted: String,
}

impl Seen {
    pub(super) fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.all)
    }

    pub(super) fn restarts(&self) -> String {
        match (self.restarts, self.restarted.is_empty()) {
            (0, _) | (_, true) => self.restarts.to_string(),
            (restarts, false) => format!("{restarts} ({} ago)", age(&self.restarted)),
        }
    }

    fn count(&mut self, status: &Value) {
        self.restarts += status
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let ended = text(status, "lastState.terminated.finishedAt");
        // Times in one form: the later one is the greater text.
        if ended > self.restarted.as_str() {
            self.restarted = ended.to_owned();
        }
    }
}

fn list<'v>(pod: &'v Value, path: &str) -> &'v [Value] {
    at(pod, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Whether an init container stays beside the others.
fn is_sidecar(pod: &Value, name: &str) -> bool {
    let mut containers = list(pod, "spec.initContainers").iter();
    containers.any(|one| text(one, "name") == name && text(one, "restartPolicy") == "Always")
}

fn has_condition(pod: &Value, type_: &str) -> bool {
    let mut conditions = list(pod, "status.conditions").iter();
    conditions.any(|one| text(one, "type") == type_ && text(one, "status") == "True")
}

/// How a container ended: a word, or a number.
fn ending(ended: &Value) -> String {
    let number = |field: &str| ended.get(field).and_then(Value::as_i64).unwrap_or(0);
    match (text(ended, "reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// What is seen of a pod. The rules are those of the real API server, in the
/// same order.
pub(super) fn seen(pod: &Value) -> Seen {
    let phase = text(pod, "status.phase");
    let reason = text(pod, "status.reason");
    let mut seen = Seen {
        ready: 0,
        all: list(pod, "spec.containers").len(),
        status: if reason.is_empty() { phase } else { reason }.to_owned(),
        restarts: 0,
        restarted: String::new(),
    };
    let mut conditions = list(pod, "status.conditions").iter();
    if conditions.any(|one| text(one, "reason") == "SchedulingGated") {
        seen.status = "SchedulingGated".to_owned();
    }
    let init = list(pod, "spec.initContainers");
    seen.all += init
        .iter()
        .filter(|one| text(one, "restartPolicy") == "Always")
        .count();
    let is_initializing = initializing(pod, init.len(), &mut seen);
    if !is_initializing || has_condition(pod, "Initialized") {
        running(pod, &mut seen);
    }
    if !meta(pod, "deletionTimestamp").is_empty() {
        if reason == "NodeLost" {
            seen.status = "Unknown".to_owned();
        } else if !["Succeeded", "Failed"].contains(&phase) {
            seen.status = "Terminating".to_owned();
        }
    }
    seen
}

/// Looks at what runs before the others; whether it still does.
fn initializing(pod: &Value, all: usize, seen: &mut Seen) -> bool {
    for (index, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
        seen.count(status);
        let (ended, waits) = (
            at(status, "state.terminated"),
            text(status, "state.waiting.reason"),
        );
        let code = ended.and_then(|ended| ended.get("exitCode")?.as_i64());
        if code == Some(0) {
            continue;
        }
        let is_started = status.get("started") == Some(&Value::Bool(true));
        if is_sidecar(pod, text(status, "name")) && is_started {
            seen.ready += usize::from(status.get("ready") == Some(&Value::Bool(true)));
            continue;
        }
        seen.status = match (ended, waits) {
            (Some(ended), _) => format!("Init:{}", ending(ended)),
            (None, "" | "PodInitializing") => format!("Init:{index}/{all}"),
            (None, waits) => format!("Init:{waits}"),
        };
        return true;
    }
    false
}

fn running(pod: &Value, seen: &mut Seen) {
    // Of those that ran before, only the ones that stay count.
    (seen.restarts, seen.restarted) = (0, String::new());
    for status in list(pod, "status.initContainerStatuses") {
        if is_sidecar(pod, text(status, "name")) {
            seen.count(status);
        }
    }
    let mut is_running = false;
    for status in list(pod, "status.containerStatuses").iter().rev() {
        seen.count(status);
        let is_ready = status.get("ready") == Some(&Value::Bool(true));
        let waits = text(status, "state.waiting.reason");
        if !waits.is_empty() {
            seen.status = waits.to_owned();
        } else if let Some(ended) = at(status, "state.terminated") {
            seen.status = ending(ended);
        } else if is_ready && at(status, "state.running").is_some() {
            is_running = true;
            seen.ready += 1;
        }
    }
    if seen.status == "Completed" && is_running {
        let word = if has_condition(pod, "Ready") {
            "Running"
        } else {
            "NotReady"
        };
        seen.status = word.to_owned();
    }
}

/// How many of the conditions that a pod waits for are true.
pub(super) fn gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    let open = gates
        .iter()
        .filter(|gate| has_condition(pod, text(gate, "conditionType")));
    match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{}/{all}", open.count()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Ready, status and restarts, as the real API server prints the same pods.
    #[test]
    fn a_word_says_what_a_pod_does() {
        let time = "2026-01-01T00:00:00Z";
        let on = json!({"running": {"startedAt": time}});
        let waits = |reason: &str| json!({"waiting": {"reason": reason}});
        let ended =
            |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        let one = |state: &Value| json!({"name": "c", "state": state});
        let ready = json!({"name": "c", "ready": true, "state": on});
        let init = json!({"name": "i", "state": on});
        let init_done = json!({"name": "i", "restartCount": 2, "state": ended(0, "Completed")});
        for (status, wanted) in [
            (json!({"phase": "Pending"}), "0/1 Pending 0"),
            (
                json!({"containerStatuses": [one(&waits("ContainerCreating"))]}),
                "0/1 ContainerCreating 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [ready]}),
                "1/1 Running 0",
            ),
            (
                json!({"containerStatuses": [one(&waits("ErrImagePull"))]}),
                "0/1 ErrImagePull 0",
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": [one(&ended(0, "Completed"))]}),
                "0/1 Completed 0",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [one(&ended(1, "Error"))]}),
                "0/1 Error 0",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [one(&ended(7, ""))]}),
                "0/1 ExitCode:7 0",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "0/1 Evicted 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [ready, one(&ended(0, "Completed"))]}),
                "1/1 NotReady 0",
            ),
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [ready, one(&ended(0, "Completed"))]}),
                "1/1 Running 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [init],
                "containerStatuses": [one(&waits("PodInitializing"))]}),
                "0/1 Init:0/1 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [init_done],
                "containerStatuses": [one(&waits("PodInitializing"))]}),
                "0/1 PodInitializing 0",
            ),
            (
                json!({"phase": "Failed", "initContainerStatuses": [one(&ended(3, "Error"))]}),
                "0/1 Init:Error 0",
            ),
            (
                json!({"initContainerStatuses": [one(&waits("CrashLoopBackOff"))]}),
                "0/1 Init:CrashLoopBackOff 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                {"name": "c", "restartCount": 3, "state": waits("CrashLoopBackOff")}]}),
                "0/1 CrashLoopBackOff 3",
            ),
        ] {
            let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]});
            let seen = seen(&json!({"metadata": {}, "spec": spec, "status": status}));
            let told = format!("{} {} {}", seen.ready(), seen.status, seen.restarts());
            assert_eq!(told, wanted, "{status}");
        }
    }

    #[test]
    fn a_pod_that_goes_says_so() {
        let pod = |phase: &str, reason: &str| {
            let pod = json!({
                "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": phase, "reason": reason},
            });
            seen(&pod).status
        };
        assert_eq!(pod("Running", ""), "Terminating");
        assert_eq!(pod("Succeeded", ""), "Succeeded");
        assert_eq!(pod("Running", "NodeLost"), "Unknown");
    }
}
