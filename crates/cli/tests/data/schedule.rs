//! A schedule, by the clock of the machine.

use api::{SampleJob, SampleJobPhase};
use kube::api::ListParams;
use serde_json::json;

use crate::bed::{Bed, fill, until};

#[tokio::test]
async fn a_schedule_makes_a_job_every_minute() {
    let bed = Bed::start(1, |bucket| fill(&bucket.join("files"), 10, 1000)).await;
    bed.create_ready_set("data", "files", 1).await;
    let spec = json!({
        "type": "clear",
        "sampleSetRef": {"name": "data"},
        "schedule": "* * * * *",
    });
    bed.create_job("often", spec).await;
    bed.job_is("often", SampleJobPhase::Scheduled).await;
    let jobs = bed.api::<SampleJob>();
    let mut times = Vec::new();
    // Each takes up to a minute.
    for wanted in 1..=3 {
        until(&format!("{wanted} runs"), async || {
            let all = jobs.list(&ListParams::default()).await.unwrap();
            let runs = all.into_iter().filter(|job| {
                let phase = job.status.as_ref().and_then(|status| status.phase);
                let owner = job.metadata.owner_references.as_ref();
                owner.is_some_and(|owners| owners[0].name == "often")
                    && phase == Some(SampleJobPhase::Succeeded)
            });
            times = runs
                .map(|job| job.metadata.creation_timestamp.unwrap().0.as_second())
                .collect();
            times.len() == wanted
        })
        .await;
    }
    times.sort_unstable();
    let minutes: Vec<i64> = times.iter().map(|time| time / 60).collect();
    let first = minutes[0];
    assert_eq!(minutes, [first, first + 1, first + 2], "one each minute");
    for time in times {
        assert!(time % 60 < 5, "{time} is not at the minute");
    }
    let status = bed.job_is("often", SampleJobPhase::Scheduled).await;
    let cron = status.cron_job_status.unwrap();
    assert!(cron.last_schedule_time.is_some() && cron.next_schedule_time.is_some());
    bed.end().await;
}
