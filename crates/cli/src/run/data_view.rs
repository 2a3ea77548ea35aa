//! What is said of data: of SampleSets and SampleJobs. Pure: an object goes in, words come
//! out.

use std::time::Duration;

use api::{
    Condition, ConditionStatus, SampleJob, SampleJobPhase, SampleSet, SampleSetPhase,
    SampleSetStatus,
};
use indicatif::{HumanBytes, HumanCount};
use juicefs::Reads;

use super::view::{Outcome, Shown, duration};

/// So much is news for who reads line after line, in percent.
const STEP: u64 = 25;
/// What a set waits for is told by the first of these that does not hold.
const STEPS: [&str; 5] = ["Accepted", "Bound", "RuntimeReady", "Synced", "Warm"];

/// How far a SampleSet or a SampleJob is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataState {
    phase: String,
    /// What it does, waits for, or failed at; or what has come of it.
    words: String,
    percent: Option<u64>,
    pub(crate) outcome: Option<Outcome>,
}

impl DataState {
    pub(crate) fn of_set(set: &SampleSet) -> DataState {
        let Some(status) = &set.status else {
            return DataState::default();
        };
        let refused = holds_not(&status.conditions, "Accepted").is_some();
        let outcome = match status.phase {
            _ if refused => Some(Outcome::Failed),
            Some(SampleSetPhase::Ready) => Some(Outcome::Completed),
            Some(SampleSetPhase::SyncFailed) => Some(Outcome::Failed),
            _ => None,
        };
        let words = match outcome {
            Some(Outcome::Completed) => amounts(status),
            _ => { STEPS.iter() }
                .find_map(|step| holds_not(&status.conditions, step))
                .unwrap_or_default()
                .to_owned(),
        };
        let phase = match status.phase {
            _ if refused => "refused".to_owned(),
            Some(phase) => phase.to_string(),
            None => "not bound".to_owned(),
        };
        let (words, percent) = split(&words);
        DataState {
            phase,
            words,
            percent,
            outcome,
        }
    }

    pub(crate) fn of_job(job: &SampleJob) -> DataState {
        let Some(status) = &job.status else {
            return DataState::default();
        };
        let Some(phase) = status.phase else {
            return DataState::default();
        };
        let outcome = match phase {
            // It runs nothing itself.
            SampleJobPhase::Succeeded | SampleJobPhase::Scheduled => Some(Outcome::Completed),
            SampleJobPhase::Failed => Some(Outcome::Failed),
            _ => None,
        };
        let percent = status.progress.as_ref().and_then(|done| done.percent);
        let percent = percent.and_then(|percent| u64::try_from(percent).ok());
        DataState {
            phase: phase.to_string(),
            words: status.message.clone().unwrap_or_default(),
            percent: percent.filter(|_| outcome.is_none()),
            outcome,
        }
    }

    pub(crate) fn shown(&self) -> Shown {
        if self.phase.is_empty() {
            return Shown {
                text: "waits for its controller".to_owned(),
                ..Shown::default()
            };
        }
        let text = match self.words.lines().next() {
            // The verdict says it in full.
            Some(words) if self.outcome != Some(Outcome::Failed) => {
                format!("{}: {words}", self.phase)
            }
            _ => self.phase.clone(),
        };
        let step = self.percent.map(|percent| percent / STEP);
        let news = match self.outcome {
            // How much is cached goes up and down.
            Some(_) => self.phase.clone(),
            None => format!("{text} {step:?}"),
        };
        Shown {
            news,
            text,
            percent: self.percent,
        }
    }

    /// What is said of it at its end.
    pub(crate) fn verdict(&self, outcome: Outcome, took: Duration) -> String {
        let (phase, took) = (&self.phase, duration(took));
        match outcome {
            Outcome::Deleted => format!("was deleted after {took}"),
            _ if self.words.is_empty() => format!("{phase} after {took}"),
            Outcome::Completed => format!("{phase} after {took} ({})", self.words),
            _ => format!("{phase} after {took}: {}", self.words),
        }
    }
}

fn holds_not<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a str> {
    let mut conditions = conditions.iter();
    let told = conditions.find(|told| told.type_ == type_)?;
    (told.status == ConditionStatus::False).then_some(&told.message)
}

/// `2,048 files, 100% cached`.
fn amounts(status: &SampleSetStatus) -> String {
    let cache = status.cache_status.clone().unwrap_or_default();
    let files = cache.total_files.map(|files| format!("{files} files"));
    let cached = cache
        .cached_percent
        .map(|cached| format!("{cached}% cached"));
    files
        .into_iter()
        .chain(cached)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Takes `copying from the source, 42% done` apart.
fn split(words: &str) -> (String, Option<u64>) {
    let found = words.strip_suffix("% done").and_then(|words| {
        let (words, percent) = words.rsplit_once(", ")?;
        Some((words.to_owned(), Some(percent.parse().ok()?)))
    });
    found.unwrap_or_else(|| (words.to_owned(), None))
}

/// What a cache was good for.
pub(crate) fn gain(before: Reads, after: Reads) -> String {
    let hits = after.hits.saturating_sub(before.hits);
    let all = hits + after.misses.saturating_sub(before.misses);
    let hit_bytes = after.hit_bytes.saturating_sub(before.hit_bytes);
    let bytes = hit_bytes + after.miss_bytes.saturating_sub(before.miss_bytes);
    if all == 0 {
        return "nothing was read from it".to_owned();
    }
    // Not 100 % when it is less.
    let percent = hits * 100 / all;
    format!(
        "{percent}% of what the workers read came from the cache: {} of {} blocks, {} of {}",
        HumanCount(hits),
        HumanCount(all),
        HumanBytes(hit_bytes),
        HumanBytes(bytes)
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(status: Value) -> DataState {
        let set = json!({"apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleSet",
            "metadata": {"name": "a"}, "spec": {"partitions": 1}, "status": status});
        DataState::of_set(&serde_json::from_value(set).unwrap())
    }

    fn condition(type_: &str, status: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn syncing(percent: u64) -> DataState {
        let words = format!("copying from the source, {percent}% done");
        set(json!({"phase": "Syncing", "conditions": [
            condition("Warm", "False", "nothing is cached before the data was copied"),
            condition("Synced", "False", &words),
            condition("RuntimeReady", "True", "1 of 1 runtime servers are ready"),
        ]}))
    }

    #[test]
    fn a_set_that_syncs_tells_how_far_it_is() {
        let shown = syncing(42).shown();
        assert_eq!(shown.text, "Syncing: copying from the source");
        assert_eq!(shown.percent, Some(42));
        assert_eq!(shown.plain(), "Syncing: copying from the source, 42%");
        assert_eq!(shown.news, syncing(49).shown().news, "few lines");
        assert_ne!(shown.news, syncing(50).shown().news);
        assert_eq!(syncing(42).outcome, None);
    }

    #[test]
    fn trouble_is_told_and_ends_it_only_when_nothing_comes_of_it() {
        let waits = set(json!({"conditions": [
            condition("Bound", "False", "there is no Secret imagenet"),
        ]}));
        assert_eq!(waits.shown().text, "not bound: there is no Secret imagenet");
        assert_eq!(waits.outcome, None);
        let failed = set(json!({"phase": "SyncFailed", "conditions": [
            condition("Synced", "False", "no file found"),
        ]}));
        assert_eq!(failed.outcome, Some(Outcome::Failed));
        assert_eq!(failed.shown().text, "SyncFailed");
        assert_eq!(
            failed.verdict(Outcome::Failed, Duration::from_secs(3)),
            "SyncFailed after 3.0 s: no file found"
        );
        let refused = set(json!({"conditions": [condition("Accepted", "False", "no uri")]}));
        assert_eq!(
            refused.verdict(Outcome::Failed, Duration::from_secs(1)),
            "refused after 1.0 s: no uri"
        );
    }

    #[test]
    fn a_set_that_is_ready_tells_how_much_it_has() {
        let ready = set(json!({
            "phase": "Ready",
            "cacheStatus": {"totalFiles": "2,048", "cachedPercent": 100},
            "conditions": [condition("Warm", "False", "spec.warmup.enabled is false")],
        }));
        assert_eq!(ready.outcome, Some(Outcome::Completed));
        assert_eq!(
            ready.verdict(Outcome::Completed, Duration::from_secs(4)),
            "Ready after 4.0 s (2,048 files, 100% cached)"
        );
    }

    #[test]
    fn what_a_cache_gained() {
        let before = Reads {
            misses: 2048,
            miss_bytes: 1 << 20,
            ..Reads::default()
        };
        assert_eq!(gain(before, before), "nothing was read from it");
        let after = Reads {
            hits: 1999,
            hit_bytes: 1 << 20,
            misses: 2049,
            miss_bytes: (1 << 20) + 1024,
        };
        assert_eq!(
            gain(before, after),
            "99% of what the workers read came from the cache: 1,999 of 2,000 blocks, \
             1.00 MiB of 1.00 MiB"
        );
    }
}
