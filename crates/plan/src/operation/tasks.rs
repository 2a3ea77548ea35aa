//! From options to tasks, with every default filled in.

use api::{SampleOrder, Sampler, SyncOptions, Warmup, WarmupOptions, WarmupStrategy};

use super::paths::{all_relative, lies_below, relative};
use super::{SyncTask, Task, WarmupTask, source};

/// JuiceFS counts them by 16 bits, and with none would never end.
const MAX_THREADS: i64 = 65_535;

/// A copy from `uri`, or from the options' own source; or what is wrong.
pub fn sync(
    uri: Option<&str>,
    options: &SyncOptions,
    allow_local_paths: bool,
) -> Result<SyncTask, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (field, uri) = match (given(&options.source), uri) {
        (Some(own), _) => ("syncOptions.source", own),
        (None, Some(uri)) => ("spec.source.uri", uri.to_owned()),
        (None, None) => {
            return Err("there is nothing to copy from: set syncOptions.source, or spec.source.uri of the SampleSet".to_owned());
        }
    };
    for (name, value) in [("manager", &options.manager), ("worker", &options.worker)] {
        if given(value).is_some() {
            return Err(format!(
                "syncOptions.{name} is not supported: a sync runs in the runtime server of partition 0; remove the field"
            ));
        }
    }
    if let Some(threads) = options.threads.filter(|threads| *threads < 1) {
        return Err(format!(
            "syncOptions.threads is {threads}; it must be 1 or more"
        ));
    }
    let source = source::read(field, &uri, allow_local_paths)?;
    let destination = match given(&options.destination) {
        // The root may be written in many ways, and copying into it is fine.
        Some(folder) if folder.split('/').any(|part| !["", "."].contains(&part)) => {
            let folder = relative(folder.trim_start_matches('/'))
                .map_err(|why| format!("syncOptions.destination {why}"))?;
            format!("{folder}/")
        }
        _ => String::new(),
    };
    Ok(SyncTask {
        source: source.uri,
        destination,
        options: SyncOptions {
            source: None,
            destination: None,
            manager: None,
            worker: None,
            http_port: None,
            ..options.clone()
        },
    })
}

/// A sentence for each option that JuiceFS no longer has.
pub(crate) fn gone_options(options: &SyncOptions) -> Vec<String> {
    let http_port = options.http_port.map(|port| {
        format!(
            "syncOptions.http-port is {port}, but JuiceFS no longer has this option; it is ignored"
        )
    });
    http_port.into_iter().collect()
}

/// The caching of `partitions` partitions; or what is wrong. The partition and
/// `evict_others` are filled in by whoever posts it.
pub fn warmup(
    set: Option<&Warmup>,
    options: Option<&WarmupOptions>,
    partitions: i32,
) -> Result<WarmupTask, String> {
    let (none, unset) = (Warmup::default(), WarmupOptions::default());
    let (set, options) = (set.unwrap_or(&none), options.unwrap_or(&unset));
    let samplers = [options.sampler.as_ref(), set.sampler.as_ref()];
    let number = |pick: fn(&Sampler) -> Option<i32>, default: i32| {
        samplers
            .into_iter()
            .flatten()
            .find_map(pick)
            .unwrap_or(default)
    };
    let own = |own: &Option<String>| own.clone().filter(|text| !text.is_empty());
    let file = own(&options.file).or_else(|| own(&set.file));
    let file = file
        .map(|file| relative(&file).map_err(|why| format!("warmup file {why}")))
        .transpose()?;
    let paths = if options.paths.is_empty() {
        &set.paths
    } else {
        &options.paths
    };
    let ranks_per_partition = number(|s| s.ranks_per_partition, 1);
    let all = partitions.saturating_mul(ranks_per_partition);
    let task = WarmupTask {
        partition: 0,
        partitions,
        strategy: options
            .strategy_name
            .or(set.strategy_name)
            .unwrap_or_default(),
        ranks_per_partition,
        replicas: number(|s| s.replicas, all),
        batch_size: number(|s| s.batch_size, 1),
        epoch: number(|s| s.epoch, 0),
        drop_last: samplers
            .into_iter()
            .flatten()
            .find_map(|sampler| sampler.drop_last)
            .unwrap_or(false),
        order: samplers
            .into_iter()
            .flatten()
            .find_map(|sampler| sampler.order)
            .unwrap_or(match file {
                Some(_) => SampleOrder::List,
                None => SampleOrder::All,
            }),
        paths: all_relative("warmup paths", paths)?,
        threads: options.threads.or(set.threads.map(i64::from)).unwrap_or(50),
        file,
        evict_others: false,
    };
    for (name, value) in [
        (
            "sampler.ranksPerPartition",
            i64::from(task.ranks_per_partition),
        ),
        ("sampler.replicas", i64::from(task.replicas)),
        ("sampler.batchSize", i64::from(task.batch_size)),
        ("sampler.epoch + 1", i64::from(task.epoch) + 1),
        ("threads", task.threads),
    ] {
        if value < 1 {
            return Err(format!("warmup {name} is {value}; it must be 1 or more"));
        }
    }
    if task.threads > MAX_THREADS {
        return Err(format!(
            "warmup threads is {}; it must be at most {MAX_THREADS}",
            task.threads
        ));
    }
    if task.order == SampleOrder::List && task.file.is_none() {
        return Err("warmup sampler.order is list, but warmup file names no list".to_owned());
    }
    Ok(task)
}

/// The dropping of cached blocks.
pub fn clear(paths: &[String]) -> Result<Task, String> {
    let paths = all_relative("clearOptions.paths", paths)?;
    Ok(Task::Clear { paths })
}

/// The removal of data.
pub fn rmr(paths: &[String]) -> Result<Task, String> {
    if paths.is_empty() {
        return Err(
            "rmrOptions.paths is missing: a job of type rmr needs at least one path to remove"
                .to_owned(),
        );
    }
    let mut paths = all_relative("rmrOptions.paths", paths)?;
    paths.sort();
    paths.dedup();
    // What lies in another one goes with it, and would then be missing.
    let lies_in = |path: &String, other: &String| path != other && lies_below(path, other);
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|other| lies_in(path, other)));
    Ok(Task::Rmr { paths })
}

impl SyncTask {
    /// Whether it copies all that `other` does, which has no options. How it does so does
    /// not matter, nor what it copies or deletes besides.
    pub(crate) fn covers(&self, other: &SyncTask) -> bool {
        let options = &self.options;
        let picks = [
            &options.start,
            &options.end,
            &options.exclude,
            &options.include,
        ];
        let mut picks = picks.into_iter().flatten();
        self.source == other.source
            && self.destination == other.destination
            && options.dry != Some(true)
            && picks.all(String::is_empty)
    }
}

impl WarmupTask {
    /// The same for one partition.
    pub fn of(&self, partition: i32, evict_others: bool) -> Task {
        Task::Warmup(WarmupTask {
            partition,
            evict_others,
            ..self.clone()
        })
    }

    /// Fingerprint of what is cached where, whatever the number of threads.
    pub(crate) fn key(&self) -> String {
        let shuffles = self.strategy == WarmupStrategy::Random;
        crate::fingerprint::of(&(
            (self.partitions, shuffles, self.ranks_per_partition),
            (self.replicas, self.batch_size, self.epoch, self.drop_last),
            (self.order, &self.paths, &self.file),
        ))
    }
}
