//! Does the jobs, one after another.

use cache_api::{Failure, JobState, Task};

use crate::jobs::{Jobs, Turn};
use crate::metrics::Metrics;
use crate::tasks::{Context, sweep};

/// Works for ever. What an earlier life was in the middle of is cleaned up first.
pub(crate) async fn work(jobs: Jobs, context: Context, metrics: Metrics, interrupted: Vec<Task>) {
    for task in interrupted {
        clean_up(&context, &task).await;
    }
    loop {
        let turn = jobs.next().await;
        let name = turn.task.name();
        tracing::info!(job = turn.id, "{name} begins");
        let state = run(&jobs, &context, &turn).await;
        let is_cancelled = state == JobState::Cancelled;
        match &state {
            JobState::Failed(failure) => {
                tracing::warn!(
                    job = turn.id,
                    reason = failure.reason,
                    "{name}: {}",
                    failure.message
                );
            }
            _ => tracing::info!(job = turn.id, "{name} has ended"),
        }
        metrics.count(name, &state);
        jobs.end(&turn.id, state);
        if is_cancelled {
            clean_up(&context, &turn.task).await;
        }
        // The figures tell of themselves: nobody waits for this before he goes on.
        context.count().await;
    }
}

async fn run(jobs: &Jobs, context: &Context, turn: &Turn) -> JobState {
    let tell = |progress| jobs.progress(&turn.id, progress);
    let result = tokio::select! {
        result = context.run(turn, tell) => result,
        () = turn.cancelled() => return JobState::Cancelled,
    };
    match result {
        Ok(outcome) => JobState::Succeeded(outcome),
        Err(error) => JobState::Failed(Failure {
            reason: error.reason.to_owned(),
            message: error.message,
        }),
    }
}

async fn clean_up(context: &Context, task: &Task) {
    match task {
        Task::Sync(order) => {
            let (root, destination) = (context.root().to_owned(), order.destination.clone());
            let sweeping = tokio::task::spawn_blocking(move || sweep(&root, &destination));
            // It fails only when this process ends.
            let _ = sweeping.await;
        }
        Task::Rmr(_) => context.recount().await,
        Task::Warmup(_) | Task::Clear(_) | Task::Recount => {}
    }
}
