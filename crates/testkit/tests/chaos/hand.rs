//! The hand of the test: it ends or takes away pods whose story depends on the
//! attempt, which a template can't express.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::{Follower, History, Life, Shared};
use super::jobs::{Case, Story, annotations};

/// How long a pod runs on once its end is decided.
const RUN_FOR: &str = "300ms";

/// Acts for as long as it lives.
#[derive(Debug)]
pub struct Hand {
    _task: JoinSet<()>,
}

/// What is done to a pod, once.
#[derive(Debug)]
enum Act {
    /// kwok ends it with this exit code.
    End(usize),
    /// It is deleted, as somebody with kubectl would.
    Take,
}

impl Hand {
    /// Begins to act on what the follower sees.
    pub fn start(client: &Client, namespace: &str, cases: &[Case], follower: &Follower) -> Hand {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let (cases, shared) = (cases.to_vec(), follower.share());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut done = BTreeSet::new();
            loop {
                for (uid, name, act) in due(&cases, &shared, &done) {
                    if let Err(error) = carry_out(&api, &uid, &name, &act).await {
                        let mut history = shared.lock();
                        history.broken.push(format!("{act:?} {name}: {error}"));
                    }
                    done.insert(uid);
                }
                // What it looks at is in memory.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Hand { _task: task }
    }
}

fn due(cases: &[Case], shared: &Shared, done: &BTreeSet<String>) -> Vec<(String, String, Act)> {
    let mut history = shared.lock();
    let running = history.pods.iter().filter(|(uid, pod)| {
        pod.phase == "Running" && pod.role == "worker" && !pod.is_gone && !done.contains(*uid)
    });
    let due: Vec<_> = running
        .filter_map(|(uid, pod)| {
            let case = cases.iter().find(|case| case.name == pod.job)?;
            let act = act(case, pod, &history)?;
            Some((uid.clone(), pod.name.clone(), act))
        })
        .collect();
    let taken = due.iter().filter(|(_, _, act)| matches!(act, Act::Take));
    let taken: Vec<String> = taken.map(|(_, name, _)| name.clone()).collect();
    history.taken.extend(taken);
    due
}

fn act(case: &Case, pod: &Life, history: &History) -> Option<Act> {
    let first = format!("{}-worker-0", case.name);
    match case.story {
        Story::Completes | Story::Fails | Story::FailsAgain => None,
        Story::Recovers if pod.attempt > 0 => Some(Act::End(0)),
        Story::Recovers => (pod.name == first).then_some(Act::End(case.exit_code)),
        Story::Bereft => {
            let is_over = history.pods.values().any(|p| p.name == first && p.is_gone);
            match is_over {
                true => Some(Act::End(0)),
                false => (pod.name == first).then_some(Act::Take),
            }
        }
    }
}

async fn carry_out(api: &Api<Pod>, uid: &str, name: &str, act: &Act) -> kube::Result<()> {
    let done = match act {
        Act::End(code) => {
            let patch: Value =
                json!({"metadata": {"uid": uid, "annotations": annotations(RUN_FOR, *code)}});
            let patch = Patch::Merge(patch);
            api.patch(name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        }
        Act::Take => {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.to_owned()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            api.delete(name, &params).await.map(drop)
        }
    };
    match done {
        // The manager was faster, or a successor has the name: to a deletion the
        // API server then says 409, to a patch with another uid 422.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
        other => other,
    }
}
