//! What is wrong in the spec of a SampleJob, and what it asks for.

use std::collections::BTreeMap;

use api::{Operation, SampleJob, SampleSet, SyncOptions};

use super::Settings;
use crate::operation::{self, Task, gone_options, paths, source};
use crate::sampleset::{partitions, secret_name, source_uri};

/// What each partition is to do; or what is wrong. Without the set, what can be
/// judged without it.
pub(super) fn tasks(
    job: &SampleJob,
    set: Option<&SampleSet>,
    settings: &Settings,
) -> Result<BTreeMap<i32, Task>, String> {
    let spec = &job.spec;
    let set_name = spec
        .sample_set_ref
        .as_ref()
        .and_then(|set| set.name.as_deref());
    if set_name.unwrap_or_default().is_empty() {
        return Err("spec.sampleSetRef.name is missing; name the SampleSet".to_owned());
    }
    let namespace = job.metadata.namespace.as_deref();
    secret_name(namespace, "spec.secretRef", spec.secret_ref.as_ref())?;
    let all = set.map_or(1, partitions);
    let each = |task: Task| {
        (0..all)
            .map(|partition| (partition, task.clone()))
            .collect()
    };
    match spec.type_ {
        None => Err("spec.type is missing; it can be sync, warmup, clear or rmr".to_owned()),
        Some(Operation::Sync) => sync(job, set, settings).map(|task| BTreeMap::from([(0, task)])),
        Some(Operation::Warmup) => {
            let own = set.and_then(|set| set.spec.warmup.as_ref());
            let task = operation::warmup(own, spec.warmup_options.as_ref(), all)?;
            Ok((0..all)
                .map(|partition| (partition, task.of(partition, false)))
                .collect())
        }
        Some(Operation::Clear) => {
            let paths = spec
                .clear_options
                .as_ref()
                .map(|options| options.paths.as_slice());
            operation::clear(paths.unwrap_or_default()).map(each)
        }
        Some(Operation::Rmr) => {
            let paths = spec
                .rmr_options
                .as_ref()
                .map(|options| options.paths.as_slice());
            operation::rmr(paths.unwrap_or_default()).map(each)
        }
    }
}

fn sync(job: &SampleJob, set: Option<&SampleSet>, settings: &Settings) -> Result<Task, String> {
    let none = SyncOptions::default();
    let options = job.spec.sync_options.as_ref().unwrap_or(&none);
    let uri = match set {
        Some(set) => source_uri(set),
        // Any source is as good until the set is there.
        None => Some("s3://unknown/"),
    };
    let task = operation::sync(uri, options, settings.allow_local_paths)?;
    let folder = |uri: &str| source::read("", uri, true).ok()?.local_path;
    if let (Some(asked), Some(set)) = (folder(&task.source), set) {
        let mounted = source_uri(set).and_then(folder);
        if !mounted.is_some_and(|mounted| paths::lies_below(&asked, &mounted)) {
            return Err(format!(
                "syncOptions.source is {:?}, which the runtime servers do not have: of the folders of the machine they have spec.source.uri of the SampleSet and what is below it",
                task.source
            ));
        }
    }
    Ok(Task::Sync(Box::new(task)))
}

/// Whether a sync copies nothing, and only says what it would.
pub(super) fn is_dry(job: &SampleJob) -> bool {
    let options = job.spec.sync_options.as_ref();
    options.is_some_and(|options| options.dry == Some(true))
}

/// A sentence for each option that has no effect.
pub(super) fn ignored(job: &SampleJob) -> Vec<String> {
    let spec = &job.spec;
    let mut ignored = Vec::new();
    if spec.type_ == Some(Operation::Sync) {
        ignored.extend(spec.sync_options.iter().flat_map(gone_options));
    }
    let partitions = spec
        .warmup_options
        .as_ref()
        .and_then(|options| options.partitions);
    if let Some(partitions) = partitions.filter(|_| spec.type_ == Some(Operation::Warmup)) {
        ignored.push(format!(
            "warmupOptions.partitions is {partitions}, but the number of partitions is that of the SampleSet; it is ignored"
        ));
    }
    ignored
}
