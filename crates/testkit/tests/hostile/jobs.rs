//! The jobs of the test's namespace: how they are written, read and judged.

use anyhow::{Context as _, Result, anyhow, ensure};
use api::{ConditionStatus, PaddleJob, PaddleJobStatus, Phase};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::objects::{Answer, Hostile};

/// The jobs in one namespace.
pub struct Jobs {
    pub client: Client,
    pub namespace: String,
}

/// What can be read of any job: a parser passes over the rest however deep it is.
#[derive(Debug, Deserialize)]
pub struct Read {
    pub metadata: ReadMeta,
    #[serde(default)]
    status: Option<PaddleJobStatus>,
}

#[derive(Debug, Deserialize)]
pub struct ReadMeta {
    name: String,
    #[serde(default)]
    pub finalizers: Vec<String>,
}

impl Jobs {
    fn request(&self) -> Request {
        Request::new(PaddleJob::url_path(&(), Some(&self.namespace)))
    }

    /// Sends a job as it is.
    pub async fn create(&self, body: &str, dry_run: bool) -> kube::Result<()> {
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let request = self
            .request()
            .create(&params, body.to_owned().into_bytes())
            .map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await.map(drop)
    }

    /// Stores a job, and the status that somebody forges.
    pub async fn store(&self, hostile: &Hostile) -> Result<()> {
        let what = hostile.what;
        let stored = self.create(&hostile.body, false).await;
        stored.with_context(|| format!("{what} can't be stored"))?;
        if let Some(status) = &hostile.forged_status {
            let patch = Patch::Merge(json!({"status": status}));
            let request = self.request().patch_subresource(
                "status",
                &name(hostile)?,
                &PatchParams::default(),
                &patch,
            )?;
            let forged = self.client.request_text(request).await;
            forged.with_context(|| format!("the status of {what} can't be forged"))?;
        }
        Ok(())
    }

    /// Gives a stored job the spec of this one.
    pub async fn replace_spec(&self, good: &Hostile) -> Result<()> {
        let good_body: Value = serde_json::from_str(&good.body)?;
        let patch = Patch::Merge(json!({"spec": good_body.get("spec")}));
        let request = self
            .request()
            .patch(&name(good)?, &PatchParams::default(), &patch)?;
        self.client.request_text(request).await?;
        Ok(())
    }

    pub async fn read(&self, name: &str) -> Result<Read> {
        let request = self.request().get(name, &kube::api::GetParams::default())?;
        let text = self.client.request_text(request).await?;
        Ok(serde_json::from_str(&text)?)
    }

    pub async fn pod(&self, name: &str) -> Result<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        api.get(name).await.with_context(|| format!("pod {name}"))
    }

    /// The API server refuses it, in words that help.
    pub async fn is_refused(&self, hostile: &Hostile) -> Result<()> {
        let Answer::Refused(words) = &hostile.answer else {
            return Err(anyhow!("{} is not meant to be refused", hostile.what));
        };
        let Err(error) = self.create(&hostile.body, false).await else {
            return Err(anyhow!("{} was accepted", hostile.what));
        };
        let said = match error {
            kube::Error::Api(status) => status.message,
            other => other.to_string(),
        };
        contains(&said, words).with_context(|| hostile.what)
    }

    /// The manager has given the answer that it should.
    pub async fn is_answered(&self, hostile: &Hostile) -> Result<()> {
        let name = name(hostile)?;
        let job = self.read(&name).await.context(hostile.what)?;
        let status = job.status.unwrap_or_default();
        let judged = match &hostile.answer {
            Answer::Refused(_) => Err(anyhow!("the API server refuses it")),
            Answer::Condition(reason, words) => match is_held_back(&status, reason, words) {
                Ok(()) => self.was_warned(&name, reason, words).await,
                wrong => wrong,
            },
            Answer::Waits(reason, words) => is_held_back(&status, reason, words),
            Answer::OnlyWarned(reason, words) => self.was_warned(&name, reason, words).await,
            Answer::Warning(reason, words) => match is_running(&status) {
                Ok(()) => self.was_warned(&name, reason, words).await,
                wrong => wrong,
            },
            Answer::Runs => is_running(&status),
        };
        judged.with_context(|| hostile.what)
    }

    async fn was_warned(&self, name: &str, reason: &str, words: &[&str]) -> Result<()> {
        let warnings = self.warnings(name, reason).await?;
        let told = warnings.iter().any(|said| contains(said, words).is_ok());
        ensure!(told, "no event says {words:?}: {warnings:?}");
        Ok(())
    }

    /// What the manager has said once it did not say again with every attempt:
    /// that would bury what other jobs have to say.
    pub async fn was_warned_once(&self, hostile: &Hostile) -> Result<()> {
        if let Answer::Condition(reason, _) = &hostile.answer {
            let warnings = self.warnings(&name(hostile)?, reason).await?;
            ensure!(warnings.len() == 1, "{}: {warnings:?}", hostile.what);
        }
        Ok(())
    }

    async fn warnings(&self, name: &str, reason: &str) -> Result<Vec<String>> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let events = api.list(&about).await?.items.into_iter();
        let warnings = events
            .filter(|event| event.type_.as_deref() == Some("Warning"))
            .filter(|event| event.reason.as_deref() == Some(reason));
        Ok(warnings.filter_map(|event| event.message).collect())
    }
}

pub fn name(hostile: &Hostile) -> Result<String> {
    let read: Read = serde_json::from_str(&hostile.body)?;
    Ok(read.metadata.name)
}

/// What a job waits for before it has pods.
const HOLDS: [&str; 2] = ["Scheduled", "DataReady"];

fn is_held_back(status: &PaddleJobStatus, reason: &str, words: &[&str]) -> Result<()> {
    let held_back = status
        .conditions
        .iter()
        .find(|c| HOLDS.contains(&c.type_.as_str()) && c.status == ConditionStatus::False);
    let condition = held_back.with_context(|| format!("it is not held back: {status:?}"))?;
    ensure!(condition.reason == reason, "not {reason}: {condition:?}");
    contains(&condition.message, words)
}

fn is_running(status: &PaddleJobStatus) -> Result<()> {
    let running = status.phase == Some(Phase::Running);
    ensure!(running, "it does not run: {status:?}");
    Ok(())
}

fn contains(said: &str, words: &[&str]) -> Result<()> {
    let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
    let cut = said
        .get(..said.floor_char_boundary(600))
        .unwrap_or_default();
    ensure!(missing.is_empty(), "{missing:?} is not in: {cut}");
    Ok(())
}

/// The value at a path of an object, for what no type of ours has.
pub fn at(object: &impl serde::Serialize, pointer: &str) -> Result<Value> {
    let value = serde_json::to_value(object)?;
    Ok(value.pointer(pointer).cloned().unwrap_or_default())
}
