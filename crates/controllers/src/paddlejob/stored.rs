//! A PaddleJob as it is stored, which need not be one that can be read.

use std::borrow::Cow;

use api::{PaddleJob, PaddleJobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

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

impl<'de> Deserialize<'de> for StoredJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        // What nobody reads here would be most of the memory.
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove(LAST_APPLIED);
            }
        }
        match PaddleJob::deserialize(&value) {
            Ok(job) => Ok(StoredJob::Good(Box::new(job))),
            Err(error) => Ok(StoredJob::Bad(Box::new(BadJob {
                metadata: part(&value, "metadata").unwrap_or_default(),
                status: part(&value, "status"),
                error: error.to_string(),
            }))),
        }
    }
}

fn part<T: serde::de::DeserializeOwned>(value: &Value, key: &str) -> Option<T> {
    T::deserialize(value.get(key)?).ok()
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
        assert!(bad.error.contains("two"), "{}", bad.error);
    }
}
