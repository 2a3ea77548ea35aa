//! Fluent builders: `set("imagenet").partitions(2)`, `job("a", Operation::Clear)`.

use api::{
    Operation, SampleJob, SampleJobSpec, SampleSet, SampleSetSpec, SampleSource, SecretReference,
};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::operation::{Done, Listing, State};
use plan::sampleset::VolumeSecret;
use plan::{samplejob, sampleset};

/// The uid of every set here.
pub const SET_UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

/// The time of every test that has only one.
pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// As the operator runs in a cluster.
pub fn settings() -> sampleset::Settings {
    let prefixes = ["/dev/shm", "/var/lib/juicefs", "/mnt", "/data"];
    sampleset::Settings {
        runtime_image: "paddle-operator:test".to_owned(),
        cache_path_prefixes: prefixes.map(str::to_owned).to_vec(),
        allow_local_paths: false,
        default_volume_dir: None,
        free_space_ratio: None,
    }
}

pub fn job_settings() -> samplejob::Settings {
    samplejob::Settings {
        allow_local_paths: false,
        time_zone: TimeZone::UTC,
    }
}

pub fn secret_ref(name: &str) -> Option<SecretReference> {
    Some(SecretReference {
        name: Some(name.to_owned()),
        namespace: None,
    })
}

/// The Secret of the tutorial, with some data more or less.
pub fn secret(data: &[(&str, &str)]) -> VolumeSecret {
    VolumeSecret::read(data.iter().map(|(key, value)| (*key, value.as_bytes())))
}

pub const REDIS: [(&str, &str); 4] = [
    ("name", "imagenet"),
    ("storage", "redis"),
    ("bucket", "redis://192.168.7.227:6379/1"),
    ("metaurl", "redis://:sesame@192.168.7.227:6379/0\n"),
];

/// The SampleSet of the tutorial, just created.
pub fn set(name: &str) -> SampleSet {
    let spec = SampleSetSpec {
        source: Some(SampleSource {
            uri: Some("bos://public.hkg.bcebos.com/imagenet/demo".to_owned()),
            secret_ref: None,
        }),
        secret_ref: secret_ref("imagenet"),
        ..SampleSetSpec::default()
    };
    let mut set = SampleSet::new(name, spec);
    set.metadata.namespace = Some("paddle-system".to_owned());
    set.metadata.uid = Some(SET_UID.to_owned());
    set.metadata.generation = Some(1);
    set
}

pub trait SetExt: Sized {
    fn edit(self, edit: impl FnOnce(&mut SampleSetSpec)) -> Self;
    fn partitions(self, partitions: i32) -> Self {
        self.edit(|spec| spec.partitions = Some(partitions))
    }
    fn source(self, uri: &str) -> Self {
        self.edit(|spec| spec.source.get_or_insert_default().uri = Some(uri.to_owned()))
    }
    fn no_sync(self) -> Self {
        self.edit(|spec| spec.no_sync = Some(true))
    }
}

impl SetExt for SampleSet {
    /// Changes the spec as a user does: the generation counts.
    fn edit(mut self, edit: impl FnOnce(&mut SampleSetSpec)) -> SampleSet {
        edit(&mut self.spec);
        self.metadata.generation = self.metadata.generation.map(|generation| generation + 1);
        self
    }
}

/// A SampleJob for the set `imagenet`, created now.
pub fn job(name: &str, type_: Operation) -> SampleJob {
    let spec = SampleJobSpec {
        type_: Some(type_),
        sample_set_ref: Some(api::LocalSampleSetReference {
            name: Some("imagenet".to_owned()),
        }),
        ..SampleJobSpec::default()
    };
    let mut job = SampleJob::new(name, spec);
    job.metadata.namespace = Some("paddle-system".to_owned());
    job.metadata.uid = Some(format!("uid-{name}"));
    job.metadata.generation = Some(1);
    job.metadata.creation_timestamp = Some(Time(now()));
    job
}

pub trait JobExt: Sized {
    fn edit(self, edit: impl FnOnce(&mut SampleJobSpec)) -> Self;
    fn created(self, at: Timestamp) -> Self;
    fn terminate(self) -> Self {
        self.edit(|spec| spec.terminate = Some(true))
    }
    fn removes(self, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        self.edit(|spec| spec.rmr_options = Some(api::RmrOptions { paths }))
    }
}

impl JobExt for SampleJob {
    fn edit(mut self, edit: impl FnOnce(&mut SampleJobSpec)) -> SampleJob {
        edit(&mut self.spec);
        self.metadata.generation = self.metadata.generation.map(|generation| generation + 1);
        self
    }

    fn created(mut self, at: Timestamp) -> SampleJob {
        self.metadata.creation_timestamp = Some(Time(at));
        self
    }
}

/// An operation that did what it should.
pub fn succeeded() -> State {
    State::Succeeded(Done {
        listing: Some(Listing {
            count: 1284,
            crc: 7,
        }),
        files: 1284,
        bytes: 58 << 20,
        cached_bytes: 58 << 20,
    })
}

pub fn failed(reason: &str, message: &str) -> State {
    State::Failed {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

pub fn running() -> State {
    State::Running(api::Progress {
        files: Some(10),
        total_files: Some(100),
        bytes: Some(1),
        total_bytes: Some(10),
        percent: None,
    })
}
