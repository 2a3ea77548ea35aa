//! Fifty jobs that start, fail, restart and finish, and how each must end.

use api::{PaddleJob, Phase};
use serde_json::{Value, json};

/// How many.
pub const JOBS: usize = 50;

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// Its workers succeed.
    Completes,
    /// Its workers fail, and it may not restart.
    Fails,
    /// Its workers fail in every attempt.
    FailsAgain,
    /// Worker 0 fails in the first attempt; in the second all succeed.
    Recovers,
    /// Worker 0 is deleted by somebody; then all succeed.
    Bereft,
}

/// How its pods are spread over roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Single,
    Collective,
    Ps,
}

/// One of the jobs.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub story: Story,
    pub shape: Shape,
    policy: Option<&'static str>,
    service: bool,
    /// What its containers end with when they fail; another one for each job,
    /// so that no message can be another job's.
    pub exit_code: usize,
    run_for: usize,
}

const STORIES: [Story; 5] = [
    Story::Completes,
    Story::Fails,
    Story::FailsAgain,
    Story::Recovers,
    Story::Bereft,
];
const SHAPES: [Shape; 3] = [Shape::Single, Shape::Collective, Shape::Ps];
const POLICIES: [Option<&str>; 5] = [
    None,
    Some("Always"),
    Some("Never"),
    Some("OnFailure"),
    Some("OnCompletion"),
];

/// How often a job that always fails is started again.
const AGAIN: i32 = 2;

/// Every story with every policy twice, each time in another shape.
pub fn mix() -> Vec<Case> {
    let stories = STORIES.into_iter().cycle().zip(SHAPES.into_iter().cycle());
    let policies = POLICIES
        .into_iter()
        .flat_map(|policy| std::iter::repeat_n(policy, STORIES.len()))
        .cycle();
    let cases = stories.zip(policies).take(JOBS).enumerate();
    cases
        .map(|(i, ((story, shape), policy))| Case {
            name: format!("job-{i}"),
            story,
            shape,
            policy,
            service: i % 4 == 3,
            exit_code: 100 + i,
            run_for: 500 + i % 4 * 500,
        })
        .collect()
}

impl Case {
    /// The job as it is created.
    pub fn job(&self) -> serde_json::Result<PaddleJob> {
        let (ps, workers) = match self.shape {
            Shape::Single => (0, 1),
            Shape::Collective => (0, 3),
            Shape::Ps => (1, 2),
        };
        let backoff_limit = match self.story {
            Story::FailsAgain => Some(AGAIN),
            Story::Recovers => Some(AGAIN + 1),
            _ => None,
        };
        serde_json::from_value(json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": self.name},
            "spec": {
                "cleanPodPolicy": self.policy,
                "intranet": self.service.then_some("Service"),
                "backoffLimit": backoff_limit,
                "ps": (ps > 0).then(|| role(ps, json!({}))),
                "worker": role(workers, self.worker_annotations()),
            },
        }))
    }

    /// What kwok is told of the workers from their birth; of those of the other
    /// stories the test tells it when they run.
    fn worker_annotations(&self) -> Value {
        let run_for = format!("{}ms", self.run_for);
        match self.story {
            Story::Completes => annotations(&run_for, 0),
            Story::Fails | Story::FailsAgain => annotations(&run_for, self.exit_code),
            Story::Recovers | Story::Bereft => json!({}),
        }
    }

    pub fn ends_in(&self) -> Phase {
        match self.story {
            Story::Completes | Story::Recovers | Story::Bereft => Phase::Completed,
            Story::Fails | Story::FailsAgain => Phase::Failed,
        }
    }

    /// The restarts that count: somebody deleting a pod does not.
    pub fn restarts(&self) -> i32 {
        match self.story {
            Story::Completes | Story::Fails | Story::Bereft => 0,
            Story::Recovers => 1,
            Story::FailsAgain => AGAIN,
        }
    }

    /// What the condition Failed gives as reason.
    pub fn failed_reason(&self) -> &'static str {
        match self.story {
            Story::FailsAgain => "BackoffLimitExceeded",
            _ => "PodFailed",
        }
    }

    /// Whether the pods stay when the job has ended.
    pub fn keeps_pods(&self) -> bool {
        match self.policy {
            None | Some("OnCompletion") => self.ends_in() == Phase::Failed,
            Some("OnFailure") => self.ends_in() == Phase::Completed,
            Some("Always") => false,
            Some(_) => true,
        }
    }
}

/// The annotations that make kwok end a pod.
pub fn annotations(run_for: &str, exit_code: usize) -> Value {
    json!({
        "kwok.paddlepaddle.org/run-for": run_for,
        "kwok.paddlepaddle.org/exit-code": exit_code.to_string(),
    })
}

fn role(replicas: i32, annotations: Value) -> Value {
    json!({
        "replicas": replicas,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "paddle", "image": "paddle:test"}]},
        },
    })
}
