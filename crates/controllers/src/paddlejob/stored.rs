//! A PaddleJob as it is stored, which need not be one that can be read.

use std::borrow::Cow;

use api::{PaddleJob, PaddleJobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::wire::slim_meta;

/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// So much of a path is named.
const MAX_PATH: usize = 200;

/// A job, or what is left of one that does not fit its type. One bad object
/// must not stop the watch that carries the others.
#[derive(Clone, Debug)]
pub enum StoredJob {
    /// It can be read.
    Good(Box<PaddleJob>),
    /// It can't.
    Bad(Box<BadJob>),
}

/// What can be read of a job that does not fit its type.
#[derive(Clone, Debug)]
pub struct BadJob {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its status, if that at least can be read.
    pub status: Option<PaddleJobStatus>,
    /// What is wrong with it.
    pub error: String,
}

/// The parts of a job, not looked into. A parser of JSON gives up at a certain
/// depth; here it would give up on the whole list or watch, and one job in one
/// namespace would stop those of all.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for StoredJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Parts {
            mut metadata,
            spec,
            status,
        } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        // What nobody reads here would be most of the memory.
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(LAST_APPLIED);
        }
        let (spec, status) = (read(spec, "spec"), read(status, "status"));
        Ok(match (spec, status) {
            (Ok(Some(spec)), Ok(status)) => {
                let mut job = PaddleJob::new("", spec);
                (job.metadata, job.status) = (metadata, status);
                StoredJob::Good(Box::new(job))
            }
            (spec, status) => {
                let missing = || "spec is missing".to_owned();
                let error = spec.err().or(status.clone().err()).unwrap_or_else(missing);
                StoredJob::Bad(Box::new(BadJob {
                    metadata,
                    status: status.unwrap_or_default(),
                    error,
                }))
            }
        })
    }
}

/// Reads a part of a job, if it is there; an error names the field.
fn read<T: DeserializeOwned>(part: Option<&RawValue>, name: &str) -> Result<Option<T>, String> {
    let Some(part) = part.filter(|part| part.get() != "null") else {
        return Ok(None);
    };
    let mut json = serde_json::Deserializer::from_str(part.get());
    serde_path_to_error::deserialize(&mut json)
        .map(Some)
        .map_err(|error| {
            let (path, found) = (error.path().to_string(), error.inner().to_string());
            // Nobody sees the text in which this would be the position.
            let found = found
                .rsplit_once(" at line ")
                .map_or(found.as_str(), |all| all.0);
            match path.as_str() {
                "." => format!("{name}: {found}"),
                path => format!("{name}.{}: {found}", cut(path)),
            }
        })
}

/// A path may lead deep down.
fn cut(path: &str) -> &str {
    path.get(..path.floor_char_boundary(MAX_PATH))
        .unwrap_or_default()
}

impl Resource for StoredJob {
    type DynamicType = ();
    type Scope = <PaddleJob as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        PaddleJob::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        PaddleJob::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        PaddleJob::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        PaddleJob::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            StoredJob::Good(job) => &job.metadata,
            StoredJob::Bad(job) => &job.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            StoredJob::Good(job) => &mut job.metadata,
            StoredJob::Bad(job) => &mut job.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
    fn a_job_that_does_not_fit_keeps_its_name_and_says_why() {
        let job: StoredJob = serde_json::from_value(json!({
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": "a", "namespace": "b", "managedFields": [{"manager": "m"}]},
            "spec": {"worker": {"replicas": "two"}},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        let StoredJob::Bad(bad) = job else {
            panic!("it was read")
        };
        assert_eq!(bad.metadata.name.as_deref(), Some("a"));
        assert_eq!(bad.metadata.managed_fields, None);
        assert_eq!(bad.status.unwrap().phase, Some(api::Phase::Running));
        assert_eq!(
            bad.error,
            "spec.worker.replicas: invalid type: string \"two\", expected i32"
        );
    }

    #[test]
    #[expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
    fn a_job_too_deep_to_read_spoils_no_list() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
        let template = format!(r#"{{"spec": {{"containers": [], "unknown": {deep}}}}}"#);
        let spec = format!(r#"{{"worker": {{"replicas": 1, "template": {template}}}}}"#);
        let meta = format!(r#"{{"name": "a", "managedFields": [{{"fieldsV1": {deep}}}]}}"#);
        let list = format!(
            r#"{{"apiVersion": "v1", "kind": "List", "metadata": {{}}, "items": [
                {{"metadata": {meta}, "spec": {spec}}}, {{"metadata": {{}}, "spec": {{}}}}]}}"#
        );
        let list: kube::core::ObjectList<StoredJob> = serde_json::from_str(&list).unwrap();
        let [StoredJob::Bad(bad), StoredJob::Good(_)] = list.items.as_slice() else {
            panic!("{:?}", list.items)
        };
        assert_eq!(bad.metadata.name.as_deref(), Some("a"));
        assert!(
            bad.error.starts_with("spec.worker.template"),
            "{}",
            bad.error
        );
        assert!(bad.error.contains("recursion limit"), "{}", bad.error);
        assert!(bad.error.len() < 300, "{}", bad.error);
    }
}
