//! Which jobs a set waits for before it goes.

use api::{Phase, SampleSetPhase};
use plan::paddlejob::{Seen, uses_data};

use crate::data::{data, trains};
use crate::support::*;

/// The job after a pass that saw this.
fn after(job: Job, seen: &Seen) -> Job {
    let status = job.plan(seen).status;
    job.status(|old| *old = status)
}

fn going() -> Seen {
    let mut seen = data(SampleSetPhase::Ready, 100);
    seen.sample_set.as_mut().unwrap().is_going = true;
    seen
}

#[test]
fn a_job_that_waits_for_the_set_does_not_use_it() {
    for seen in [nothing(), data(SampleSetPhase::Syncing, 0), going()] {
        let job = after(trains(|_| ()), &seen);
        assert!(!uses_data(&job, "imagenet"), "{:?}", job.status);
    }
}

#[test]
fn a_job_that_has_begun_uses_it_until_it_has_ended() {
    let job = trains(|_| ());
    assert!(uses_data(&job, "imagenet"), "its pods may be on their way");
    let job = after(job, &data(SampleSetPhase::Ready, 100));
    assert!(uses_data(&job, "imagenet"));
    let job = trains(|_| ()).running();
    assert!(uses_data(&job, "imagenet"));
    assert!(!uses_data(&job, "another"));
    for phase in [Phase::Completed, Phase::Failed] {
        let job = trains(|_| ()).ended(phase, now());
        assert!(!uses_data(&job, "imagenet"));
    }
}

#[test]
fn a_suspended_job_does_not_use_it() {
    let started = after(trains(|_| ()), &data(SampleSetPhase::Ready, 100));
    for job in [trains(|_| ()), started, trains(|_| ()).running()] {
        let job = after(job.suspend(true), &data(SampleSetPhase::Ready, 100));
        assert_eq!(job.0.status.as_ref().unwrap().phase, Some(Phase::Suspended));
        assert!(!uses_data(&job, "imagenet"));
    }
}

#[test]
fn a_job_between_two_attempts_uses_it_unless_it_has_to_wait() {
    let job = after(trains(|_| ()), &data(SampleSetPhase::Ready, 100));
    let job = job.phase(Phase::Restarting).attempt(1);
    assert!(uses_data(&job, "imagenet"));
    let job = after(job, &going());
    assert!(!uses_data(&job, "imagenet"), "{:?}", job.status);
}
