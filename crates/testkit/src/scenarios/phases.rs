//! The phases of a job, and what its status says.

use anyhow::Result;
use api::Phase;

use super::same;
use crate::builders::job;
use crate::{Env, Stage};

/// Pending → Starting → Running → Completed, each as soon as it is true.
pub(super) async fn in_order(env: &Env) -> Result<()> {
    let job = env.create(job("a").workers(2)).await?;
    job.reaches(Phase::Pending).await?;
    env.kubelet.run_up_to(Stage::Scheduled);
    job.reaches(Phase::Starting).await?;
    env.kubelet.run_all();
    job.reaches(Phase::Running).await?;
    for pod in job.pods() {
        env.kubelet.exit(pod, 0, "").await?;
    }
    job.reaches(Phase::Completed).await?;
    let phases = env.look(|world| world.phases("a"));
    let wanted = [
        Phase::Pending,
        Phase::Starting,
        Phase::Running,
        Phase::Completed,
    ];
    same("phases", phases.as_slice(), &wanted)
}
